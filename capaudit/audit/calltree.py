"""Which functions a boundary reaches and from where: the settled contexts, folded into functions."""

from __future__ import annotations

import ast

from capaudit.audit.boundaries import Entry
from capaudit.audit.contexts import Context
from capaudit.audit.verdicts import place_of
from capaudit.model import Hop, Place, ReachedFunction
from capaudit.program import FunctionInfo


def reached_functions(entry: Entry, parents: dict[Context, tuple[Context, ast.AST] | None]) -> list[ReachedFunction]:
    """Return every function below ``entry``, the nearest first; ``parents`` are its contexts in breadth-first order.

    A captured region counts as the function that holds it.
    """
    places: dict[str, Place] = {}
    callers: dict[str, dict[Hop, None]] = {}
    for context in parents:
        owner = _owner(context)
        if owner not in places:
            places[owner] = _span(context, entry)
            callers[owner] = {}
        parent = parents[context]
        if parent is not None and _owner(parent[0]) != owner:  # the call that first reaches it leads
            hop = Hop(_owner(parent[0]), parent[0].module.file, getattr(parent[1], "lineno", 0))
            callers[owner].setdefault(hop)
    for context in parents:
        for callee, node in context.edges:
            owner = _owner(callee)
            if callee in parents and owner != _owner(context):
                callers[owner].setdefault(Hop(_owner(context), context.module.file, getattr(node, "lineno", 0)))
    root = _owner(next(iter(parents)))
    callers[root] = {}
    return [
        ReachedFunction(owner, place, entry.boundary.name, tuple(callers[owner])) for owner, place in places.items()
    ]


def _owner(context: Context) -> str:
    """Named as the operations of the context are."""
    return context.function.owner if context.function else context.module.name


def _span(context: Context, entry: Entry) -> Place:
    function: FunctionInfo = context.function or entry.function
    node = function.node
    place = place_of(function.module, node)
    first = min([place.line, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    return Place(place.file, first, 1 if first < place.line else place.column, place.end_line, place.end_column)
