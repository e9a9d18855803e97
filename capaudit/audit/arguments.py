"""The arguments of a call, evaluated."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from capaudit.audit.values import NOTHING, Value


@dataclass(slots=True)
class Arguments:
    """The arguments of one call. ``star``/``keyword_star`` join what unknown ``*``/``**`` operands may supply."""

    positional: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)
    star: Value = NOTHING
    keyword_star: Value = NOTHING
    nodes: list[ast.expr] = field(default_factory=list)
    keyword_nodes: dict[str, ast.expr] = field(default_factory=dict)

    def values(self) -> list[Value]:
        return [*self.positional, *self.keywords.values(), *(v for v in (self.star, self.keyword_star) if v)]
