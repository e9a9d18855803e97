"""What an editor can do about a finding: its rewrite, or the comment that suppresses it.

The comment is put where the audit reads it and a formatter leaves it.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Sequence
from typing import Final

from lsprotocol import types

from capaudit.lsp.positions import to_position
from capaudit.model import Finding

PLACEHOLDER: Final = "TODO: why this may stay"

Edits = dict[str, list[types.TextEdit]]
"""Edits by file of the result."""

_LONGEST_LINE: Final = 120
_OURS: Final = re.compile(r"#\s*capaudit:\s*ignore\[([^\]]*)\]")


def can_be_suppressed(finding: Finding) -> bool:
    """Return whether a comment in the source can silence the finding; those about the audit itself stay."""
    return finding.hazard is not None


def suppression(finding: Finding, lines: Sequence[str], encoding: str) -> types.TextEdit | None:
    """Return the edit that silences the finding, ``None`` where its statement is not in the text any more.

    A comment of ours on the statement gets one more rule; else the comment goes behind a statement of one
    line, and before any other. The reason is a placeholder that a reviewer will not miss.
    """
    first, last = finding.statement.line, max(finding.statement.end_line, finding.statement.line)
    if not 0 < first <= last <= len(lines):
        return None
    comments = _comments(lines)
    for line in [*_before(first, lines, comments), *range(first, last + 1)]:
        ours = _OURS.search(lines[line - 1], comments[line]) if line in comments else None
        if ours is not None:
            where = to_position(line, ours.end(1) + 1, lines, encoding)
            comma = ", " if ours[1].strip() else ""
            return types.TextEdit(types.Range(where, where), f"{comma}{finding.name}")
    text = f"# capaudit: ignore[{finding.name}] -- {PLACEHOLDER}"
    whole = lines[first - 1]
    if first == last and first not in comments and len(whole.rstrip()) + 2 + len(text) <= _LONGEST_LINE:
        start = to_position(first, len(whole.rstrip()) + 1, lines, encoding)
        end = to_position(first, len(whole) + 1, lines, encoding)
        return types.TextEdit(types.Range(start, end), f"  {text}")
    indent = whole[: len(whole) - len(whole.lstrip())]
    begin = types.Position(first - 1, 0)
    return types.TextEdit(types.Range(begin, begin), f"{indent}{text}\n")


def rewrite(finding: Finding, lines_of: Callable[[str], Sequence[str] | None], encoding: str) -> Edits | None:
    """Return the edits of the finding's fix by file, ``None`` where there is no fix or a file reads differently now.

    ``lines_of`` gives the lines of a file as they were audited, if they still are what the editor shows.
    """
    if finding.fix is None:
        return None
    edits: Edits = {}
    for edit in finding.fix.edits:
        lines = lines_of(edit.place.file)
        if lines is None:
            return None
        start = to_position(edit.place.line, edit.place.column, lines, encoding)
        end = to_position(edit.place.end_line, edit.place.end_column, lines, encoding)
        edits.setdefault(edit.place.file, []).append(types.TextEdit(types.Range(start, end), edit.text))
    return edits


def _before(first: int, lines: Sequence[str], comments: dict[int, int]) -> list[int]:
    """The lines right before a statement that hold nothing but a comment."""
    found = []
    line = first - 1
    while line in comments and not lines[line - 1][: comments[line]].strip():
        found.append(line)
        line -= 1
    return found


def _comments(lines: Sequence[str]) -> dict[int, int]:
    """Lines with a comment, and the column where it begins: a # inside of a string is none."""
    found: dict[int, int] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            if token.type == tokenize.COMMENT:
                found[token.start[0]] = token.start[1]
    except (tokenize.TokenError, SyntaxError):
        pass  # half a statement is being typed; what was read so far counts
    return found
