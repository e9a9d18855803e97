"""Opens a real capture: started by Torch, by Warp, or by Torch and registered with Warp."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from capaudit.model import CaptureKind

ERROR_MODES: dict[CaptureKind, tuple[str, ...]] = {
    "torch": ("global", "thread_local", "relaxed"),
    "warp": ("global", "thread_local", "relaxed"),
    "shared": ("global", "thread_local", "relaxed"),
}
"""Capture modes from the strictest on; the verdict is that of the mode that the library itself uses."""

DEFAULT_MODE: dict[CaptureKind, str] = {"torch": "global", "warp": "thread_local", "shared": "global"}


@dataclass(slots=True)
class Streams:
    """The stream that captures: torch's object, Warp's registration of it, and CUDA's handle."""

    torch_stream: Any
    warp_stream: Any | None
    handle: int


@dataclass(slots=True)
class Captured:
    """A capture that is being made or has been made. ``replay`` is set once it ended well."""

    streams: Streams
    kind: CaptureKind
    mode: str
    replay: Callable[[], None] | None = None
    graph: Any = None


def open_streams(device: str, *, with_warp: bool) -> Streams:
    """Make a side stream and register it with Warp, once and before any capture."""
    import torch

    stream = torch.cuda.Stream(device=device)
    warp_stream = None
    if with_warp:
        import warp as wp

        wp.init()
        warp_stream = wp.stream_from_torch(stream)
    return Streams(stream, warp_stream, int(stream.cuda_stream))


@contextmanager
def on_stream(streams: Streams, *, share_warp: bool) -> Iterator[None]:
    """Make the stream current for torch, and for Warp too if ``share_warp``."""
    import torch

    with ExitStack() as stack:
        streams.torch_stream.wait_stream(torch.cuda.current_stream(streams.torch_stream.device))
        stack.enter_context(torch.cuda.stream(streams.torch_stream))
        if share_warp and streams.warp_stream is not None:
            stack.enter_context(_warp_stream(streams))
        yield


@contextmanager
def open_capture(
    kind: CaptureKind, streams: Streams, mode: str, *, share_warp: bool, generators: tuple[Any, ...] = ()
) -> Iterator[Captured]:
    """Capture the block. Garbage collection is off inside: a finaliser's free would be recorded.

    ``generators`` are registered with a graph that Torch captures.
    """
    captured = Captured(streams, kind, mode)
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        with ExitStack() as stack:
            if kind == "warp":
                _open_warp(stack, captured)
            else:
                shared = kind == "shared"
                _open_torch(stack, captured, generators, register=shared, share_warp=share_warp or shared)
            yield captured
        _make_replay(captured)
    finally:
        if enabled:
            gc.enable()


def _open_torch(
    stack: ExitStack, captured: Captured, generators: tuple[Any, ...], *, register: bool, share_warp: bool
) -> None:
    import torch

    captured.graph = torch.cuda.CUDAGraph()
    for generator in generators:
        captured.graph.register_generator_state(generator)
    streams = captured.streams
    stack.enter_context(torch.cuda.graph(captured.graph, stream=streams.torch_stream, capture_error_mode=captured.mode))
    if streams.warp_stream is None:
        return
    if share_warp:
        stack.enter_context(_warp_stream(streams))
    if register:
        import warp as wp

        stack.enter_context(wp.ScopedCapture(stream=streams.warp_stream, external=True, **_warp_mode(captured.mode)))


def _open_warp(stack: ExitStack, captured: Captured) -> None:
    import torch
    import warp as wp

    streams = captured.streams
    torch.cuda.synchronize(streams.torch_stream.device)
    stack.enter_context(torch.cuda.stream(streams.torch_stream))
    stack.enter_context(_warp_stream(streams))
    captured.graph = stack.enter_context(wp.ScopedCapture(stream=streams.warp_stream, **_warp_mode(captured.mode)))


def _make_replay(captured: Captured) -> None:
    streams = captured.streams
    if captured.kind == "warp":
        import warp as wp

        graph = captured.graph.graph
        captured.replay = lambda: wp.capture_launch(graph, stream=streams.warp_stream)
        return
    import torch

    def replay() -> None:
        with torch.cuda.stream(streams.torch_stream):
            captured.graph.replay()

    captured.replay = replay


def _warp_stream(streams: Streams) -> Any:
    import warp as wp

    # The default sync_enter=True would make the capturing stream wait for one outside the capture.
    return wp.ScopedStream(streams.warp_stream, sync_enter=False)


def _warp_mode(mode: str) -> dict[str, Any]:
    """Return the keyword for Warp's capture mode; older Warp knows only its thread-local one."""
    import warp as wp

    modes = getattr(wp, "CaptureMode", None)
    return {} if modes is None else {"capture_mode": modes[mode.upper()]}
