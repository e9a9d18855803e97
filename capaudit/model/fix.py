"""A rewrite that removes a finding: spans of source and what to put there."""

from __future__ import annotations

from dataclasses import dataclass

from capaudit.model.finding import Place


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Put ``text`` in place of a span; an empty span inserts."""

    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A rewrite with the same meaning. All of its ``edits`` belong together.

    ``safe``: the audit has proven everything that the meaning rests on. Otherwise ``message`` says what
    a person has to know to be sure. ``name`` is the rewrite's stable name (``index-fill``).
    """

    name: str
    message: str
    safe: bool
    edits: tuple[Edit, ...]
