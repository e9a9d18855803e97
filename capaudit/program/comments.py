"""``# capaudit:`` comments: boundaries, ownership and suppressions, by line."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass

_MARK = re.compile(r"#\s*capaudit:\s*(?P<word>[a-z-]+)\s*(?:\[(?P<rules>[^\]]*)\])?\s*(?P<rest>.*)$")


@dataclass(frozen=True, slots=True)
class CapauditComment:
    """One comment: ``word`` is ``boundary``, ``ignore``, ``completion-owned`` or ``cold-path``.

    ``rules`` are the codes or names in brackets; ``reason`` follows ``--`` and is ``None`` where it
    is missing; ``own_line`` is true when nothing else stands on the line.
    """

    word: str
    rules: tuple[str, ...]
    reason: str | None
    options: tuple[str, ...]
    line: int
    column: int
    own_line: bool


def read_comments(source: str) -> tuple[CapauditComment, ...]:
    """Return the capaudit comments of a source text; the tokenizer only runs where the word occurs."""
    if "capaudit:" not in source:
        return ()
    comments: list[CapauditComment] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and (match := _MARK.search(token.string)):
                comments.append(_comment(match, token))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        pass  # the parser has reported the file already; comments read so far still count
    return tuple(comments)


def _comment(match: re.Match[str], token: tokenize.TokenInfo) -> CapauditComment:
    rest = match["rest"].strip()
    head, dashes, reason = rest.partition("--")
    rules = tuple(part.strip() for part in (match["rules"] or "").split(",") if part.strip())
    return CapauditComment(
        word=match["word"],
        rules=rules,
        reason=(reason.strip() or None) if dashes else None,
        options=tuple(head.split()),
        line=token.start[0],
        column=token.start[1] + 1,
        own_line=not token.line[: token.start[1]].strip(),
    )
