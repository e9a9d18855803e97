"""The capture boundary: one declaration that the audit, the probe and the run-time contract share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capaudit.model.errors import CapauditError

CaptureKind = Literal["torch", "warp", "shared"]
"""Who starts the capture. ``shared``: Torch starts it and the capture is registered with Warp."""


class BoundaryRefusedError(CapauditError):
    """The declaration asks for more than one control step per replay, which no part of capaudit can vouch for."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where captured work begins, and who owns what lies beyond it.

    ``entry`` is ``pkg.mod:Class.method`` or ``pkg.mod:function``; ``origin`` says where the
    declaration was found (``configuration``, ``decorator``, ``comment``, ``command line``,
    ``discovered: ...``). The owner fields hold dotted-name patterns. ``inputs`` and ``outputs`` name
    the carriers that cross the boundary.

    ``k`` is the number of control steps that one replay covers. Each observation decides the next
    action, so only 1 is sound: a larger ``k``, an action sequence committed in advance or a
    speculative tick cannot be constructed. Raises BoundaryRefusedError.
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
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    k: int = 1
    action_sequence: bool = False
    speculative: bool = False

    def __post_init__(self) -> None:
        if type(self.k) is not int or self.k != 1:
            raise self._refused(f"declares k = {self.k!r}", "declare k = 1, one control step per replay")
        if self.action_sequence is not False:
            raise self._refused(
                "declares an action sequence committed in advance",
                "take one action per tick; it follows from the tick's observation",
            )
        if self.speculative is not False:
            raise self._refused("declares speculative ticks", "replay a tick only when its action is known")

    def _refused(self, what: str, remedy: str) -> BoundaryRefusedError:
        return BoundaryRefusedError(f"the boundary {self.name!r} {what}", place=self.entry or None, remedy=remedy)
