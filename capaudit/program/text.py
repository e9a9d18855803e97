"""The source text of a module, which remembers what it was asked.

The audit looks at text before it looks at trees, comments included. Whoever wants to know whether another
text would have led to the same result has to put the same questions to it, so every question is noted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Questions:
    """What a run asked the texts of a program, each question once.

    ``needles``: whether a text holds a string; ``patterns``: what a pattern matches (with its flags);
    ``near``: see ``near``. ``local`` are strings looked for in a part of a text, and ``guarded`` those whose
    surroundings were looked at in texts that were not parsed. ``literals`` names the files whose string
    literals were looked at, docstrings among them.
    """

    needles: dict[str, None] = field(default_factory=dict)
    patterns: dict[tuple[str, int], None] = field(default_factory=dict)
    near: dict[tuple[tuple[str, ...], str, int], None] = field(default_factory=dict)
    local: dict[str, None] = field(default_factory=dict)
    guarded: dict[str, None] = field(default_factory=dict)
    literals: dict[str, None] = field(default_factory=dict)

    def add(self, other: Questions) -> None:
        """Add what another process asked."""
        for name in self.__slots__:
            getattr(self, name).update(getattr(other, name))


class Text(str):
    """A source text. ``in`` and the methods below note what is asked; ``str(text)`` is a copy that notes nothing."""

    __slots__ = ("questions",)
    questions: Questions

    def __contains__(self, needle: object) -> bool:
        assert isinstance(needle, str)
        self.questions.needles[needle] = None
        return str.__contains__(self, needle)

    def find(self, needle: str, *span: Any) -> int:
        self.questions.local[needle] = None
        return str.find(self, needle, *span)

    def search(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self.questions.patterns[pattern.pattern, pattern.flags] = None
        return pattern.search(self)

    def matches(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        self.questions.patterns[pattern.pattern, pattern.flags] = None
        return pattern.finditer(self)

    def guard(self, needle: str) -> None:
        """Note that the surroundings of a string are looked at, in a text that need not be parsed for it."""
        self.questions.guarded[needle] = None

    def near(self, words: tuple[str, ...], pattern: re.Pattern[str]) -> bool:
        """Return whether one of the words occurs with the pattern near it; see the function ``near``."""
        self.questions.near[words, pattern.pattern, pattern.flags] = None
        return near(self, words, pattern)

    def part(self, text: str) -> Part:
        """Return a part of this text that notes as well what it is asked."""
        made = Part(text)
        made.questions = self.questions
        return made


class Part(str):
    """A part of a source text, such as the lines of one function."""

    __slots__ = ("questions",)
    questions: Questions

    def __contains__(self, needle: object) -> bool:
        assert isinstance(needle, str)
        self.questions.local[needle] = None
        return str.__contains__(self, needle)


def asked_by(text: str, questions: Questions) -> Text:
    """Return a text whose questions are noted there."""
    made = Text(text)
    made.questions = questions
    return made


_BEHIND = 240


def near(source: str, words: tuple[str, ...], pattern: re.Pattern[str]) -> bool:
    """Return whether a word occurs with the pattern on its line, before or behind it, or just below."""
    for word in words:
        at = str.find(source, word)
        while at >= 0:
            if pattern.search(source, source.rfind("\n", 0, at) + 1, at + _BEHIND) is not None:
                return True
            at = str.find(source, word, at + len(word))
    return False
