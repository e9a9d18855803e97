"""A rule page: front matter that code reads, prose for people, examples that run as tests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
FRONT_MATTER = re.compile(r"\A\+\+\+\n(.*?)^\+\+\+\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """A complete program of a page; ``line`` is the 1-based line of its first source line in the page."""

    source: str
    line: int

    @property
    def expects(self) -> bool:
        """Whether the example carries an expectation, so that it is the bad twin."""
        return "# expect:" in self.source


@dataclass(frozen=True, slots=True)
class Rule:
    """One hazard or meta code.

    ``ownership`` is ``rejected``, ``meta``, ``pattern`` (found in any file, without a boundary) or ``opt-in
    pattern`` (only when asked for); ``title`` the short description, ``message`` the
    cause in one sentence, ``remedy`` the kind of change that helps. ``path`` is the page; its prose
    is read only when somebody asks for it, because a check needs the front matter alone.
    """

    code: str
    name: str
    ownership: str
    title: str
    message: str
    remedy: str
    aliases: tuple[str, ...]
    evidence: tuple[str, ...]
    path: str

    @property
    def page(self) -> str:
        """The page without its front matter. Errors: ``OSError`` when the file is gone."""
        return FRONT_MATTER.sub("", Path(self.path).read_text(encoding="utf-8"), count=1)

    @property
    def prose(self) -> str:
        """The page without front matter and without its examples."""
        return re.sub(r"\n{3,}", "\n\n", _FENCE.sub("", self.page)).strip() + "\n"

    @property
    def examples(self) -> tuple[Example, ...]:
        """The page's Python examples in order; each is a complete program."""
        text = Path(self.path).read_text(encoding="utf-8")
        return tuple(
            Example(match.group(1), text.count("\n", 0, match.start(1)) + 1) for match in _FENCE.finditer(text)
        )
