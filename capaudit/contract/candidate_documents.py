"""``capaudit-candidate/1``: what ``preflight`` judges, as a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from capaudit.contract.candidates import Candidate
from capaudit.contract.capabilities import CAPABILITY_NAMES, Capabilities
from capaudit.contract.carriers import Carrier, CarrierManifest, CarrierSpec
from capaudit.contract.documents import load_plain, member
from capaudit.contract.errors import MalformedError
from capaudit.contract.strict import malformed
from capaudit.model import Boundary, CaptureKind

CANDIDATE_SCHEMA: Final = "capaudit-candidate/1"


@dataclass(frozen=True, slots=True)
class BoundaryDeclaration:
    """A boundary as a document declares it; the keys are those of ``[[tool.capaudit.boundary]]``."""

    name: str
    entry: str
    capture: CaptureKind = "torch"
    completion_owned: tuple[str, ...] = ()
    cold_path: tuple[str, ...] = ()
    carriers: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    k: int = 1
    action_sequence: bool = False
    speculative: bool = False

    def boundary(self) -> Boundary:
        """Return the one declaration. Raises BoundaryRefusedError for more than one control step per replay."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Boundary(origin="candidate", **values)


@dataclass(frozen=True, slots=True)
class CandidateDocument:
    """A read document. ``boundary`` is a name where the project's configuration declares it."""

    boundary: Boundary | str
    capabilities: Capabilities
    carriers: CarrierManifest
    layout: tuple[CarrierSpec, ...]

    def candidate(self, boundary: Boundary) -> Candidate:
        """Return the candidate with the boundary that was meant."""
        return Candidate(boundary, self.capabilities, self.carriers, self.layout)


@dataclass(frozen=True, slots=True)
class _Carriers:
    carriers: tuple[Carrier, ...]


@dataclass(frozen=True, slots=True)
class _Layout:
    layout: tuple[CarrierSpec, ...] = field(default=())


def load_candidate(path: Path) -> CandidateDocument:
    """Read a candidate. Capabilities that this version does not know stay for ``preflight`` to refuse.

    Raises InputError, MalformedError with the JSON path, BoundaryRefusedError.
    """
    source = str(path)
    document = load_plain(path, CANDIDATE_SCHEMA, "candidate")
    unknown = sorted(document.keys() - {"boundary", "capabilities", "carriers", "layout"})
    if unknown:
        raise _at(source, malformed("$", f"unknown key {unknown[0][:60]!r}"))
    for name in ("boundary", "capabilities", "carriers"):
        if name not in document:
            raise _at(source, malformed("$", f"the key {name!r} is missing"))
    declared = document["boundary"]
    boundary: Boundary | str
    if isinstance(declared, str) and declared:
        boundary = declared
    else:
        if isinstance(declared, Mapping):
            declared = {name.replace("-", "_"): value for name, value in declared.items()}
        boundary = member(BoundaryDeclaration, declared, source, "$.boundary").boundary()
    carriers = member(_Carriers, {"carriers": document["carriers"]}, source, "$").carriers
    layout = member(_Layout, {"layout": document.get("layout", [])}, source, "$").layout
    try:
        manifest = CarrierManifest(carriers)
    except MalformedError as error:
        raise _at(source, error) from None
    return CandidateDocument(boundary, _capabilities(document["capabilities"], source), manifest, layout)


def _capabilities(declared: object, source: str) -> Capabilities:
    if not isinstance(declared, Mapping):
        raise _at(source, malformed("$.capabilities", "expected an object"))
    known = {name: value for name, value in declared.items() if name in CAPABILITY_NAMES}
    unknown = tuple(sorted(name for name in declared if name not in CAPABILITY_NAMES))
    return replace(member(Capabilities, known, source, "$.capabilities"), unknown=unknown)


def _at(source: str, error: MalformedError) -> MalformedError:
    return MalformedError(error.message, place=f"{source}: {error.place}", refusals=error.refusals)
