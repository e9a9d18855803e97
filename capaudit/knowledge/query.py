"""Questions that commands and checks ask of the knowledge."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from capaudit.knowledge.idioms import Idiom
from capaudit.knowledge.loader import Knowledge
from capaudit.knowledge.operation import Operation

_NEAREST = 5


def operations_with(knowledge: Knowledge, code: str) -> tuple[Operation, ...]:
    """Every entry that can give the hazard ``code``, ordered by name."""
    return tuple(entry for entry in knowledge.entries if code in entry.hazards)


def cited(operation: Operation) -> tuple[str, ...]:
    """The idiom ids that an entry rests on, its own and those of its cases, in order of appearance."""
    groups = (operation.evidence, *(case.evidence for case in operation.cases))
    return tuple(dict.fromkeys(identifier for group in groups for identifier in group))


def idioms_of(operation: Operation, idioms: Iterable[Idiom]) -> tuple[Idiom, ...]:
    """The idioms that speak of an entry: those it cites, and those that name it."""
    wanted = set(cited(operation))
    return tuple(idiom for idiom in idioms if idiom.id in wanted or idiom.op in operation.names)


def nearest_operations(knowledge: Knowledge, text: str) -> tuple[str, ...]:
    """Names that somebody may have meant by ``text``: those that end in it, else those spelt alike."""
    endings = sorted(name for name in knowledge.operations if name.endswith(f".{text}"))
    return tuple(endings or difflib.get_close_matches(text, knowledge.operations, n=_NEAREST, cutoff=0.6))
