"""The reset's random draws: one generator per world, advanced on the device for the worlds that reset alone."""

from __future__ import annotations

import warp as wp


@wp.kernel
def draw_reset(
    mask: wp.array(dtype=wp.bool),  # type: ignore[valid-type]
    seed: wp.array(dtype=wp.int32),  # type: ignore[valid-type]
    drawn: wp.array(dtype=wp.int32),  # type: ignore[valid-type]
    values: wp.array2d(dtype=wp.float32),  # type: ignore[valid-type]
) -> None:
    """Fill ``values`` [N, K] with uniform numbers in [0, 1) for the masked worlds, and count the draw."""
    world = wp.tid()
    if mask[world]:
        state = wp.rand_init(seed[0] + drawn[world], world)
        for column in range(values.shape[1]):
            values[world, column] = wp.randf(state)
        drawn[world] = drawn[world] + 1
