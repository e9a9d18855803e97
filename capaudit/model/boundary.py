"""The capture boundary: one declaration that the audit, the probe and the run-time contract share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CaptureKind = Literal["torch", "warp", "shared"]
"""Who starts the capture. ``shared``: Torch starts it and the capture is registered with Warp."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where captured work begins, and who owns what lies beyond it.

    ``entry`` is ``pkg.mod:Class.method`` or ``pkg.mod:function``; ``origin`` says where the
    declaration was found (``configuration``, ``decorator``, ``comment``, ``command line``,
    ``discovered: ...``). The owner fields hold dotted-name patterns.
    """

    name: str
    entry: str
    capture: CaptureKind
    origin: str
    file: str = ""
    line: int = 0
    completion_owned: tuple[str, ...] = ()
    cold_path: tuple[str, ...] = ()
    carriers: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
