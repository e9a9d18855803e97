"""The planted faults. Their lines are looked up by the comments, so they may move."""

from __future__ import annotations

from typing import Any


def read_scalar(x: Any) -> float:
    """Launch a kernel, then make the host wait for its result."""
    y = x + 1.0
    total = y.sum()
    return float(total.item())  # planted: synchronization


def compact(x: Any) -> Any:
    """Give a result whose shape depends on the data."""
    return x.nonzero()  # planted: dynamic shape


def launch_elsewhere(x: Any, stream: Any) -> None:
    """Launch on a stream that never waited for the current one."""
    import torch

    with torch.cuda.stream(stream):
        x.add_(1.0)  # planted: foreign stream


def allocate_and_free(device: Any) -> None:
    """Let a Warp array die where it was made."""
    import warp as wp

    array = wp.zeros(16, dtype=wp.float32, device=device)
    del array  # planted: free
