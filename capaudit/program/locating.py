"""Which function a piece of text stands in: a cheap first look before trees are walked."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from capaudit.program.symbols import FunctionInfo, Module

_NESTING = 12
"""A line belongs to one of the nearest functions above it, or to none."""


def functions_with(module: Module, pattern: re.Pattern[str]) -> Iterator[tuple[FunctionInfo, int, re.Match[str]]]:
    """Yield every match of ``pattern`` with its line and the innermost function that holds it."""
    functions = module.all_functions
    starts = [function.line for function in functions]
    line, position = 1, 0
    for match in pattern.finditer(module.source):
        line += module.source.count("\n", position, match.start())
        position = match.start()
        nearest = bisect_right(starts, line) - 1
        for i in range(nearest, max(nearest - _NESTING, -1), -1):
            if functions[i].line <= line <= (functions[i].node.end_lineno or 0):
                yield functions[i], line, match
                break
