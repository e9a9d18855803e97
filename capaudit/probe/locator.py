"""The line-exact locator: which source line broke the capture, and which recorded which graph nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from capaudit.probe.child import first_error
from capaudit.probe.coverage import LinesByFile, without
from capaudit.probe.locator_lines import LineWatcher
from capaudit.probe.locator_roots import RawFrame, SourceRoots, stack_of_exception

NOT_CAPTURING, ACTIVE, INVALIDATED = 0, 1, 2


class CaptureSource(Protocol):
    """Where the locator reads the state of the capture: CUDA, or a stand-in in tests."""

    def poll(self) -> tuple[int, Mapping[str, int]]:
        """Return the status and the nodes, by type, that were recorded since the last call."""
        ...

    def works_elsewhere(self) -> bool:
        """Whether the current stream is another one than the stream that captures."""
        ...


@dataclass(frozen=True, slots=True)
class Located:
    """Where something happened. ``stack`` runs innermost first; its first frame is the cause.

    ``place`` is the innermost frame inside the target's roots, or ``None`` where there is none.
    ``elsewhere`` says that the current stream was another one than the stream that captures.
    """

    stack: tuple[RawFrame, ...]
    place: RawFrame | None
    elsewhere: bool = False


class LineLocator(LineWatcher):
    """Polls a capture after every line. Use it as a context manager inside the capture.

    ``fault`` is the first line after which the capture was invalid. ``recorded`` maps each stack that
    recorded graph nodes to their number by type.
    """

    def __init__(self, source: CaptureSource, roots: SourceRoots) -> None:
        super().__init__()
        self.fault: Located | None = None
        self.recorded: dict[tuple[RawFrame, ...], Counter[str]] = {}
        self.lost = False
        self._ran: LinesByFile = {}
        self._source = source
        self._roots = roots
        self._was_active = False

    def check(self, stack: list[list[Any]]) -> None:
        status, growth = self._source.poll()
        if growth:
            self.recorded.setdefault(self.frames(), Counter()).update(growth)
        if status == ACTIVE:
            self._was_active = True
            code, line = stack[-1]
            self._ran.setdefault(code.co_filename, set()).add(line)
        elif status == INVALIDATED and self.fault is None:
            frames = self.frames()
            self.fault = Located(frames, self._roots.innermost_user(frames), self._source.works_elsewhere())

    def harmless_lines(self, fault: Located | None) -> LinesByFile:
        """Return the lines that ran while the capture went on, without those that ``fault`` cut short."""
        return without(self._ran, fault.stack if fault is not None else ())

    def nodes(self) -> Counter[str]:
        """Return all recorded nodes by type."""
        total: Counter[str] = Counter()
        for counts in self.recorded.values():
            total.update(counts)
        return total

    def by_place(self) -> dict[tuple[str, int], Counter[str]]:
        """Return the recorded nodes per (file name, line) of the innermost frame of the target."""
        found: dict[tuple[str, int], Counter[str]] = {}
        for stack, counts in self.recorded.items():
            frame = self._roots.innermost_user(stack) or (stack[0] if stack else ("<unknown>", 0, ""))
            found.setdefault((frame[0], frame[1]), Counter()).update(counts)
        return found


def locate_exception(error: BaseException, roots: SourceRoots) -> tuple[BaseException, Located]:
    """Return the first error of the chain and where it was raised.

    The last one only says ``operation failed due to a previous error during capture``.
    """
    first = first_error(error)
    stack = stack_of_exception(first)
    place = roots.innermost_user(stack)
    if place is None:
        # A first error that was raised and handled inside a library: where the user's frame called it.
        whole = stack_of_exception(error)
        place, stack = roots.innermost_user(whole), stack or whole
    return first, Located(stack, place)
