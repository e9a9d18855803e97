"""The one result that every report renders."""

from __future__ import annotations

from dataclasses import dataclass

from capaudit.model.boundary import Boundary
from capaudit.model.finding import Finding, Operation, Place


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
class Result:
    """Everything that one audit found, in report order."""

    boundaries: tuple[Boundary, ...]
    findings: tuple[Finding, ...]
    operations: tuple[Operation, ...]
    unresolved: tuple[UnresolvedCall, ...]
    pruned: tuple[PrunedBranch, ...]
    statistics: Statistics
