"""Exchanges: statements that give buffers each other's places, which an even number of them undoes.

Read from syntax, since the values alone no longer say which place a buffer came from: names that trade
attributes, a tuple or list put back in another order, a record whose fields trade values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from capaudit.audit import expressions, instances
from capaudit.audit.values import Instance, Value
from capaudit.program.symbols import dotted_text

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame


Part = int | str
"""A place of a tuple or list, or a field of a record."""


def crossed(target: ast.Tuple | ast.List, node: ast.expr) -> bool:
    """``self.a, self.b = self.b, self.a``: the same names in another order."""
    if not isinstance(node, (ast.Tuple, ast.List)) or not all(isinstance(e, ast.Attribute) for e in target.elts):
        return False
    left = [expressions.dotted_key(e) for e in target.elts]
    right = [expressions.dotted_key(e) for e in node.elts]
    return left != right and None not in left and set(left) == set(right)


def note_unpacked(target: ast.Tuple | ast.List, node: ast.expr) -> None:
    """Remember at ``self.pair`` which name took which place in ``a, b = self.pair``."""
    if isinstance(node, ast.Attribute):
        taken: dict[str, int] = {e.id: i for i, e in enumerate(target.elts) if isinstance(e, ast.Name)}
        node.unpacked = taken  # type: ignore[attr-defined]


def permutes(frame: Frame, target: ast.Attribute, node: ast.expr, value: Value) -> bool:
    """Whether ``target = node`` puts the parts of ``target`` back in an order that doing it twice restores."""
    key = expressions.dotted_key(target)
    if key is None:
        return False
    order = _order(frame, key, node, value)
    return (
        order is not None and any(a != b for a, b in order.items()) and all(order.get(b) == a for a, b in order.items())
    )


_COPIES = ("tuple", "list", "deque")


def _order(frame: Frame, key: str, node: ast.expr, value: Value) -> dict[Part, Part] | None:
    """Where each part of a new tuple, list or record stood in the one that ``key`` names."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            places = [_place(frame, key, part) for part in parts]
            return _table(enumerate(places))
        case ast.Subscript(value=inner, slice=ast.Slice(lower=None, upper=None, step=step)):
            backwards = step is not None and ast.unparse(step) == "-1"
            return {0: 1, 1: 0} if backwards and expressions.dotted_key(inner) == key else None
        case ast.Call(func=ast.Name(id="reversed"), args=[inner]):
            return {0: 1, 1: 0} if expressions.dotted_key(inner) == key else None
        case ast.Call(func=callee, args=[inner], keywords=[]) if dotted_text(callee).rpartition(".")[2] in _COPIES:
            return _order(frame, key, inner, value)
        case ast.Call(args=given, keywords=named):
            return _fields(frame, key, given, named, value)
        case _:
            return None


def _place(frame: Frame, key: str, node: ast.expr) -> int | None:
    """The place in ``key`` that a part comes from: ``self.pair[1]``, or a name unpacked from it."""
    match node:
        case ast.Subscript(value=inner, slice=ast.Constant(value=int() as place)):
            return place if expressions.dotted_key(inner) == key else None
        case ast.Name(id=name):
            origin = frame.stories.get(name)
            taken: dict[str, int] = getattr(origin, "unpacked", {})
            return taken.get(name) if origin is not None and expressions.dotted_key(origin) == key else None
        case _:
            return None


def _fields(
    frame: Frame, key: str, given: list[ast.expr], named: list[ast.keyword], value: Value
) -> dict[Part, Part] | None:
    """``replace(self.state, a=self.state.b, b=self.state.a)`` and the constructor called so."""
    if given and expressions.dotted_key(given[0]) == key:
        given = given[1:]
    names = [n for a in value if isinstance(a, Instance) for n in instances.field_names(frame.machine, a.cls)]
    if len(names) < len(given):
        return None
    pairs = [*zip(names, given, strict=False), *((k.arg or "", k.value) for k in named)]
    return _table((name, _field(key, part)) for name, part in pairs)


def _field(key: str, node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) and expressions.dotted_key(node.value) == key else None


def _table(pairs: Iterable[tuple[Part, Part | None]]) -> dict[Part, Part] | None:
    found: dict[Part, Part] = {}
    for place, origin in pairs:
        if origin is None:
            return None
        found[place] = origin
    return found
