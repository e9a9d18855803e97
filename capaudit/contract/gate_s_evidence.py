"""``capaudit-gate-s/1``: what was observed of eager and captured trajectories, before anybody judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from capaudit.contract.gate_words import (
    GROUPED_FIELDS,
    MAX_TOLERANCE,
    TOLERANT_FIELDS,
    Arm,
    Fault,
    Field,
    Mask,
    Outcome,
    Trajectory,
)
from capaudit.contract.manifest import RunManifest
from capaudit.contract.reasons import CONTRACT_VERSION
from capaudit.contract.strict import Counter, Finite, GitHead, Identity, Positive, Sha256, Text, check_fields, malformed
from capaudit.model import AuditName

GATE_S_SCHEMA: Final = "capaudit-gate-s/1"


@dataclass(frozen=True, slots=True)
class Workload:
    """What was run. ``groups`` are the observation groups, ``mask_rows`` the worlds that each mask resets.

    ``tolerances`` maps floating-point fields to the largest absolute difference that counts as equal
    (at most 1e-4); a field that is not named must be equal bit for bit.
    """

    name: Identity
    worlds: Positive
    groups: tuple[Identity, ...]
    mask_rows: Mapping[Mask, Counter]
    tolerances: Mapping[Field, Finite]

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.groups or len(set(self.groups)) < len(self.groups):
            raise malformed("groups", "expected at least one observation group, each once")
        for name, tolerance in self.tolerances.items():
            if name not in TOLERANT_FIELDS:
                raise malformed(f"tolerances.{name}", "the field has no floating-point values and takes no tolerance")
            if not 0 <= tolerance <= MAX_TOLERANCE:
                raise malformed(f"tolerances.{name}", f"expected a number from 0 to {MAX_TOLERANCE}, found {tolerance}")


@dataclass(frozen=True, slots=True)
class Observation:
    """One field over one trajectory under one mask.

    ``elements`` counts the compared values and ``sha256`` is the digest of their bytes over all ticks;
    ``difference`` is the largest absolute difference to the eager trajectory, ``None`` where the two
    cannot be subtracted (another shape, a NaN). ``group`` is the observation group of a grouped field.
    """

    arm: Arm
    trajectory: Trajectory
    mask: Mask
    field: Field
    group: Identity | None
    elements: Counter
    sha256: Sha256
    difference: Finite | None

    def __post_init__(self) -> None:
        check_fields(self)
        if (self.group is not None) is not (self.field in GROUPED_FIELDS):
            raise malformed("group", f"{self.field} is observed {'by' if self.group is None else 'without'} group")
        if self.difference is not None and self.difference < 0:
            raise malformed("difference", "the largest absolute difference is not negative")
        if self.trajectory == "eager" and self.difference != 0:
            raise malformed("difference", "the eager trajectory is the baseline; it differs from itself by 0")

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Arm, trajectory, mask, field and group: one observation each."""
        return (self.arm, self.trajectory, self.mask, self.field, self.group or "")


@dataclass(frozen=True, slots=True)
class FaultObservation:
    """What happened when a fault was planted. ``published`` counts transitions that the faulty tick published,
    ``replays_after`` replays of the same capture after the fault, ``fallbacks`` the fallbacks that were counted.
    ``rng_restored`` is ``None`` where no rollback was due, ``draws_equal`` where the draws after it were not compared.
    ``reason`` is what the manifest or the refusal says."""

    arm: Arm
    fault: Fault
    outcome: Outcome
    reason: Text
    published: Counter
    replays_after: Counter
    fallbacks: Counter
    rng_restored: bool | None
    draws_equal: bool | None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class OrderingObservation:
    """The order of one trajectory's transitions, read by their consumer.

    Ticks count from ``first_tick`` to ``last_tick``. ``final_observations`` counts transitions that were
    published with their final observation in place. ``stale`` and ``reordered`` count transitions seen
    twice or out of order. ``capture_identities`` are the distinct identities of all receipts.
    ``empty_mask_draws`` counts random draws of resets under an empty mask.
    """

    arm: Arm
    trajectory: Trajectory
    first_tick: Counter
    last_tick: Counter
    published: Counter
    released: Counter
    final_observations: Counter
    stale: Counter
    reordered: Counter
    capture_identities: tuple[Identity, ...]
    empty_mask_draws: Counter

    def __post_init__(self) -> None:
        check_fields(self)
        if self.last_tick < self.first_tick:
            raise malformed("last_tick", "the last tick is before the first")


@dataclass(frozen=True, slots=True)
class AuditObservation:
    """One of the three static audits: packages looked at, functions reached in them, and what was found."""

    audit: AuditName
    packages: tuple[Identity, ...]
    functions: Counter
    findings: Counter
    unresolved: Counter

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class ArmRun:
    """Whether an arm was run, with one manifest per trajectory; ``reason`` says why it was not.

    ``no_go``: the candidate cannot be captured, for structural reasons that ``reason`` states and the runs
    behind the ids in ``evidence`` show. It is a result, not a gap: there was no trajectory to compare.
    """

    arm: Arm
    status: Literal["run", "not_run", "no_go"]
    reason: Text
    manifests: Mapping[Trajectory, RunManifest]
    evidence: tuple[Identity, ...]

    def __post_init__(self) -> None:
        check_fields(self)
        if self.status != "run" and not self.reason.strip():
            raise malformed("reason", "an arm that was not run has a reason")
        if self.status == "not_run" and self.manifests:
            raise malformed("manifests", "an arm that was not run has no manifests")
        if (self.status == "no_go") is not bool(self.evidence):
            raise malformed("evidence", "a no-go rests on at least one piece of evidence, and nothing else does")


@dataclass(frozen=True, slots=True)
class GateSEvidence:
    """Everything that Gate S judges. ``date`` is ISO 8601 with a time zone. Raises MalformedError."""

    contract_version: Counter
    date: Identity
    git_head: GitHead
    workload: Workload
    arms: tuple[ArmRun, ...]
    observations: tuple[Observation, ...]
    faults: tuple[FaultObservation, ...]
    orderings: tuple[OrderingObservation, ...]
    audits: tuple[AuditObservation, ...]

    def __post_init__(self) -> None:
        check_fields(self)
        require_version(self.contract_version)
        require_moment("date", self.date)
        require_unique("arms", [run.arm for run in self.arms])
        require_unique("observations", [item.key for item in self.observations])
        require_unique("faults", [(item.arm, item.fault) for item in self.faults])
        require_unique("orderings", [(item.arm, item.trajectory) for item in self.orderings])
        require_unique("audits", [item.audit for item in self.audits])
        groups = set(self.workload.groups)
        for index, item in enumerate(self.observations):
            if item.group is not None and item.group not in groups:
                raise malformed(f"observations[{index}].group", f"{item.group!r} is no group of the workload")


def require_version(version: int) -> None:
    """Raise MalformedError for another contract version."""
    if version != CONTRACT_VERSION:
        raise malformed("contract_version", f"is {version}; this is version {CONTRACT_VERSION}")


def require_moment(field: str, text: str) -> datetime:
    """Return the moment. Raises MalformedError unless it is ISO 8601 with a time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise malformed(field, f"{text[:40]!r} is not an ISO 8601 date") from None
    if moment.tzinfo is None:
        raise malformed(field, f"{text[:40]!r} has no time zone")
    return moment


def require_unique(field: str, keys: list[object]) -> None:
    """Raise MalformedError where something is observed twice, for then one of the two would decide silently."""
    seen: set[object] = set()
    for index, key in enumerate(keys):
        if key in seen:
            named = key if isinstance(key, str) else "/".join(str(part) for part in key if part)  # type: ignore[attr-defined]
            raise malformed(f"{field}[{index}]", f"{named} is there a second time")
        seen.add(key)
