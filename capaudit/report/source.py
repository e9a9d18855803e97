"""Source lines for code frames, read from where the audit found them and made safe for a terminal."""

from __future__ import annotations

import io
import tokenize
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from capaudit.model import Place

_LONGEST_LINE: Final = 160


@dataclass(slots=True)
class SourceLines:
    """Lines of source files, read at most once per report."""

    folder: Path
    _files: dict[str, list[str]] = field(default_factory=dict)

    def line(self, file: str, number: int) -> str | None:
        """Return one line without its line break, or ``None`` when the file or line is not there (any more)."""
        if file not in self._files:
            self._files[file] = _read(self.folder / file)
        lines = self._files[file]
        return lines[number - 1] if 0 < number <= len(lines) else None


def frame(line: str, place: Place, room: int = _LONGEST_LINE) -> tuple[str, str]:
    """Return the first line of a place as it is shown, and the carets that mark the place below it.

    A place that goes on over several lines is marked to the end of its first one; ``room`` is the number of
    columns that the line may take.
    """
    start = min(max(place.column - 1, 0), len(line))
    stop = place.end_column - 1 if place.end_line == place.line else len(line.rstrip())
    line, start, stop = _window(line, start, stop, min(room, _LONGEST_LINE))
    shown = printable(line).rstrip()
    indent = len(shown) - len(shown.lstrip())
    # Widths are taken from the start of the line, because a tab's width depends on where it stands.
    before, until = text_width(printable(line[:start])), text_width(printable(line[:stop]))
    return shown[indent:], " " * max(before - indent, 0) + "^" * max(until - before, 1)


def _window(line: str, start: int, stop: int, longest: int) -> tuple[str, int, int]:
    """Cut a line that is too long to read (a data table, generated code) to the surroundings of the place."""
    indent = len(line) - len(line.lstrip())
    if len(line.rstrip()) - indent <= longest:
        return line, start, stop
    first = max(start - longest // 4, 0)
    if first <= indent:
        first = 0
    last = min(first + longest + (indent if first == 0 else 0), len(line))
    head, tail = "..." if first else "", "..." if last < len(line) else ""
    moved = len(head) - first
    return f"{head}{line[first:last]}{tail}", start + moved, min(stop, last) + moved


def printable(text: str) -> str:
    """Return the text with tabs as four blanks and control characters replaced: source must not steer a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if _harmless(character) else "\N{REPLACEMENT CHARACTER}" for character in text.expandtabs(4)
    )


def _harmless(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def text_width(text: str) -> int:
    """Return the number of columns that the text takes on a terminal."""
    return len(text) if text.isascii() else sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _read(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
    except OSError:
        return []  # the frame is left out; the finding itself stands
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding, errors="replace")
    except (SyntaxError, LookupError, UnicodeError):
        # An unknown encoding, or a codec (hex, rot13, idna) that does not decode bytes to text.
        text = data.decode("utf-8", errors="replace")
    # Only the line breaks that Python counts: str.splitlines also breaks at form feeds and U+2028.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
