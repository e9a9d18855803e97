"""The minimal pairs behind the matrix: the smallest code on either side of each structural question."""

from __future__ import annotations

from typing import Any


def free_inside(device: Any) -> None:
    """Allocate a Warp array that dies inside the capture."""
    import warp as wp

    scratch = wp.zeros(64, dtype=wp.float32, device=device)
    del scratch


def keep_alive(device: Any, kept: list[Any]) -> None:
    """Allocate the same array and keep it until after the capture."""
    import warp as wp

    kept.append(wp.zeros(64, dtype=wp.float32, device=device))


def free_older(kept: list[Any]) -> None:
    """Free an array that was allocated before the capture; allocate nothing."""
    kept.clear()


def enter_stream_with_sync(stream: Any, array: Any) -> None:
    """Enter a Warp stream the default way: it waits for the stream that was current before."""
    import warp as wp

    with wp.ScopedStream(stream):
        array.zero_()


def launch_warp_graph(graph: Any, stream: Any) -> None:
    """Replay a Warp graph on the capturing stream."""
    import warp as wp

    wp.capture_launch(graph, stream=stream)


def launch_torch_graph(graph: Any) -> None:
    """Replay a Torch graph on the capturing stream."""
    graph.replay()
