"""Findings and classified operations, with places and call paths as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from capaudit.model.classes import BaselineState, Confidence, EvidenceVerdict, OwnershipClass, Severity

if TYPE_CHECKING:
    from capaudit.model.fix import Fix


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A span of source. ``file`` is relative to the working directory with forward slashes; columns are 1-based."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a call path: ``function`` is entered, at ``file:line`` of the call (of the ``def`` for the entry)."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class RelatedPlace:
    """A second place that belongs to a finding, such as the capture that still reads a rebound carrier."""

    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One classified operation reachable from a boundary.

    ``owner`` is the dotted owner path (``pkg.mod.Class.method``); ``name`` names the operation in
    the knowledge tables (``torch.Tensor.item``, ``index-set``, ``call``). ``reason`` says why the
    class was given.
    """

    name: str
    text: str
    ownership: OwnershipClass
    hazard: str | None
    place: Place
    owner: str
    boundary: str
    reason: str


@dataclass(frozen=True, slots=True)
class Suppression:
    """The ``# capaudit: ignore[...] -- reason`` comment that silences a finding.

    ``rules`` are the codes or names as written; ``expires`` is the ISO date of ``until=``, if there is one.
    """

    place: Place
    rules: tuple[str, ...]
    reason: str
    expires: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What the run behind an evidence verdict was and saw.

    ``document`` names the evidence file and ``mode`` the probe's mode. ``count`` is the number of times
    that the event was seen (0 for a refutation) and ``detail`` the detector's words. ``stale``: the
    function that holds the finding reads differently now from what ran.
    """

    document: str
    mode: str
    count: int = 0
    detail: str = ""
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict that somebody has to act on.

    ``code`` is stable (``CAP103``), ``name`` its kebab alias. ``hazard`` equals ``name`` for
    rejected operations and is ``None`` for meta findings (CAP9xx). ``call_path`` runs from the
    boundary's entry to the function that holds the operation. ``why`` tells the value's story,
    oldest fact first. ``fingerprint`` survives moved lines. ``evidence`` is what a run said of the finding
    and ``observation`` which run; ``suppression`` the comment that silences it; ``baseline_state`` is
    ``None`` without a baseline. ``fix`` is a rewrite that removes the finding, where fixes were asked for.
    """

    code: str
    name: str
    ownership: OwnershipClass
    hazard: str | None
    place: Place
    statement: Place
    message: str
    confidence: Confidence
    boundary: str
    call_path: tuple[Hop, ...]
    why: tuple[str, ...]
    remedy: str
    fingerprint: str
    operation: str = ""
    text: str = ""
    related: tuple[RelatedPlace, ...] = ()
    evidence: EvidenceVerdict = EvidenceVerdict.NOT_PROBED
    observation: Observation | None = None
    severity: Severity = Severity.ERROR
    suppression: Suppression | None = None
    baseline_state: BaselineState | None = None
    fix: Fix | None = None

    @property
    def sort_key(self) -> tuple[str, Place, str, str]:
        """Order of a report: boundary, place, code."""
        return (self.boundary, self.place, self.code, self.message)
