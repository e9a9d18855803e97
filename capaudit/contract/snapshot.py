"""The lifecycle at one moment, as a frozen value."""

from __future__ import annotations

from dataclasses import dataclass

from capaudit.contract.enablement import check_enablement
from capaudit.contract.reasons import InvalidationReason, Mode, State
from capaudit.contract.strict import Counter, Identity, check_fields, malformed


@dataclass(frozen=True, slots=True)
class LifecycleSnapshot:
    """Mode, state, reasons and counters. Raises MalformedError where they contradict each other.

    ``ticks`` counts ticks that ended, ``publications`` published transitions; they differ by one inside a
    tick that has published. ``fallback_reasons`` has one entry per fallback.
    """

    contract_version: Counter
    mode: Mode
    requested: bool
    enabled: bool
    state: State
    capture_id: Identity | None
    disable_reasons: tuple[Identity, ...]
    invalidation_reasons: tuple[InvalidationReason, ...]
    captures: Counter
    replays: Counter
    eager_ticks: Counter
    ticks: Counter
    publications: Counter
    invalidations: Counter
    fallback_reasons: tuple[Identity, ...]
    last_sequence: Counter | None
    rehearsal: bool

    def __post_init__(self) -> None:
        check_fields(self)
        check_enablement(
            mode=self.mode,
            requested=self.requested,
            enabled=self.enabled,
            state=self.state,
            capture_id=self.capture_id,
            disable_reasons=self.disable_reasons,
            invalidation_reasons=self.invalidation_reasons,
        )
        if self.replays + self.eager_ticks != self.ticks:
            raise malformed("ticks", "every tick is either a replay or eager")
        if not self.ticks <= self.publications <= self.ticks + 1:
            raise malformed("publications", "every tick publishes once")
