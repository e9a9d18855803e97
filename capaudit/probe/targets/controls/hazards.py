"""Negative controls: the reference tick with one hazard each, written as such code is found in collectors.

Every class differs from ``CollectorTick`` in its one hazard. The audit has to flag it without running it, the probe to
catch it on a device, the gate to refuse it; ``control_table`` says what each of them is expected to say, and why one
of them cannot.
"""

from __future__ import annotations

import gc
import queue
import random
from functools import cached_property

import mujoco_warp
import torch
import warp as wp

from capaudit.probe.targets.collector.plant import Plant
from capaudit.probe.targets.collector.tick import CollectorTick

DELIVERIES = 64


class HostScalarRead(CollectorTick):
    """Logs the mean reward of every tick as a Python number."""

    def tick(self) -> torch.Tensor:
        ingress = super().tick()
        self.mean_reward = float(self.carriers.reward.mean())
        return ingress


class DeviceToHostCopy(CollectorTick):
    """Mirrors the reward components in host memory."""

    def tick(self) -> torch.Tensor:
        ingress = super().tick()
        self.log = self.carriers.component_means.cpu()
        return ingress


class HostToDeviceCopy(CollectorTick):
    """Uploads the reward weights in every tick."""

    def tick(self) -> torch.Tensor:
        weights = [0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, -0.1, -10.0, -1e-4, 0.2]
        self.weights.copy_(torch.tensor(weights).to(self.weights.device))
        return super().tick()


class ExplicitSynchronize(CollectorTick):
    """Waits for the device at the end of the tick, to be sure."""

    def tick(self) -> torch.Tensor:
        ingress = super().tick()
        torch.cuda.synchronize()
        return ingress


class HiddenSynchronize(CollectorTick):
    """Compares two carriers with a call that answers on the host."""

    def tick(self) -> torch.Tensor:
        ingress = super().tick()
        self.unchanged = torch.equal(self.carriers.action, self.carriers.previous_action)
        return ingress


class DynamicCompaction(CollectorTick):
    """Packs the rows that reset, as environment managers do."""

    def tick(self) -> torch.Tensor:
        ingress = super().tick()
        rows = self.carriers.done.nonzero().squeeze(1)
        self.carriers.phase.index_fill_(0, rows, 0.0)
        return ingress


class DataDependentBranch(CollectorTick):
    """Skips the reset where no world needs one."""

    def _reset(self) -> None:
        if self.carriers.done.any():
            super()._reset()

    def tick(self) -> torch.Tensor:
        return super().tick()


class CaptureTimeAllocation(CollectorTick):
    """Makes the buffer of a running return when it is first needed."""

    def __init__(self, plant: Plant, worlds: int, device: str, seed: int = 1) -> None:
        super().__init__(plant, worlds, device, seed)
        self.returns: torch.Tensor | None = None

    def tick(self) -> torch.Tensor:
        ingress = super().tick()
        if self.returns is None:
            self.returns = torch.zeros(self.worlds, device=self.carriers.reward.device)
        self.returns.add_(self.carriers.reward)
        self.carriers.reward.copy_(self.returns)
        return ingress


class TransientWarpAllocation(CollectorTick):
    """The tick as it is, recorded by Torch alone: nobody tells Warp of the capture."""

    def tick(self) -> torch.Tensor:
        return super().tick()


class AllocationInConditionalBody(CollectorTick):
    """Takes scratch memory in the body of a loop on the device."""

    def __init__(self, plant: Plant, worlds: int, device: str, seed: int = 1) -> None:
        super().__init__(plant, worlds, device, seed)
        self.rounds: wp.array = wp.zeros(1, dtype=wp.int32, device=self.simulation.device)

    def _relax(self) -> None:
        scratch = wp.zeros(64, dtype=wp.float32, device=self.simulation.device)
        scratch.fill_(1.0)
        self.rounds.zero_()

    def tick(self) -> torch.Tensor:
        ingress = super().tick()
        self.rounds.fill_(1)
        wp.capture_while(self.rounds, self._relax)
        return ingress


class CarrierRebind(CollectorTick):
    """Binds the gait phase to a new tensor in every tick."""

    def tick(self) -> torch.Tensor:
        self.carriers.phase = self.carriers.phase + 0.01
        return super().tick()


class FreeDuringCapture(CollectorTick):
    """Collects garbage in every tick to keep memory flat; an older graph is part of it."""

    def __init__(self, plant: Plant, worlds: int, device: str, seed: int = 1) -> None:
        super().__init__(plant, worlds, device, seed)
        self.retired: list[list[object]] = []
        scratch = torch.zeros(64, device=device)
        for _ in range(DELIVERIES if device.startswith("cuda") else 0):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                scratch.zero_()
            held: list[object] = [graph, scratch, wp.zeros(64, dtype=wp.float32, device=self.simulation.device)]
            # A cycle, as handlers and closures make them: only the collector finds it.
            held.append(held)
            self.retired.append(held)

    def tick(self) -> torch.Tensor:
        ingress = super().tick()
        if self.retired:
            self.retired.pop()
        gc.collect()
        return ingress


class NestedCapture(CollectorTick):
    """Launches physics as a graph of its own inside the tick."""

    def __init__(self, plant: Plant, worlds: int, device: str, seed: int = 1) -> None:
        super().__init__(plant, worlds, device, seed)
        self.simulation.step()
        with wp.ScopedCapture(device=self.simulation.device) as capture:
            self.simulation.step()
        self.physics = capture.graph

    def _advance_physics(self) -> None:
        wp.capture_launch(self.physics)
        wp.capture_launch(self.physics)
        wp.capture_launch(self.physics)

    def tick(self) -> torch.Tensor:
        return super().tick()


class ForeignStream(CollectorTick):
    """Scales the reward on a stream that the capture does not own."""

    def __init__(self, plant: Plant, worlds: int, device: str, seed: int = 1) -> None:
        super().__init__(plant, worlds, device, seed)
        self.side = torch.cuda.Stream()

    def tick(self) -> torch.Tensor:
        ingress = super().tick()
        with torch.cuda.stream(self.side):
            self.carriers.reward.mul_(0.5)
        return ingress


class UnjoinedStream(CollectorTick):
    """Forks a side stream for the log and does not wait for it."""

    def __init__(self, plant: Plant, worlds: int, device: str, seed: int = 1) -> None:
        super().__init__(plant, worlds, device, seed)
        self.side = torch.cuda.Stream()

    def tick(self) -> torch.Tensor:
        ingress = super().tick()
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.carriers.component_means.mul_(0.5)
        return ingress


class FrozenHostState(CollectorTick):
    """Derives the gait phase from a counter that Python keeps."""

    def __init__(self, plant: Plant, worlds: int, device: str, seed: int = 1) -> None:
        super().__init__(plant, worlds, device, seed)
        self.ticks = 0

    def tick(self) -> torch.Tensor:
        self.ticks += 1
        self.carriers.phase.fill_(0.06 * self.ticks)
        return super().tick()


class UnregisteredRng(CollectorTick):
    """Takes the disturbance of the gait phase from Python's generator."""

    def tick(self) -> torch.Tensor:
        self.carriers.phase.add_(0.1 * random.random())
        return super().tick()


class LazyInitialisation(CollectorTick):
    """Remembers the gait phase that it started from in a cached property, which the first tick computes."""

    @cached_property
    def first_phase(self) -> torch.Tensor:
        return self.carriers.phase.clone()

    def tick(self) -> torch.Tensor:
        ingress = super().tick()
        self.carriers.reward.add_(self.carriers.phase - self.first_phase)
        return ingress


class BackendPrivateProbing(CollectorTick):
    """Asks Warp's runtime object, which is nobody's interface, whether to run."""

    def tick(self) -> torch.Tensor:
        if wp._src.context.runtime.core is None:  # type: ignore[attr-defined, unused-ignore]
            self.carriers.reward.zero_()
        return super().tick()


class TransportInBoundary(CollectorTick):
    """Waits for the next action inside the tick."""

    def __init__(self, plant: Plant, worlds: int, device: str, seed: int = 1) -> None:
        super().__init__(plant, worlds, device, seed)
        self.inbox: queue.Queue[torch.Tensor] = queue.Queue()
        for number in range(DELIVERIES):
            self.inbox.put(torch.full_like(self.carriers.action, 0.01 * number))

    def tick(self) -> torch.Tensor:
        self.carriers.action.copy_(self.inbox.get(timeout=1.0))
        return super().tick()


class ModelMutation(CollectorTick):
    """Derives the model's constants anew in every tick."""

    def tick(self) -> torch.Tensor:
        mujoco_warp.set_const(self.simulation.model, self.simulation.data)
        return super().tick()
