"""The document that the probe writes and the audit reads: what ran, where, and what was seen.

Optional fields that hold their default are left out of the file, so that a sweep over hundreds of
operators stays small enough to be committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

SCHEMA = "capaudit-evidence/1"

EvidenceKind = Literal["ops", "opinfo", "run", "matrix", "controls"]
"""What was run: the project's idioms, PyTorch's operator database, a target, the structural questions,
the reference collector's negative controls."""

Verdict = Literal["clean", "faults", "agrees", "disagrees", "measured", "inconclusive", "failed"]
"""``clean`` and ``faults`` judge a target; ``agrees`` and ``disagrees`` compare a run with what was declared;
``measured`` had nothing declared to compare with; ``inconclusive``: a detector missed its planted fault;
``failed``: the target itself could not be run."""

JsonScalar = str | int | float | bool | None
JsonValue = JsonScalar | list["JsonValue"] | dict[str, "JsonValue"]
JsonObject = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Environment:
    """Versions and device of a run; ``None`` where the software was absent."""

    python: str
    platform: str
    gpu: str | None = None
    driver: str | None = None
    cuda: str | None = None
    torch: str | None = None
    warp: str | None = None
    mujoco: str | None = None
    mujoco_warp: str | None = None


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One Python frame. ``file`` is relative to the named ``root`` with forward slashes.

    ``text`` is the statement that ran, on one line, where the root is one of the target's own.
    """

    file: str
    line: int
    function: str
    root: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a detector saw at one source line.

    ``file`` is relative to the root called ``root`` (a package or folder name, never a local path).
    ``kind`` is the detector's word (``synchronization``, ``warp-free``, ``escape``, ...), ``hazard``
    the code that it confirms (``CAP101``) or ``None``. ``count`` is the number of times it was seen,
    ``nodes`` the graph nodes recorded by that line, by type. ``stack`` runs innermost first. ``text`` is the
    statement that ran, by which it is found again when lines have moved.
    """

    root: str
    file: str
    line: int
    function: str
    kind: str
    hazard: str | None = None
    count: int = 1
    nodes: Mapping[str, int] = field(default_factory=dict)
    stack: tuple[StackFrame, ...] = ()
    detail: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class RanFunction:
    """A function of the target's own source that ran under the detectors.

    ``line`` is its first line and ``digest`` the hash of its code, comments and blank lines aside. ``ran`` names
    the code lines that ran, counted from 0 within the function (``0-3,5``).
    """

    root: str
    file: str
    function: str
    line: int
    digest: str
    ran: str


@dataclass(frozen=True, slots=True)
class SelfProof:
    """A fault planted for one detector in the same process, and whether the detector saw it."""

    detector: str
    planted: str
    seen: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """The outcome of one idiom, operator, structural question or statement.

    ``id`` is unique in its document; ``subject`` names what it speaks of (the operation entry, the
    operator, the question). ``outcome`` is what happened and ``expected`` what had been declared.
    ``hazard`` is the declared code. ``error`` is the first error of the exception chain. ``sync`` says
    whether an eager run synchronised with the host, ``None`` where that was not looked at. ``values``
    holds measured numbers and short texts by name.
    """

    id: str
    subject: str
    outcome: str
    expected: str | None = None
    hazard: str | None = None
    error: str = ""
    sync: bool | None = None
    note: str = ""
    values: Mapping[str, JsonScalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One run of the probe in one mode. ``date`` is ISO 8601 with a time zone.

    ``sources`` are the functions that ran; without them a run can confirm a finding and refute none.
    """

    kind: EvidenceKind
    date: str
    environment: Environment
    target: JsonObject
    mode: str
    parameters: JsonObject
    verdict: Verdict
    self_proof: tuple[SelfProof, ...] = ()
    events: tuple[Event, ...] = ()
    records: tuple[Record, ...] = ()
    sources: tuple[RanFunction, ...] = ()

    def record(self, identifier: str) -> Record | None:
        """Return the record called ``identifier``, or ``None``."""
        return next((record for record in self.records if record.id == identifier), None)
