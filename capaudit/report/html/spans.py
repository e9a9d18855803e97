"""Where the function around a line begins and ends, for reports that do not say it themselves."""

from __future__ import annotations

import ast
import warnings
from typing import Final

from capaudit.report.source import SourceLines

_AROUND: Final = 8
"""Lines before and after a place that stands in no function."""


class FunctionSpans:
    """Spans of functions by file; every file is parsed at most once."""

    def __init__(self, sources: SourceLines) -> None:
        self._sources = sources
        self._files: dict[str, list[tuple[int, int]]] = {}

    def around(self, file: str, line: int) -> tuple[int, int]:
        """Return the first and last line of the innermost function that holds ``line``, decorators included.

        Without one, or where the file is gone or broken: a few lines around it.
        """
        if file not in self._files:
            self._files[file] = self._parse(file)
        inside = [span for span in self._files[file] if span[0] <= line <= span[1]]
        return max(inside) if inside else (max(line - _AROUND, 1), line + _AROUND)

    def _parse(self, file: str) -> list[tuple[int, int]]:
        lines: list[str] = []
        while (text := self._sources.line(file, len(lines) + 1)) is not None:
            lines.append(text)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse("\n".join(lines).removeprefix("\ufeff"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []
        return [
            (min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]), node.end_lineno or 0)
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]
