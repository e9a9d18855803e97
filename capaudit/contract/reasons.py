"""The closed words of the contract: version, modes, states, reasons."""

from __future__ import annotations

from typing import Final, Literal, get_args

CONTRACT_VERSION: Final = 1

Mode = Literal["disabled", "eager", "graph"]
"""Chosen on the cold path; never changes inside a tick."""

State = Literal["unavailable", "eager", "ready", "invalidated"]
"""``unavailable``: nothing may run under the contract. ``eager``: ticks run uncaptured. ``ready``: there is a
valid capture. ``invalidated``: there was one, and it may not be replayed any more."""

InvalidationReason = Literal["model", "data", "view", "capacity", "policy_io", "stream_event", "capture_failed"]

MODES: Final[tuple[Mode, ...]] = get_args(Mode)
STATES: Final[tuple[State, ...]] = get_args(State)
INVALIDATION_REASONS: Final[tuple[InvalidationReason, ...]] = get_args(InvalidationReason)
