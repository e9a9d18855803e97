"""What "enabled" means; the lifecycle's snapshot and the run manifest both answer to it."""

from __future__ import annotations

from capaudit.contract.reasons import InvalidationReason, Mode, State
from capaudit.contract.strict import malformed


def check_enablement(
    *,
    mode: Mode,
    requested: bool,
    enabled: bool,
    state: State,
    capture_id: str | None,
    disable_reasons: tuple[str, ...],
    invalidation_reasons: tuple[InvalidationReason, ...],
) -> None:
    """Hold the seven fields to each other. Raises MalformedError with the field that contradicts.

    Enabled: mode graph, requested, state ready, a capture id and no reasons. Not enabled: no capture id
    and at least one reason.
    """
    if requested is not (mode == "graph"):
        raise malformed("requested", f"mode {mode} and requested {requested} contradict each other")
    if mode == "disabled" and state != "unavailable":
        raise malformed("state", f"mode disabled has the state unavailable, not {state}")
    if mode == "eager" and state not in ("eager", "unavailable"):
        raise malformed("state", f"mode eager has the state eager or unavailable, not {state}")
    if enabled is not (state == "ready"):
        raise malformed("enabled", f"enabled {enabled} and the state {state} contradict each other")
    if enabled:
        if mode != "graph":
            raise malformed("mode", f"enabled means mode graph, not {mode}")
        if capture_id is None:
            raise malformed("capture_id", "enabled means a capture id")
        if disable_reasons:
            raise malformed("disable_reasons", "enabled means no disable reasons")
        if invalidation_reasons:
            raise malformed("invalidation_reasons", "enabled means no invalidation reasons")
        return
    if capture_id is not None:
        raise malformed("capture_id", "not enabled means no capture id")
    if not disable_reasons and not invalidation_reasons:
        raise malformed("disable_reasons", "not enabled means at least one reason")
    if state == "invalidated" and not invalidation_reasons:
        raise malformed("invalidation_reasons", "the state invalidated means an invalidation reason")
