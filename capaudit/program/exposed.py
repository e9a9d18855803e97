"""Which names a loop body reads before it binds them: only those can carry a value from one round to the next."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from capaudit.program.walking import walk


def exposed_names(body: list[ast.stmt], bound: Iterable[str] = (), head: ast.expr | None = None) -> frozenset[str]:
    """Return the names that may be read in a round before the same round binds them.

    ``bound`` are bound by the loop itself, ``head`` is an expression that each round evaluates first. Names that are
    bound on some paths only, or by anything but a plain assignment, count as read.
    """
    found: set[str] = set()
    defined = set(bound)
    if head is not None:
        _read(head, set(), found)
    _block(body, defined, found)
    return frozenset(found)


def target_names(target: ast.expr) -> list[str]:
    """Return the plain names that an assignment to ``target`` binds."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for element in target.elts for name in target_names(element)]
    if isinstance(target, ast.Starred):
        return target_names(target.value)
    return []


def _read(node: ast.AST, defined: set[str], found: set[str]) -> None:
    for inner in walk(node):
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Store) and inner.id not in defined:
            found.add(inner.id)
        elif isinstance(inner, (ast.Global, ast.Nonlocal)):
            found.update(inner.names)
        elif isinstance(inner, ast.AugAssign):
            found.update(name for name in target_names(inner.target) if name not in defined)


def _block(body: list[ast.stmt], defined: set[str], found: set[str]) -> None:
    for node in body:
        _statement(node, defined, found)


def _statement(node: ast.stmt, defined: set[str], found: set[str]) -> None:
    match node:
        case ast.Assign():
            _read(node, defined, found)
            for target in node.targets:
                defined.update(target_names(target))
        case ast.AnnAssign(value=ast.expr(), target=ast.Name(id=name)):
            _read(node, defined, found)
            defined.add(name)
        case ast.If():
            _read(node.test, defined, found)
            true, false = set(defined), set(defined)
            _block(node.body, true, found)
            _block(node.orelse, false, found)
            defined |= true & false
        case ast.For():
            _read(node.iter, defined, found)
            inner = defined | set(target_names(node.target))
            _read(node.target, inner, found)
            _block(node.body, inner, found)
            _block(node.orelse, set(defined), found)
        case ast.With():
            for item in node.items:
                _read(item.context_expr, defined, found)
                if item.optional_vars is not None:
                    defined.update(target_names(item.optional_vars))
                    _read(item.optional_vars, defined, found)
            _block(node.body, set(defined), found)
        case _:
            _read(node, defined, found)
