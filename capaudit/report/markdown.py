"""Markdown tables: the inventory's and the rule list's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; cell texts are escaped, so that source code cannot break out of its cell."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell(text) for text in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Escape what Markdown or HTML would read as markup; text between backticks stays code."""
    flat = " ".join(text.split()).replace("|", "\\|")
    parts = flat.split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick opens nothing
        return _plain(flat.replace("`", "\\`"))
    return "`".join(part if index % 2 else _plain(part) for index, part in enumerate(parts))


def code(text: str) -> str:
    """Return the text as inline code; backticks in it would end the span early and are replaced."""
    return f"`{text.replace('`', chr(39))}`"


def _plain(text: str) -> str:
    return "".join(_MARKUP.get(character, character) for character in text)


# Links could lead anywhere, and a decorator such as @torch.no_grad would call a person of that name.
_MARKUP = {
    "<": "&lt;",
    ">": "&gt;",
    "@": "&#64;",
    **{character: f"\\{character}" for character in "*_[]"},
}
