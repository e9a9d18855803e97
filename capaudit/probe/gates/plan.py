"""What every trajectory does tick by tick: the same actions, and masks that reset no, some and all worlds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from capaudit.contract.gate_words import MASKS, Mask
from capaudit.probe.targets.collector.plant import Plant
from capaudit.probe.targets.collector.tick import CollectorTick

ROUNDS = 3
WARMUP_TICKS = 4
"""Eager ticks of the warm-up-then-replay trajectory: every mask is met eagerly and in a replay."""
CLEARANCE = 0.5
"""Metres above its reset pose at which Gate S starts the robot: it does not land within the trajectory."""


@dataclass(frozen=True, slots=True)
class PlannedTick:
    """One tick: its number, the mask that it resets, and the seed of its actions."""

    number: int
    mask: Mask
    seed: int


def planned_ticks(seed: int, rounds: int = ROUNDS) -> Iterator[PlannedTick]:
    """Yield the ticks of a trajectory, the masks in turn."""
    for number in range(rounds * len(MASKS)):
        yield PlannedTick(number, MASKS[number % len(MASKS)], 1000 * seed + number)


def mask_rows(worlds: int) -> dict[Mask, int]:
    """Return how many worlds each mask resets."""
    return {"empty": 0, "partial": (worlds + 1) // 2, "full": worlds}


def set_inputs(tick: CollectorTick, planned: PlannedTick) -> None:
    """Fill the action carrier, and let those worlds reach their time limit that the mask names."""
    generator = torch.Generator().manual_seed(planned.seed)
    carriers = tick.carriers
    carriers.action.copy_(torch.rand(carriers.action.shape, generator=generator) * 2.0 - 1.0)
    if planned.mask == "full":
        carriers.episode_length.fill_(tick.maximum_episode)
    elif planned.mask == "partial":
        carriers.episode_length[::2] = tick.maximum_episode


def airborne(plant: Plant) -> Plant:
    """Return the robot with its reset pose off the ground.

    MuJoCo Warp appends contacts in no fixed order and sums them in that order, so on the ground two eager runs differ
    by more than the gate allows, and a comparison says nothing about the capture. In the air they agree.
    """
    start = plant.start.copy()
    start[2] += CLEARANCE
    return replace(plant, start=start)
