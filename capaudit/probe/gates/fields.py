"""Reads each field of Gate S off a collector after a tick: tensors for what is on the device, numbers for the rest."""

from __future__ import annotations

import json
from typing import Any

import torch

from capaudit.contract.gate_words import Field
from capaudit.probe.targets.collector import state
from capaudit.probe.targets.collector.carriers import FLAGS, transition_columns
from capaudit.probe.targets.collector.collector import ReferenceCollector

FieldKey = tuple[Field, str | None]
GROUPS = ("actor", "critic")

TOLERANCES: dict[Field, float] = dict.fromkeys(
    (
        "observations",
        "rewards",
        "reward_components",
        "terminal_observations",
        "reset_observations",
        "post_reset_observations",
        "reward_means",
        "qpos",
        "qvel",
    ),
    1e-4,
)
"""Physics adds contacts with atomic operations in no fixed order, so what follows from it agrees to rounding only."""


def read_fields(collector: ReferenceCollector) -> dict[FieldKey, Any]:
    """Return copies of every field; waits for the device."""
    tick, lifecycle = collector.tick, collector.lifecycle
    c, s = tick.carriers, tick.simulation
    masked = c.done.unsqueeze(1)
    snapshot = lifecycle.snapshot()
    rng = collector.rng.evidence()
    counters = collector.ingress.counters
    own = snapshot.capture_id or "eager"
    found: dict[FieldKey, Any] = {
        ("rewards", None): c.reward,
        ("reward_components", None): c.components,
        ("terminated", None): c.terminated,
        ("truncated", None): c.truncated,
        ("episode_counters", None): c.episode_length,
        ("reset_counters", None): torch.cat((c.episodes, c.timeouts, c.reset_draws.long())),
        ("actions", None): torch.cat((c.action, c.control), dim=1),
        ("commands", None): torch.cat((c.command, c.phase.unsqueeze(1)), dim=1),
        ("recorder_trace", None): None,
        ("reward_means", None): c.component_means,
        ("curriculum_state", None): None,
        ("metrics", None): None,
        ("qpos", None): s.position,
        ("qvel", None): s.velocity,
        ("rng_state", None): state.random_state(tick),
        ("rng_versions", None): numbers(rng.state_version, rng.draw_version),
        ("lifecycle_snapshot", None): numbers(
            snapshot.ticks, snapshot.publications, counters.released, snapshot.invalidations
        ),
        ("capture_identity", None): numbers(int(collector.receipts[-1] == own)),
        ("transition_layout", None): layout_bytes(tick.joints),
        ("transition_order", None): torch.cat((c.published, c.slot)),
        ("ingress_commit_order", None): numbers(
            counters.published,
            counters.released,
            snapshot.last_sequence or 0,
            collector.ingress.slot_of(snapshot.ticks),
        ),
    }
    for group in GROUPS:
        after = getattr(c, f"post_{group}")
        found["observations", group] = getattr(c, group)
        found["terminal_observations", group] = getattr(c, f"terminal_{group}")
        found["post_reset_observations", group] = after
        found["reset_observations", group] = torch.where(masked, after, torch.zeros_like(after))
    return {key: None if value is None else value.detach().clone() for key, value in found.items()}


def numbers(*values: int) -> torch.Tensor:
    """Return host numbers as a tensor on the CPU."""
    return torch.tensor(values, dtype=torch.int64)


def layout_bytes(joints: int) -> torch.Tensor:
    """Return the layout of a transition as bytes."""
    text = json.dumps([transition_columns(joints), FLAGS], sort_keys=True)
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


def final_observation_in_place(collector: ReferenceCollector, slot: tuple[torch.Tensor, torch.Tensor]) -> bool:
    """Whether a published slot holds the terminal observations and the flags of the tick that filled it."""
    c = collector.tick.carriers
    real, flags = slot
    columns = transition_columns(collector.tick.joints)
    begin, end = columns["terminal_observation.actor"]
    first, last = columns["terminal_observation.critic"]
    same = (
        torch.equal(real[:, begin:end], c.terminal_actor),
        torch.equal(real[:, first:last], c.terminal_critic),
        torch.equal(flags[0], c.done),
        torch.equal(flags[2], c.terminated),
    )
    return all(same)
