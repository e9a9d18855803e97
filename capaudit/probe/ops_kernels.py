"""Two Warp kernels for idioms, importable there as ``kmod``. Imports Warp."""

import warp as wp


@wp.kernel
def k(a: wp.array(dtype=float), b: wp.array(dtype=float)):  # type: ignore[valid-type, no-untyped-def]
    """Write twice ``a`` to ``b``."""
    i = wp.tid()
    b[i] = 2.0 * a[i]


@wp.kernel
def kr(seed: int, b: wp.array(dtype=float)):  # type: ignore[valid-type, no-untyped-def]
    """Fill ``b`` with numbers drawn from ``seed``."""
    i = wp.tid()
    b[i] = wp.randf(wp.rand_init(seed, i))
