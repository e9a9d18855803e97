"""Which lines of the target's own source ran, and what they read like.

A line without an event says something only if it ran, so the probe keeps count. ``sys.monitoring`` from
Python 3.12 on, where each line costs one call; ``sys.settrace`` in the target's own functions before.
"""

from __future__ import annotations

import sys
import tokenize
from collections.abc import Iterable
from types import CodeType, FrameType, TracebackType
from typing import Any

from capaudit.evidence import RanFunction
from capaudit.evidence.source import SourceOutline, encode_lines
from capaudit.probe.locator_roots import RawFrame, SourceRoots, is_plumbing

LinesByFile = dict[str, set[int]]


class ExecutedLines:
    """Context manager, to be entered as often as needed: collects the lines of the target that run inside it."""

    def __init__(self, roots: SourceRoots) -> None:
        self.lines: LinesByFile = {}
        self._roots = roots
        self._tool: int | None = None
        self._before: Any = None

    def __enter__(self) -> ExecutedLines:
        if hasattr(sys, "monitoring"):
            monitoring = sys.monitoring
            self._tool = next((number for number in (3, 4, 5, 1) if monitoring.get_tool(number) is None), None)
            if self._tool is not None:
                monitoring.use_tool_id(self._tool, "capaudit coverage")
                monitoring.register_callback(self._tool, monitoring.events.LINE, self._line)
                monitoring.set_events(self._tool, monitoring.events.LINE)
                return self
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._tool is None:
            sys.settrace(self._before)
            return
        monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        monitoring.set_events(self._tool, 0)
        monitoring.register_callback(self._tool, monitoring.events.LINE, None)
        monitoring.free_tool_id(self._tool)
        self._tool = None

    def _line(self, code: CodeType, line: int) -> Any:
        self._note(code.co_filename, line)
        return sys.monitoring.DISABLE  # type: ignore[attr-defined,unused-ignore]

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        file = frame.f_code.co_filename
        return self._local if not is_plumbing(file) and self._roots.is_user(file) else None

    def _local(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self._note(frame.f_code.co_filename, frame.f_lineno)
        return self._local

    def _note(self, file: str, line: int) -> None:
        if file in self.lines or (not is_plumbing(file) and self._roots.is_user(file)):
            self.lines.setdefault(file, set()).add(line)


class SourceTexts:
    """Outlines of source files, each read once. A file that is not there (any more) has no functions."""

    def __init__(self) -> None:
        self._outlines: dict[str, SourceOutline] = {}
        self._texts: dict[tuple[str, int], str] = {}

    def outline(self, file: str) -> SourceOutline:
        """Return the outline of a file by the name that Python knows it by."""
        if file not in self._outlines:
            try:
                with tokenize.open(file) as stream:
                    source = stream.read()
            except (OSError, SyntaxError, UnicodeError, ValueError):
                source = ""
            self._outlines[file] = SourceOutline(source)
        return self._outlines[file]

    def statement(self, file: str, line: int) -> str:
        """Return the text of the statement at a line, or nothing."""
        if (file, line) not in self._texts:
            statement = self.outline(file).statement_at(line)
            self._texts[file, line] = statement.text if statement is not None else ""
        return self._texts[file, line]


def without(lines: LinesByFile, stack: Iterable[RawFrame]) -> LinesByFile:
    """Return the lines without those of a stack: they had begun and did not end."""
    begun = {(file, line) for file, line, _ in stack}
    return {file: {line for line in numbers if (file, line) not in begun} for file, numbers in lines.items()}


def ran_functions(lines: LinesByFile, roots: SourceRoots, texts: SourceTexts) -> tuple[RanFunction, ...]:
    """Return the functions of the target that hold executed lines, by file and place."""
    found: list[RanFunction] = []
    for file in sorted(lines):
        where = roots.locate(file)
        if not where.user:
            continue
        outline = texts.outline(file)
        for function in outline.functions:
            ordinals = {line: index for index, line in enumerate(function.code_lines)}
            own = [line for line in lines[file] if line in ordinals and outline.function_at(line) is function]
            if own:
                ran = encode_lines(ordinals[line] for line in own)
                found.append(RanFunction(where.root, where.file, function.name, function.first, function.digest, ran))
    return tuple(sorted(found, key=lambda function: (function.root, function.file, function.line)))
