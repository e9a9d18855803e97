"""The one result that every report renders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capaudit.model.boundary import Boundary
from capaudit.model.finding import Finding, Hop, Operation, Place


@dataclass(frozen=True, slots=True)
class PrunedBranch:
    """A branch that the audit left out, and why (a constant, an ``is_capturing`` guard, a CPU device)."""

    place: Place
    reason: str


@dataclass(frozen=True, slots=True)
class UnresolvedCall:
    """A reachable call whose callee is not known, with what would settle it."""

    place: Place
    text: str
    receiver: str
    settle: str
    owner: str
    boundary: str


@dataclass(frozen=True, slots=True)
class ReachedFunction:
    """A function that captured work enters; ``place`` spans its source, decorators included.

    ``callers`` are its call sites inside the boundary, each with the function that holds it. The first
    belongs to the shortest call path, so that first callers alone form a tree; the entry has none.
    """

    owner: str
    place: Place
    boundary: str
    callers: tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of one audit. ``by_class`` has a key per ownership class value; ``seconds`` is wall time."""

    files: int
    functions_reachable: int
    operations: int
    calls: int
    by_class: dict[str, int]
    unresolved: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BaselineEntry:
    """One accepted finding in a baseline file. Line numbers are not kept: they move.

    ``file`` is relative to the baseline's folder, ``function`` the name within its module, ``text`` the
    operation. ``added`` is an ISO date; ``count`` says how many findings read alike there.
    """

    fingerprint: str
    code: str
    file: str
    function: str
    text: str
    reason: str
    added: str
    boundary: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """Static against observed for one hazard. ``missed`` counts events that no finding predicted."""

    code: str
    name: str
    confirmed: int = 0
    refuted: int = 0
    not_exercised: int = 0
    missed: int = 0


@dataclass(frozen=True, slots=True)
class EvidenceSummary:
    """The evidence that was joined: the documents by name, and one row per hazard in code order.

    ``stale`` counts the events and findings whose function reads differently now from what ran;
    ``unexercised`` names the boundaries whose entry no run on a device executed as it reads today,
    ``foreign`` the documents that speak of no audited file.
    """

    documents: tuple[str, ...]
    rows: tuple[EvidenceRow, ...]
    stale: int = 0
    unexercised: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


AuditName = Literal["environment", "backend", "collector"]
"""The three static audits that a capture decision asks for, by the packages that they look at."""


@dataclass(frozen=True, slots=True)
class StaticAudit:
    """What one of the three audits found in its packages.

    ``functions`` counts the functions of the packages that a boundary reaches, read or known from the
    knowledge tables. ``findings`` counts all of them, whatever the selection of rules; ``unresolved`` the
    calls that nobody could follow.
    """

    audit: AuditName
    packages: tuple[str, ...]
    functions: int
    findings: int
    unresolved: int


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that one audit found, in report order.

    ``findings`` are those that somebody has to act on. What a comment silences is in ``suppressed``, what
    the baseline accepts in ``baselined``; ``absent`` are baseline entries that nothing matches any more.
    ``files`` are all that were read, named as places name them.
    """

    boundaries: tuple[Boundary, ...]
    findings: tuple[Finding, ...]
    operations: tuple[Operation, ...]
    unresolved: tuple[UnresolvedCall, ...]
    pruned: tuple[PrunedBranch, ...]
    statistics: Statistics
    suppressed: tuple[Finding, ...] = ()
    baselined: tuple[Finding, ...] = ()
    absent: tuple[BaselineEntry, ...] = ()
    evidence: EvidenceSummary | None = None
    files: tuple[str, ...] = ()
    functions: tuple[ReachedFunction, ...] = ()
    audits: tuple[StaticAudit, ...] = ()
