"""How a tick is run: eagerly, or recorded once and replayed, on one stream that Torch and Warp share."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import warp as wp

from capaudit.model import CaptureKind
from capaudit.probe.targets.collector.tick import CollectorTick

WARMUP = 3


class TickRunner:
    """Runs a tick on the stream that it is captured on.

    ``kind`` is ``shared`` (the capture is registered with Warp) or ``torch`` (it is not). On the CPU there are no
    graphs: ``record`` makes ``replay`` another call of the tick, ``captures`` is false, and nothing that is measured
    so may be called a graph.
    """

    def __init__(self, tick: CollectorTick, device: str, kind: CaptureKind = "shared") -> None:
        self.tick = tick
        self.kind = kind
        self.captures = device.startswith("cuda")
        self.graph: torch.cuda.CUDAGraph | None = None
        self._stream: torch.cuda.Stream | None = None
        self._warp_stream: wp.Stream | None = None
        self._replay: Callable[[], Any] | None = None
        if self.captures:
            self._stream, self._warp_stream = _shared_stream(device)

    @property
    def stream_id(self) -> int:
        """CUDA's handle of the shared stream; 0 on the CPU."""
        return int(self._stream.cuda_stream) if self._stream is not None else 0

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        """Make the shared stream current for Torch and for Warp."""
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        # sync_enter would make this stream wait for Warp's own one, which a capture does not own.
        with torch.cuda.stream(self._stream), wp.ScopedStream(self._warp_stream, sync_enter=False):
            yield

    def eager(self) -> None:
        """Run the tick eagerly."""
        with self.on_stream():
            self.tick.tick()

    def warm_up(self, ticks: int = WARMUP) -> None:
        """Run eager ticks until everything that loads at its first use has been used."""
        for _ in range(ticks):
            self.eager()
        self.synchronize()

    def record(self) -> None:
        """Record one tick. Raises what the capture raises; the state on the device is not advanced."""
        self.synchronize()
        if self._stream is None:
            self._replay = self.tick.tick
            return
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.tick.generator)
        collecting = gc.isenabled()
        gc.collect()
        # A finaliser that runs now would have its free recorded.
        gc.disable()
        try:
            with torch.cuda.graph(graph, stream=self._stream):
                if self.kind == "shared":
                    with (
                        wp.ScopedStream(self._warp_stream, sync_enter=False),
                        wp.ScopedCapture(stream=self._warp_stream, external=True, **_torch_mode()),
                    ):
                        self.tick.tick()
                else:
                    with wp.ScopedStream(self._warp_stream, sync_enter=False):
                        self.tick.tick()
        finally:
            if collecting:
                gc.enable()
        self.graph = graph
        self._replay = graph.replay
        self.synchronize()

    def replay(self) -> None:
        """Replay the recorded tick. Raises RuntimeError where nothing was recorded."""
        if self._replay is None:
            raise RuntimeError("there is nothing to replay: record the tick first")
        if self._stream is None:
            self._replay()
            return
        # The caller filled the inputs on its own stream.
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._replay()

    def event(self) -> torch.cuda.Event | None:
        """Record an event behind the last tick; ``None`` on the CPU, where a tick is done when it returns."""
        if self._stream is None:
            return None
        event = torch.cuda.Event()
        event.record(self._stream)
        return event

    def synchronize(self) -> None:
        """Wait for the device; nothing to wait for on the CPU."""
        if self.captures:
            torch.cuda.synchronize()


@functools.cache
def _shared_stream(device: str) -> tuple[torch.cuda.Stream, wp.Stream]:
    """Return the process's collector stream, known to both, registered once.

    Torch hands out the same 32 streams again and again, and Warp forgets a stream with the object that registered it.
    """
    stream = torch.cuda.Stream(device=device)
    return stream, wp.stream_from_torch(stream)


def _torch_mode() -> dict[str, Any]:
    """Tell Warp in which mode Torch captures; releases before capture modes know one alone."""
    modes = getattr(wp, "CaptureMode", None)
    return {} if modes is None else {"capture_mode": modes.GLOBAL}
