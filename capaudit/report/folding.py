"""Text for a terminal of a given width: lines folded at blanks, so that columns stay where eyes expect them."""

from __future__ import annotations

from capaudit.report.source import text_width

_LEAST = 24
"""A column narrower than this is not worth folding into: one long line is easier to read than a stripe."""


def fold(text: str, width: int | None, *, start: int, indent: int) -> list[str]:
    """Return the lines of ``text``, of which the first begins at column ``start`` and the others at ``indent``.

    Without a width the text stays one line. Words are not broken: a name or a path stays whole, so that it
    can be copied.
    """
    if width is None or width - indent < _LEAST or start + text_width(text) <= width:
        return [text]
    lines: list[str] = []
    current, room = "", width - start
    for word in text.split(" "):
        longer = f"{current} {word}" if current else word
        if text_width(longer) <= room:
            current = longer
            continue
        if current or not lines:
            lines.append(current)
        current, room = word, width - indent
    return [*lines, current] if current else lines
