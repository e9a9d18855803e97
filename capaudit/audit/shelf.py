"""A result as plain values for the cache, and back, with the places of files that have moved.

Reading plain values runs no code, which is why no pickle is used. A result with one moved file is only given
back where every place in that file is known to have moved as a whole, with the same text around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from typing import Any

from capaudit import model
from capaudit.audit.sameness import Move

_KINDS: tuple[type, ...] = (
    *(model.Result, model.Boundary, model.Finding, model.Place, model.Hop, model.Observation, model.Operation),
    *(model.RelatedPlace, model.Suppression, model.Edit, model.Fix, model.PrunedBranch, model.ReachedFunction),
    *(model.StaticAudit, model.Statistics, model.UnresolvedCall, model.EvidenceRow, model.EvidenceSummary),
    *(model.OwnershipClass, model.Confidence, model.EvidenceVerdict, model.Severity, model.BaselineState),
    model.BaselineEntry,
)
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}
_NAMES: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind)) for kind in _KINDS if is_dataclass(kind)
}
_TUPLE, _TABLE = -1, -2

Plain = Any


class MovedError(Exception):
    """A place or a text of the result is not known to be what another audit would report."""


def flat(value: object) -> Plain:
    """Return a value of the model as numbers, strings and tuples."""
    kind = type(value)
    number = _NUMBERS.get(kind)
    if number is not None:
        if isinstance(value, Enum):
            return (number, value.value)
        return (number, *[flat(getattr(value, name)) for name in _NAMES[kind]])
    if kind is tuple:
        return (_TUPLE, *map(flat, value))  # type: ignore[call-overload]
    if kind is dict:
        return (_TABLE, *value.items())  # type: ignore[attr-defined]
    return value


class Restored:
    """Makes values of the model from plain ones; ``moves`` says which files differ, and how."""

    def __init__(self, moves: Mapping[str, Move], *, with_fixes: bool) -> None:
        self._moves = moves
        self._shifted = {file: move for file, move in moves.items() if move.shifts}
        self._ends = [
            (f"{file}:", re.compile(rf"\({re.escape(file)}:(\d+)\)$"), move) for file, move in self._shifted.items()
        ]
        self._makers: dict[int, Callable[[Plain], Any]] = {
            _TUPLE: lambda plain: tuple([self.value(item) for item in plain[1:]]),
            _TABLE: lambda plain: dict(plain[1:]),
        }
        for kind, number in _NUMBERS.items():
            self._makers[number] = partial(self._made, kind)
        if moves:
            self._makers[_NUMBERS[model.Place]] = self._place
            self._makers[_NUMBERS[model.ReachedFunction]] = self._reached
            if with_fixes:
                self._makers[_NUMBERS[model.Finding]] = self._finding
            for kind in (model.Hop, model.Boundary):
                self._makers[_NUMBERS[kind]] = partial(self._with_line, kind)

    def value(self, plain: Plain) -> Any:
        """Return the value.

        Errors: ``MovedError`` where a place or a text is not known to be what another audit would report.
        """
        if type(plain) is tuple:
            return self._makers[plain[0]](plain)
        return self._text(plain) if self._ends and type(plain) is str else plain

    def _made(self, kind: type, plain: Plain) -> Any:
        return kind(*[self.value(item) for item in plain[1:]])

    def _place(self, plain: Plain, *, quoted: bool = True) -> model.Place:
        _, file, line, column, end_line, end_column = plain
        move = self._moves.get(file)
        if move is None:
            return model.Place(file, line, column, end_line, end_column)
        if quoted and move.touches(line, end_line):
            raise MovedError
        return model.Place(file, self._line(move, line), column, self._line(move, end_line), end_column)

    def _finding(self, plain: Plain) -> model.Finding:
        """A comment anywhere in the function may decide whether there is a fix."""
        _, file, line, *_ = plain[1 + _NAMES[model.Finding].index("place")]
        move = self._moves.get(file)
        if move is not None and any(move.touches(*span) for span in move.functions if span[0] <= line <= span[1]):
            raise MovedError
        return self._made(model.Finding, plain)  # type: ignore[no-any-return]

    def _reached(self, plain: Plain) -> model.ReachedFunction:
        _, owner, place, boundary, callers = plain
        return model.ReachedFunction(owner, self._place(place, quoted=False), boundary, self.value(callers))

    def _with_line(self, kind: type, plain: Plain) -> Any:
        values = dict(zip(_NAMES[kind], map(self.value, plain[1:]), strict=True))
        if values["file"] in self._moves:
            values["line"] = self._line(self._moves[values["file"]], values["line"])
        return kind(**values)

    def _line(self, move: Move, line: int) -> int:
        if line not in move.lines:
            raise MovedError
        return move.lines[line]

    def _text(self, text: str) -> str:
        if _LINE.match(text):
            raise MovedError
        for mark, end, move in self._ends:
            if mark in text:
                found = end.search(text)
                if found is None or text.count(mark) > 1:
                    raise MovedError
                text = f"{text[: found.start(1)]}{self._line(move, int(found[1]))})"
        return text


_LINE = re.compile(r"line \d")
