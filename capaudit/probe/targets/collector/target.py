"""``mjwarp:collector`` and ``mjwarp:collector-g1``: the reference tick, or one of its negative controls by segment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from capaudit.model import InputError
from capaudit.probe.targets.base import Target, TargetOptions

NAMES = {"collector": "humanoid", "collector-g1": "g1"}


def build_collector(name: str) -> Callable[[TargetOptions], Target]:
    """Return the builder. ``segment`` names a negative control by its hazard. Raises InputError for unknown names."""

    def build(options: TargetOptions) -> Target:
        import torch

        from capaudit.probe.targets.collector.plant import load_plant
        from capaudit.probe.targets.collector.tick import CollectorTick
        from capaudit.probe.targets.controls import control, control_class

        kind = options.capture or "shared"
        warmup = 3
        make: type[CollectorTick] = CollectorTick
        if options.segment is not None:
            chosen = control(options.segment)
            make, kind, warmup = control_class(chosen), options.capture or chosen.capture, chosen.warmup
            if chosen.rehearsed:
                for _ in range(2):
                    CollectorTick(load_plant(NAMES[name]), options.worlds, options.device, options.seed).tick()
        tick = make(load_plant(NAMES[name]), options.worlds, options.device, options.seed)
        generator = torch.Generator().manual_seed(options.seed)
        shape = tick.carriers.action.shape

        def new_action(index: int) -> None:
            tick.carriers.action.copy_(torch.rand(shape, generator=generator) * 2.0 - 1.0)
            # Some worlds reach their time limit in each step, so that the reset is exercised.
            tick.carriers.episode_length[index % 4 :: 4] = tick.maximum_episode

        new_action(0)
        return Target(
            name=f"mjwarp:{name} {options.segment or 'tick'}",
            step=tick.tick,
            owner=tick,
            roots=((Path(__file__).parents[1], "capaudit/probe/targets"),),
            capture=kind,
            before_step=new_action,
            inputs=("carriers.action",),
            outputs=(
                "carriers.ingress",
                "carriers.actor",
                "carriers.critic",
                "carriers.reward",
                "carriers.done",
                "carriers.phase",
                "carriers.episode_length",
                "carriers.reset_draws",
                "carriers.published",
                "simulation.position",
                "simulation.velocity",
            ),
            uses_warp=True,
            share_warp_stream=kind != "torch",
            warmup=warmup if options.warmup is None else options.warmup,
            # Contacts are appended with atomic operations, so two eager runs agree to rounding only.
            tolerance=5e-3,
            generators=(tick.generator,),
            facts={"model": tick.plant.source, "joints": tick.joints, "control": options.segment},
        )

    if name not in NAMES:
        raise InputError(f"there is no collector {name!r}", remedy=f"use one of {', '.join(NAMES)}")
    return build
