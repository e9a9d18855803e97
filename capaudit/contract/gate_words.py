"""What both gates speak of: arms, trajectories, masks, the fields that are compared, the faults that are planted."""

from __future__ import annotations

from typing import Final, Literal, get_args

from capaudit.model import AuditName

Arm = Literal["null", "mps"]
"""``null``: the collector has the GPU's context to itself. ``mps``: it shares it through NVIDIA MPS."""

Trajectory = Literal["eager", "graph", "warmup_replay"]
"""The baseline, replays alone, and eager warm-up with capture and replays in one run."""

Mask = Literal["empty", "partial", "full"]
"""Which worlds a tick resets."""

Field = Literal[
    "observations", "rewards", "reward_components", "terminated", "truncated", "episode_counters", "reset_counters",
    "actions", "commands", "recorder_trace", "reward_means", "curriculum_state", "metrics", "terminal_observations",
    "reset_observations", "post_reset_observations", "qpos", "qvel", "rng_state", "rng_versions", "lifecycle_snapshot",
    "capture_identity", "transition_layout", "transition_order", "ingress_commit_order",
]  # fmt: skip
"""Every field in which the eager and the captured trajectory must be equal."""

Fault = Literal[
    "replay_failed_unpublished", "replay_failed_published", "replay_failed_fallback_forbidden", "stale_receipt",
    "foreign_identity", "malformed_receipt", "malformed_manifest", "unsupported_capability", "rng_rollback",
    "invalidated_model", "invalidated_data", "invalidated_view", "invalidated_capacity", "invalidated_policy_io",
    "invalidated_stream_event", "invalidated_capture_failed",
]  # fmt: skip

Outcome = Literal["fell_back", "failed_closed", "refused", "invalidated", "restored", "unnoticed"]
"""What the collector did about a planted fault; ``unnoticed`` is never right."""

ARMS: Final[tuple[Arm, ...]] = get_args(Arm)
TRAJECTORIES: Final[tuple[Trajectory, ...]] = get_args(Trajectory)
MASKS: Final[tuple[Mask, ...]] = get_args(Mask)
FIELDS: Final[tuple[Field, ...]] = get_args(Field)
AUDITS: Final[tuple[AuditName, ...]] = get_args(AuditName)

GROUPED_FIELDS: Final[frozenset[Field]] = frozenset(
    {"observations", "terminal_observations", "reset_observations", "post_reset_observations"}
)
"""Fields with one observation per observation group."""

TOLERANT_FIELDS: Final[frozenset[Field]] = GROUPED_FIELDS | {
    "rewards", "reward_components", "reward_means", "qpos", "qvel", "actions", "commands", "metrics",
    "curriculum_state",
}  # fmt: skip
"""Fields of floating-point values, for which a workload may declare a tolerance."""

MAX_TOLERANCE: Final = 1e-4
"""The largest tolerance that still counts as equality."""

ABSENT_FIELDS: Final[frozenset[Field]] = frozenset({"recorder_trace", "curriculum_state", "metrics"})
"""Fields whose owners preflight rejects, so that a workload may have none of them: observed with 0 elements."""

FAULTS: Final[dict[Fault, Outcome]] = {
    "replay_failed_unpublished": "fell_back",
    "replay_failed_published": "failed_closed",
    "replay_failed_fallback_forbidden": "failed_closed",
    "stale_receipt": "refused",
    "foreign_identity": "refused",
    "malformed_receipt": "refused",
    "malformed_manifest": "refused",
    "unsupported_capability": "refused",
    "rng_rollback": "restored",
    "invalidated_model": "invalidated",
    "invalidated_data": "invalidated",
    "invalidated_view": "invalidated",
    "invalidated_capacity": "invalidated",
    "invalidated_policy_io": "invalidated",
    "invalidated_stream_event": "invalidated",
    "invalidated_capture_failed": "invalidated",
}
"""Each planted fault and what the contract wants to happen."""
