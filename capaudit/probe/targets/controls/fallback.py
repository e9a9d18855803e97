"""The negative control whose hazard lies beside the tick: a runner that hides the failures of its graph."""

from __future__ import annotations

import torch

from capaudit.probe.targets.collector.tick import CollectorTick


class SilentEagerFallback(CollectorTick):
    """Goes on in eager mode after any failure of the replay, and counts nothing."""

    graph: torch.cuda.CUDAGraph

    def tick(self) -> torch.Tensor:
        return super().tick()

    def advance(self) -> None:
        try:
            self.graph.replay()
        except Exception:
            self.tick()
