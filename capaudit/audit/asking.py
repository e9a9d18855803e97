"""Reads that ask for an object's presence or its names, and use none of the storage that it holds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from capaudit.audit import expressions
from capaudit.audit.values import Box, Mapping, Record, Value
from capaudit.program import walk

if TYPE_CHECKING:
    from capaudit.audit.contexts import Cell
    from capaudit.audit.frame import Frame

_NAMES_OF = ("set", "frozenset", "list", "tuple", "sorted", "iter", "enumerate")
_FILLING = ("append", "extend", "insert", "add", "update", "clear")

_Asked = tuple[frozenset[ast.AST], frozenset[ast.AST], frozenset[ast.AST]]


def uses_nothing(frame: Frame, node: ast.AST | None, value: Value) -> bool:
    """Whether what is read at ``node`` is asked for presence, length or keys alone, or is only put something into."""
    if node is None or frame.function is None:
        return False
    presence, keys, filled = _asked(frame)
    if node in presence:
        return True
    if node in keys:
        return all(isinstance(a, (Mapping, Record)) or (isinstance(a, Box) and a.kind == "dict") for a in value)
    return node in filled and all(isinstance(a, Box) for a in value)


def note(frame: Frame, node: ast.AST | None, cell: Cell) -> None:
    """Note a cell that was asked for alone: a test may narrow its name, and later uses see what the test found."""
    key = expressions.dotted_key(node) if isinstance(node, ast.expr) else None
    if key is not None:
        frame.context.items.setdefault("asked", {}).setdefault(key, {})[cell] = None


def asked_before(frame: Frame, key: str) -> tuple[Cell, ...]:
    """The cells that a name led to where it was asked for alone."""
    return tuple(frame.context.items.get("asked", {}).get(key, ()))


def _asked(frame: Frame) -> _Asked:
    """What a function asks for presence or length, what it asks for keys, and what it only puts something into."""
    assert frame.function is not None
    key = ("asked", frame.function)
    found: _Asked | None = frame.machine.memo.get(key)
    if found is None:
        presence: set[ast.AST] = set()
        keys: set[ast.AST] = set()
        filled: set[ast.AST] = set()
        for node in walk(frame.function.node):
            match node:
                case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                    presence.add(left)
                case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[right]):
                    keys.add(right)
                case (
                    ast.Call(func=ast.Name(id="len"), args=[inner])
                    | ast.Call(func=ast.Name(id="isinstance"), args=[inner, _])
                ):
                    presence.add(inner)
                case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _NAMES_OF:
                    keys.add(inner)
                case ast.Call(func=ast.Attribute(value=inner, attr="keys"), args=[]):
                    keys.add(inner)
                case ast.For(iter=inner) | ast.AsyncFor(iter=inner) | ast.comprehension(iter=inner):
                    keys.add(inner)
                case ast.Expr(ast.Call(func=ast.Attribute(value=inner, attr=name))) if name in _FILLING:
                    filled.add(inner)
        found = frozenset(presence), frozenset(keys), frozenset(filled)
        frame.machine.memo[key] = found
    return found
