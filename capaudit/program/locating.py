"""Which function a piece of text stands in: a cheap first look before trees are walked."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from capaudit.program.symbols import FunctionInfo, Module

_NESTING = 12
"""A line belongs to one of the nearest functions above it, or to none."""


def functions_with(module: Module, pattern: re.Pattern[str]) -> Iterator[tuple[FunctionInfo, int, re.Match[str]]]:
    """Yield every match of ``pattern`` with its line and the innermost function that holds it."""
    matches = list(module.source.matches(pattern))
    places = functions_at(module, [match.start() for match in matches])
    for match, place in zip(matches, places, strict=True):
        if place is not None:
            yield (*place, match)


def functions_at(module: Module, positions: Iterable[int]) -> Iterator[tuple[FunctionInfo, int] | None]:
    """Yield the innermost function around each position of the text, with the line; positions come in order."""
    functions: list[FunctionInfo] = []
    starts: list[int] | None = None
    line, before = 1, 0
    for position in positions:
        if starts is None:
            functions = module.all_functions
            starts = [function.node.lineno for function in functions]
        line += module.source.count("\n", before, position)
        before = position
        nearest = bisect_right(starts, line) - 1
        for i in range(nearest, max(nearest - _NESTING, -1), -1):
            if starts[i] <= line <= (functions[i].node.end_lineno or 0):
                yield functions[i], line
                break
        else:
            yield None
