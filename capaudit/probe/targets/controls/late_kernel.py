"""A kernel in a module of its own, which nothing else has loaded when the lazy control launches it."""

from __future__ import annotations

import warp as wp


@wp.kernel
def raise_counter(counter: wp.array(dtype=wp.int32)) -> None:  # type: ignore[valid-type]
    """Add one to the only element."""
    counter[0] = counter[0] + 1
