"""What the whole-tick graph is measured against: physics alone as a graph, and managers that wait for the device.

``GraphedPhysics`` is what a simulator that owns its graphs gives to a collector that reads nothing back.
``SynchronisingManagers`` adds what environment managers do in practice: they check, pack and log on the host.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import warp as wp

from capaudit.probe.targets.collector.carriers import REWARDS
from capaudit.probe.targets.collector.plant import Plant
from capaudit.probe.targets.collector.tick import CollectorTick


class GraphedPhysics(CollectorTick):
    """Physics step, masked reset and forward are graphs of Warp's; everything of Torch's is launched eagerly."""

    def __init__(self, plant: Plant, worlds: int, device: str, seed: int = 1) -> None:
        super().__init__(plant, worlds, device, seed)
        if not self.simulation.device.is_cuda:
            return
        s = self.simulation
        for name in ("step", "reset_masked", "forward"):
            setattr(s, name, self._recorded(getattr(s, name)))
        s.position.copy_(self.start)
        s.velocity.zero_()
        s.warm_start.zero_()
        s.time.zero_()
        s.forward()
        self._observe(self.carriers.actor, self.carriers.critic)
        torch.cuda.synchronize()

    def _recorded(self, call: Callable[[], None]) -> Callable[[], None]:
        call()
        with wp.ScopedCapture(device=self.simulation.device) as capture:
            call()
        graph = capture.graph
        return lambda: wp.capture_launch(graph)


class SynchronisingManagers(GraphedPhysics):
    """Waits for the device 15 times in a tick, and 15 times more in one that resets a world."""

    def __init__(self, plant: Plant, worlds: int, device: str, seed: int = 1) -> None:
        super().__init__(plant, worlds, device, seed)
        self.log: dict[str, float] = {}

    def _apply_action(self) -> None:
        self._require_finite("action", self.carriers.action)
        super()._apply_action()

    def _reward(self) -> None:
        super()._reward()
        for number, name in enumerate(REWARDS):
            self._require_finite(name, self.carriers.components[:, number])

    def _observe_terminal(self) -> None:
        super()._observe_terminal()
        self._require_finite("observation", self.carriers.terminal_actor)
        self._require_finite("critic observation", self.carriers.terminal_critic)

    def _reset(self) -> None:
        c = self.carriers
        rows = c.done.nonzero().squeeze(1)
        if len(rows) > 0:
            for number, name in enumerate(REWARDS):
                self.log[name] = c.components[rows, number].mean().item()
            self.log["length"] = c.episode_length[rows].float().mean().item()
            self.log["terminated"] = float(torch.count_nonzero(c.terminated).item())
            self.log["truncated"] = float(torch.count_nonzero(c.truncated).item())
            self.log["return"] = c.reward[rows].mean().item()
        super()._reset()

    def _require_finite(self, name: str, values: torch.Tensor) -> None:
        if not bool(torch.isfinite(values).all()):
            raise ValueError(f"{name} is not finite")
