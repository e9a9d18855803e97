"""A faster walk over syntax trees, and the facts about a function body that one walk gives."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from capaudit.program.symbols import FunctionInfo, dotted_text

_ADDING = frozenset(
    ["append", "appendleft", "add", "insert", "extend", "update", "setdefault", "register_buffer", "add_module"]
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def walk(root: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and everything below it, in no particular order; twice as fast as ``ast.walk``."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        for value in node.__dict__.values():
            kind = type(value)
            if kind is int or kind is str or value is None:
                continue
            if kind is list:
                if value:
                    stack.extend(item for item in value if isinstance(item, ast.AST))
            elif isinstance(value, ast.AST):
                stack.append(value)


@dataclass(frozen=True, slots=True)
class BodyFacts:
    """What one walk over a function's body says.

    ``binds``: it binds an attribute, a global, or an entry of a container that outlives the call.
    ``calls``: last parts of the names that it calls.
    """

    yields: bool
    nests: bool
    binds: bool
    calls: frozenset[str]


def body_facts(function: FunctionInfo) -> BodyFacts:
    """Walk a function's body once."""
    nests = binds = False
    calls: set[str] = set()
    for node in walk(function.node):
        kind = type(node)
        if kind is ast.Call:
            callee = node.func  # type: ignore[attr-defined]
            name = callee.attr if isinstance(callee, ast.Attribute) else dotted_text(callee)
            calls.add(name)
            if name in ("setattr", "__setattr__") or (
                name in _ADDING and isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Attribute)
            ):
                binds = True
        elif kind is ast.Attribute:
            binds = binds or isinstance(node.ctx, ast.Store)  # type: ignore[attr-defined]
        elif kind is ast.Subscript:
            binds = binds or (isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Attribute))  # type: ignore[attr-defined]
        elif kind is ast.Global or kind is ast.Nonlocal:
            binds = True
        elif isinstance(node, _DEFINITIONS) and node is not function.node:
            nests = True
    return BodyFacts(_yields(function.node, function.module.source), nests, binds, frozenset(calls))


def _yields(root: ast.AST, source: str) -> bool:
    if isinstance(root, ast.Lambda) or (source and "yield" not in source):
        return False
    stack: list[ast.AST] = list(getattr(root, "body", ()))
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if isinstance(node, _DEFINITIONS):
            continue
        for value in node.__dict__.values():
            kind = type(value)
            if kind is int or kind is str or value is None:
                continue
            if kind is list:
                if value:
                    stack.extend(item for item in value if isinstance(item, ast.AST))
            elif isinstance(value, ast.AST):
                stack.append(value)
    return False
