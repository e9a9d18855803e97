"""The device side of a measurement: streams, synchronisation watch, capture."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch

Step = Callable[[], object]


class Backend(Protocol):
    """What a measurement needs of a device."""

    device: str

    def generators(self) -> list[torch.Generator]:
        """Return the device's default generators."""

    def run(self, step: Step) -> object:
        """Run eagerly on the stream that will capture, and wait for the end."""

    def run_watched(self, step: Step) -> bool:
        """Run eagerly and return whether the host waited for the device."""

    def capture(self, step: Step, generators: Sequence[torch.Generator]) -> tuple[Step, object]:
        """Capture in the strictest mode; return the replay (which waits for its end) and the step's outputs."""


class CudaBackend:
    """Real capture: default mode (global), garbage collection off, warm-up and capture on one side stream."""

    def __init__(self, device: str) -> None:
        torch.cuda.set_device(torch.device(device if ":" in device else f"{device}:0"))
        self.device = "cuda"
        self._stream = torch.cuda.Stream()

    def generators(self) -> list[torch.Generator]:
        index = torch.cuda.current_device()
        return [torch.cuda.default_generators[index]]

    def run(self, step: Step) -> object:
        with self._on_stream():
            return step()

    def run_watched(self, step: Step) -> bool:
        with self._on_stream(), warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                step()
            finally:
                torch.cuda.set_sync_debug_mode("default")
        return any("synchronizing CUDA operation" in str(warning.message) for warning in seen)

    def capture(self, step: Step, generators: Sequence[torch.Generator]) -> tuple[Step, object]:
        graph = torch.cuda.CUDAGraph()
        for generator in generators:
            graph.register_generator_state(generator)
        gc.disable()
        try:
            with torch.cuda.graph(graph, stream=self._stream):
                outputs = step()
        finally:
            gc.enable()

        def replay() -> None:
            with self._on_stream():
                graph.replay()

        return replay, outputs

    @contextmanager
    def _on_stream(self) -> Iterator[None]:
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream):
            yield
        torch.cuda.synchronize()
