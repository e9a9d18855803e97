"""Runs code under real CUDA-graph capture, in child processes. The only layer that imports torch, warp or mujoco.

Importing this package imports none of them; ``capture_check`` loads what it needs when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capaudit.probe.api import CheckResult, capture_check

__all__ = ["CheckResult", "capture_check"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from capaudit.probe import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
