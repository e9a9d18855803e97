"""Runs the three trajectories of Gate S and compares them field by field.

Each tick of a captured trajectory starts from the physics state that the eager one had there: contacts are appended
in no fixed order, so that free-running twins part by rounding alone, and a comparison would say nothing about capture.
Everything else (actions, commands, counters, generators, ingress, previous observations) runs freely.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from capaudit.contract.gate_s_evidence import Observation, OrderingObservation
from capaudit.contract.gate_words import MASKS, TRAJECTORIES, Arm, Mask, Trajectory
from capaudit.probe.gates.fields import FieldKey, final_observation_in_place, read_fields
from capaudit.probe.gates.plan import WARMUP_TICKS, PlannedTick, mask_rows, planned_ticks, set_inputs
from capaudit.probe.targets.collector import state
from capaudit.probe.targets.collector.collector import ReferenceCollector

_FORCED = ("position", "velocity", "warm_start", "time", "physics_control")
_Values = list[torch.Tensor | None]
Build = Callable[[Trajectory], ReferenceCollector]


@dataclass(slots=True)
class Ran:
    """One trajectory: the fields after each tick, physics before each tick, and its ordering."""

    trajectory: Trajectory
    collector: ReferenceCollector
    ticks: list[dict[FieldKey, Any]] = field(default_factory=list)
    physics: list[dict[str, torch.Tensor]] = field(default_factory=list)
    final: int = 0
    stale: int = 0
    reordered: int = 0
    empty_draws: int = 0
    wrong_rows: list[str] = field(default_factory=list)


def run_trajectory(
    collector: ReferenceCollector, trajectory: Trajectory, seed: int, reference: Ran | None = None
) -> Ran:
    """Run one prepared collector. Raises what a replay raises."""
    ran = Ran(trajectory, collector)
    for planned in planned_ticks(seed):
        if trajectory == "warmup_replay" and planned.number == WARMUP_TICKS:
            collector.capture()
        _run_tick(ran, planned, reference)
    return ran


def _run_tick(ran: Ran, planned: PlannedTick, reference: Ran | None) -> None:
    collector = ran.collector
    tick = collector.tick
    if reference is not None:
        physics = state.physics_tensors(tick)
        for name, values in reference.physics[planned.number].items():
            physics[name].copy_(values)
    set_inputs(tick, planned)
    ran.physics.append({name: state.physics_tensors(tick)[name].clone() for name in _FORCED})
    drawn = tick.carriers.reset_draws.clone()
    collector.runner.synchronize()
    collector.step()
    collector.runner.synchronize()
    slot = collector.ingress.read(planned.number, host=True)
    ran.final += int(final_observation_in_place(collector, slot))
    collector.ingress.release(planned.number)
    published = int(tick.carriers.published)
    ran.stale += int(published <= planned.number)
    ran.reordered += int(published != planned.number + 1 or int(tick.carriers.slot) != published % 2)
    rows = int(tick.carriers.done.sum())
    if planned.mask == "empty":
        ran.empty_draws += int((tick.carriers.reset_draws - drawn).sum())
    if rows != mask_rows(tick.worlds)[planned.mask]:
        ran.wrong_rows.append(f"tick {planned.number} resets {rows} worlds under the {planned.mask} mask")
    ran.ticks.append(read_fields(collector))


def observe(arm: Arm, ran: Ran, reference: Ran, seed: int) -> Iterable[Observation]:
    """Compare a trajectory with the eager one, per mask and field."""
    for mask, (name, group), mine, theirs in _pairs(ran, reference, seed):
        elements, digest = digest_of(mine)
        yield Observation(
            arm=arm,
            trajectory=ran.trajectory,
            mask=mask,
            field=name,
            group=group,
            elements=elements,
            sha256=digest,
            difference=0.0 if ran is reference else difference_of(mine, theirs),
        )


def _pairs(ran: Ran, reference: Ran, seed: int) -> Iterable[tuple[Mask, FieldKey, _Values, _Values]]:
    """Yield a field's values under one mask, tick after tick, in a trajectory and in the one it is held against."""
    ticks = list(planned_ticks(seed))
    for mask in MASKS:
        chosen = [planned.number for planned in ticks if planned.mask == mask]
        for key in reference.ticks[0]:
            mine = [ran.ticks[number][key] for number in chosen]
            theirs = [reference.ticks[number][key] for number in chosen]
            yield mask, key, mine, theirs


def digest_of(values: Iterable[torch.Tensor | None]) -> tuple[int, str]:
    """Return the number of elements and the SHA-256 of their bytes, tick after tick."""
    digest, elements = hashlib.sha256(), 0
    for value in values:
        if value is not None:
            elements += value.numel()
            digest.update(value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return elements, digest.hexdigest()


def difference_of(mine: Iterable[torch.Tensor | None], theirs: Iterable[torch.Tensor | None]) -> float | None:
    """Return the largest absolute difference, ``None`` where the two cannot be subtracted."""
    largest = 0.0
    for left, right in zip(mine, theirs, strict=True):
        if left is None or right is None:
            continue
        if left.shape != right.shape or left.dtype != right.dtype:
            return None
        distance = float((left.double() - right.double()).abs().max())
        if distance != distance:
            return None
        largest = max(largest, distance)
    return largest


def order_of(arm: Arm, ran: Ran) -> OrderingObservation:
    """Describe the order in which a trajectory's transitions reached their consumer."""
    counters = ran.collector.ingress.counters
    identities = tuple(dict.fromkeys(ran.collector.receipts))
    return OrderingObservation(
        arm=arm,
        trajectory=ran.trajectory,
        first_tick=0,
        last_tick=max(0, len(ran.ticks) - 1),
        published=counters.published,
        released=counters.released,
        final_observations=ran.final,
        stale=ran.stale,
        reordered=ran.reordered,
        capture_identities=identities,
        empty_mask_draws=ran.empty_draws,
    )


def spread_of(build: Build, seed: int, reference: Ran | None = None) -> dict[str, float]:
    """Return by trajectory and mask how far an eager and a captured run differ from an eager one, at most.

    This is what a comparison cannot see below: the eager run is repeated from the same physics.
    """
    reference = reference or run_trajectory(build("eager"), "eager", seed)
    found: dict[str, float] = {}
    for trajectory in TRAJECTORIES[:2]:
        ran = run_trajectory(build(trajectory), trajectory, seed, reference)
        for mask, _, mine, theirs in _pairs(ran, reference, seed):
            key, distance = f"{trajectory}_{mask}", difference_of(mine, theirs)
            found[key] = max(found.get(key, 0.0), math.inf if distance is None else distance)
    return {key: value if math.isfinite(value) else -1.0 for key, value in found.items()}
