"""The state that a failed replay must leave as it was: carriers, physics and the position of every generator."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from capaudit.probe.targets.collector.tick import CollectorTick


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Copies by name, and the state of the Torch generator (u8 on the CPU)."""

    tensors: dict[str, torch.Tensor]
    generator: torch.Tensor


def physics_tensors(tick: CollectorTick) -> dict[str, torch.Tensor]:
    """Return the views of the simulation that a tick reads or writes, by name."""
    s = tick.simulation
    return {
        "position": s.position,
        "velocity": s.velocity,
        "physics_control": s.control,
        "warm_start": s.warm_start,
        "time": s.time,
        "body_position": s.body_position,
        "body_rotation": s.body_rotation,
        "body_velocity": s.body_velocity,
        "constraint_force": s.constraint_force,
        "reset_mask": s.reset_mask,
    }


def state_tensors(tick: CollectorTick) -> dict[str, torch.Tensor]:
    """Return every tensor that belongs to the state, by name."""
    return {**tick.carriers.tensors(), **physics_tensors(tick)}


def take(tick: CollectorTick) -> Snapshot:
    """Copy the state; allocates, so never inside a capture."""
    copies = {name: tensor.clone() for name, tensor in state_tensors(tick).items()}
    return Snapshot(copies, tick.generator.get_state())


def restore(tick: CollectorTick, snapshot: Snapshot) -> None:
    """Put the state back in place: no address changes."""
    for name, tensor in state_tensors(tick).items():
        tensor.copy_(snapshot.tensors[name])
    tick.generator.set_state(snapshot.generator)


def random_state(tick: CollectorTick) -> torch.Tensor:
    """Return the position of every generator as one CPU tensor of bytes: Torch's, then the worlds' draw counters."""
    tick.random_state.copy_(tick.generator.get_state())
    counters = tick.carriers.reset_draws.detach().cpu().contiguous().view(torch.uint8)
    return torch.cat((tick.random_state, counters))
