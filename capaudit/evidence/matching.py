"""Where a frame of a run is in the source as it stands: file by root and path, function by name, statement by text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from capaudit.evidence.document import Evidence, RanFunction, StackFrame
from capaudit.evidence.source import FunctionSource, SourceOutline, Statement, decode_lines, owner_name, same_statement


@dataclass(frozen=True, slots=True)
class Spot:
    """A frame in today's source.

    ``statements`` are those that the frame can mean: one, several that read alike, or none where the
    statement is gone. ``exact``: they were found by their text (or stand where they stood). ``line`` is
    the frame's line today, where lines can be told. ``stale``: the function reads differently from what ran.
    """

    file: str
    function: str
    statements: tuple[Statement, ...]
    exact: bool
    line: int | None
    stale: bool


@dataclass(frozen=True, slots=True)
class Ran:
    """Whether a statement ran. ``stale``: nobody can tell, for the function has changed."""

    reached: bool
    stale: bool


class AuditedSource:
    """One document's view of the audited files."""

    def __init__(
        self,
        document: Evidence,
        files: tuple[str, ...],
        folder: Path,
        outline: Callable[[str], SourceOutline | None],
    ) -> None:
        self._outline = outline
        self._folder = folder
        self._files = files
        self._resolved: dict[tuple[str, str], str | None] = {}
        self._document = document
        self._spots: dict[StackFrame, Spot | None] = {}

    def spot(self, frame: StackFrame) -> Spot | None:
        """Return where a frame is today, ``None`` for a file or function that is not part of the program."""
        if frame not in self._spots:
            self._spots[frame] = self._find(frame)
        return self._spots[frame]

    def loose_spot(self, frame: StackFrame) -> Spot | None:
        """Return all of a function for a frame without text, ``None`` for one that has its text."""
        spot = self.spot(frame)
        if frame.text or spot is None or not spot.statements:
            return None
        outline = self._outline(spot.file)
        functions = outline.named(spot.function) if outline is not None else ()
        if outline is None or not functions:
            return None
        return Spot(spot.file, spot.function, _statements(outline, functions[0]), False, None, True)

    def ran(self, file: str, line: int, statement: Statement | None) -> Ran | None:
        """Return what the run says of a statement, ``None`` where its function did not run or nobody kept count."""
        outline = self._outline(file)
        function = outline.function_at(line) if outline is not None else None
        if function is None or statement is None:
            return None
        versions = self._ran_by_function.get((file, function.name))
        if not versions:
            return None
        same = next((version for version in versions if version.digest == function.digest), None)
        if same is None:
            return Ran(reached=False, stale=True)
        ran = decode_lines(same.ran)
        lines = function.code_lines
        reached = any(statement.first <= lines[ordinal] <= statement.last for ordinal in ran if ordinal < len(lines))
        return Ran(reached, stale=False)

    @property
    def is_foreign(self) -> bool:
        """Whether the document speaks of functions and events, and none of them is in an audited file."""
        events = self._document.events
        spoken = {(function.root, function.file) for function in self._document.sources}
        spoken |= {(frame.root, frame.file) for event in events for frame in event.stack}
        spoken |= {(event.root, event.file) for event in events}
        return bool(spoken) and not any(self._file(root, file) for root, file in spoken)

    def has_run(self, file: str, function: str) -> bool:
        """Return whether a function ran, in whatever form."""
        return (file, function) in self._ran_by_function

    def is_fresh(self, file: str, function: str) -> bool:
        """Return whether a function ran in the form that it has today."""
        outline = self._outline(file)
        today = {item.digest for item in outline.named(function)} if outline is not None else set()
        return any(version.digest in today for version in self._ran_by_function.get((file, function), ()))

    @cached_property
    def _ran_by_function(self) -> dict[tuple[str, str], list[RanFunction]]:
        found: dict[tuple[str, str], list[RanFunction]] = {}
        for function in self._document.sources:
            file = self._file(function.root, function.file)
            if file is not None:
                found.setdefault((file, function.function), []).append(function)
        return found

    def _file(self, root: str, file: str) -> str | None:
        """The audited file behind a root and path: the whole of both, else the path alone where that is unique."""
        key = (root, file)
        if key not in self._resolved:
            whole = [path for path in self._candidates(file) if self._absolute(path).endswith(f"/{root}/{file}")]
            found = whole or [path for path in self._candidates(file) if self._absolute(path).endswith(f"/{file}")]
            self._resolved[key] = found[0] if len(found) == 1 or whole else None
        return self._resolved[key]

    def _candidates(self, file: str) -> list[str]:
        return self._by_name.get(file.rpartition("/")[2], [])

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in self._files:
            found.setdefault(path.rpartition("/")[2], []).append(path)
        return found

    def _absolute(self, file: str) -> str:
        return (self._folder / file).resolve().as_posix()

    def _find(self, frame: StackFrame) -> Spot | None:
        file = self._file(frame.root, frame.file)
        outline = self._outline(file) if file is not None else None
        name = owner_name(frame.function)
        if file is None or outline is None or not name:
            return None
        functions = outline.named(name)
        ran = self._ran_by_function.get((file, name), [])
        current = next((item for item in functions if item.digest in {version.digest for version in ran}), None)
        fresh = current is not None
        current = current or next(iter(functions), None)
        if current is None:
            return Spot(file, name, (), False, None, True)
        # Where nobody recorded what ran, the text is all there is to compare.
        stale = bool(ran) and not fresh
        origin = next((version.line for version in ran if version.digest == current.digest), None)
        expected = frame.line + (current.first - origin if origin is not None else 0)
        if frame.text:
            return self._by_text(file, name, outline, current, frame.text, expected, stale)
        statement = outline.statement_at(frame.line)
        if statement is not None and current.first <= frame.line <= current.last:
            return Spot(file, name, (statement,), True, frame.line, stale)
        everything = _statements(outline, current)
        return Spot(file, name, everything, False, None, True)

    def _by_text(
        self,
        file: str,
        name: str,
        outline: SourceOutline,
        function: FunctionSource,
        text: str,
        expected: int,
        stale: bool,
    ) -> Spot:
        alike = tuple(item for item in _statements(outline, function) if same_statement(item.text, text))
        near = tuple(item for item in alike if item.first <= expected <= item.last)
        return Spot(file, name, near or alike, True, expected if near else None, stale or not alike)


def _statements(outline: SourceOutline, function: FunctionSource) -> tuple[Statement, ...]:
    found = dict.fromkeys(outline.statement_at(line) for line in function.code_lines)
    return tuple(statement for statement in found if statement is not None)
