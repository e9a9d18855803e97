"""Calls a check after every executed line, with the stack of the line that was executed.

``sys.monitoring`` from Python 3.12 on, ``sys.settrace`` before. A line event arrives before its line
runs, so whatever changed since the last event was done by the line on top of the stack kept here, and
not by the frame that is current when the event arrives.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from types import CodeType, FrameType, TracebackType
from typing import Any

from capaudit.probe.locator_roots import RawFrame, is_plumbing

MAXIMUM_PATH = 400_000


class LineWatcher(ABC):
    """Context manager around the code to watch. Subclasses look at the world in ``check``.

    ``events`` counts the checks, ``seconds`` is the time spent in them: the overhead to report. ``path``
    is the sequence of executed (file name, line), cut off at ``MAXIMUM_PATH``.
    """

    def __init__(self) -> None:
        self.events = 0
        self.seconds = 0.0
        self.path: list[tuple[str, int]] = []
        self._stack: list[list[Any]] = []  # [code, line] per frame entered since the start
        self._thread = 0
        self._engine: _Engine | None = None

    @abstractmethod
    def check(self, stack: list[list[Any]]) -> None:
        """Look for a change made by the line on top of ``stack`` (``[code, line]``, innermost last)."""

    def frames(self) -> tuple[RawFrame, ...]:
        """Return the stack of the line executed last, innermost first, without the probe's frames."""
        return tuple(
            (code.co_filename, line, code.co_qualname)
            for code, line in reversed(self._stack)
            if not is_plumbing(code.co_filename)
        )

    def __enter__(self) -> LineWatcher:
        self._thread = threading.get_ident()
        self._stack.clear()
        self._engine = _MonitoringEngine(self) if hasattr(sys, "monitoring") else _TraceEngine(self)
        self._engine.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._engine is not None:
            self._engine.stop()
            self._engine = None

    # What the engines call. Events of other threads (autograd's, a compiler's) would tear the stack.

    def entered(self, code: CodeType) -> None:
        if threading.get_ident() == self._thread:
            self._look()
            self._stack.append([code, code.co_firstlineno])

    def moved(self, code: CodeType, line: int) -> None:
        if threading.get_ident() == self._thread:
            self._look()
            if len(self.path) < MAXIMUM_PATH:
                self.path.append((code.co_filename, line))
            if not self._stack or self._stack[-1][0] is not code:
                # A frame that was running before the start: only its innermost line is known.
                self._stack[:] = [[code, line]]
            else:
                self._stack[-1][1] = line

    def left(self, code: CodeType) -> None:
        if threading.get_ident() == self._thread:
            self._look()
            if self._stack and self._stack[-1][0] is code:
                self._stack.pop()

    def _look(self) -> None:
        if self._stack:
            begin = time.perf_counter()
            self.events += 1
            self.check(self._stack)
            self.seconds += time.perf_counter() - begin


class _Engine(ABC):
    def __init__(self, watcher: LineWatcher) -> None:
        self.watcher = watcher

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...


class _TraceEngine(_Engine):
    """``sys.settrace``: works everywhere, and gives way to a debugger that is already there."""

    def start(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._call)

    def stop(self) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename == __file__:
            return None
        self.watcher.entered(frame.f_code)
        return self._local

    def _local(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self.watcher.moved(frame.f_code, frame.f_lineno)
        elif event == "return":
            self.watcher.left(frame.f_code)
        return self._local


class _MonitoringEngine(_Engine):
    """``sys.monitoring``: cheaper, and does not disturb a debugger."""

    def start(self) -> None:
        monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._tool = next(number for number in (4, 3, 5, 1) if monitoring.get_tool(number) is None)
        monitoring.use_tool_id(self._tool, "capaudit")
        events = monitoring.events
        watcher = self.watcher

        def entered(code: CodeType, offset: int) -> None:
            if code.co_filename != __file__:
                watcher.entered(code)

        def moved(code: CodeType, line: int) -> None:
            if code.co_filename != __file__:
                watcher.moved(code, line)

        def left(code: CodeType, offset: int, value: object) -> None:
            if code.co_filename != __file__:
                watcher.left(code)

        def resumed_by_throw(code: CodeType, offset: int, error: BaseException) -> None:
            entered(code, offset)

        callbacks: dict[int, Any] = {
            events.PY_START: entered,
            events.PY_RESUME: entered,
            events.PY_THROW: resumed_by_throw,
            events.LINE: moved,
            events.PY_RETURN: left,
            events.PY_YIELD: left,
            events.PY_UNWIND: left,
        }
        mask = 0
        for event, callback in callbacks.items():
            monitoring.register_callback(self._tool, event, callback)
            mask |= event
        self._callbacks = callbacks
        monitoring.set_events(self._tool, mask)

    def stop(self) -> None:
        monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        monitoring.set_events(self._tool, 0)
        for event in self._callbacks:
            monitoring.register_callback(self._tool, event, None)
        monitoring.free_tool_id(self._tool)
