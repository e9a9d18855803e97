"""Columns as an editor counts them: the code points of a finding in UTF-8, UTF-16 or UTF-32 units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lsprotocol import types

from capaudit.model import Place

_WIDTH: Final[dict[str, Callable[[str], int]]] = {
    "utf-8": lambda text: len(text.encode("utf-8", errors="surrogatepass")),
    "utf-16": lambda text: len(text.encode("utf-16-le", errors="surrogatepass")) // 2,
    "utf-32": len,
}


def split_lines(text: str) -> list[str]:
    """Return the lines of a document: the protocol knows three line breaks, Python's ``splitlines`` many more."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def to_range(place: Place, lines: Sequence[str], encoding: str) -> types.Range:
    """Return the range of a place. A place beyond the text (it has changed since) ends with its line."""
    start = to_position(place.line, place.column, lines, encoding)
    end = to_position(max(place.end_line, place.line), place.end_column, lines, encoding)
    if (end.line, end.character) <= (start.line, start.character):
        end = types.Position(start.line, max(_length(lines, start.line, encoding), start.character))
    return types.Range(start, end)


def to_position(line: int, column: int, lines: Sequence[str], encoding: str) -> types.Position:
    """Return the position of a 1-based line and code point."""
    row = max(line, 1) - 1
    text = lines[row] if row < len(lines) else ""
    return types.Position(row, _WIDTH[encoding](text[: max(column, 1) - 1]))


def line_range(line: int, lines: Sequence[str], encoding: str) -> types.Range:
    """Return the range of a whole line without its indentation."""
    row = max(line, 1) - 1
    text = lines[row] if row < len(lines) else ""
    indent = len(text) - len(text.lstrip())
    return types.Range(types.Position(row, indent), types.Position(row, _WIDTH[encoding](text.rstrip())))


def to_column(position: types.Position, lines: Sequence[str], encoding: str) -> int:
    """Return the 0-based code point of an editor's position in its line."""
    text = lines[position.line] if position.line < len(lines) else ""
    width = _WIDTH[encoding]
    column = 0
    while column < len(text) and width(text[:column]) < position.character:
        column += 1
    return column


def _length(lines: Sequence[str], row: int, encoding: str) -> int:
    return _WIDTH[encoding](lines[row]) if row < len(lines) else 0
