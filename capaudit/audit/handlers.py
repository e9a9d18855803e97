"""Exception handlers that are no failure path: what is missing when it is first asked for is made there.

``try: return self._buffer`` with ``except AttributeError: self._buffer = ...`` asks like ``hasattr`` does,
and ``except KeyError`` around ``self.cache[key]`` like ``key not in self.cache``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from capaudit.audit import expressions, guards, once
from capaudit.audit.values import Instance
from capaudit.program import walk
from capaudit.program.symbols import dotted_text

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame


class FirstUse(NamedTuple):
    """What holds in such a handler: modes of the code in it and names that the environment marks as missing."""

    modes: frozenset[str] = frozenset()
    marks: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.modes or self.marks)


def first_use(frame: Frame, node: ast.Try | ast.TryStar, handler: ast.ExceptHandler) -> FirstUse:
    """Return what a handler makes on first use; nothing for one that stands for a failure."""
    caught = _caught(handler)
    if not frame.tick or frame.function is None or guards.always_raises(handler.body):
        return FirstUse()
    modes: frozenset[str] = frozenset()
    if "AttributeError" in caught:
        asked = [one for one in _asked(node.body) if isinstance(one, ast.Attribute) and not _exists(frame, one)]
        modes = once.made_for(frame, [(one.value, one.attr) for one in asked], handler.body)
    marks: list[str] = []
    if caught & {"KeyError", "LookupError"}:
        filled = {expressions.dotted_key(c) or getattr(c, "id", None) for c in _containers(handler.body, ast.Store)}
        for container in _containers(node.body, ast.Load):
            key = expressions.dotted_key(container) or getattr(container, "id", None)
            if key is not None and key in filled:
                marks.append(f".lazy {key}")
    return FirstUse(modes, tuple(marks))


def _caught(handler: ast.ExceptHandler) -> set[str]:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type] if handler.type else []
    return {dotted_text(kind).rpartition(".")[2] for kind in kinds}


def _asked(body: list[ast.stmt]) -> Iterator[ast.expr]:
    return (
        n for s in body for n in walk(s) if isinstance(n, ast.expr) and isinstance(getattr(n, "ctx", None), ast.Load)
    )


def _containers(body: list[ast.stmt], context: type[ast.expr_context]) -> Iterator[ast.expr]:
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, context):
                yield node.value


def _exists(frame: Frame, node: ast.Attribute) -> bool:
    """Whether set-up code is seen to bind an attribute, so that it cannot be missing."""
    names = frame.machine.names
    for atom in expressions.quietly(frame, node.value):
        if not isinstance(atom, Instance):
            continue
        if names.method(atom.cls, node.attr) is not None or any(node.attr in c.values for c in names.mro(atom.cls)):
            return True
        objects = [atom, *(frame.machine.instances.get(atom.cls, ()) if atom.site is None else ())]
        cells = [frame.machine.existing_cell(one, node.attr) for one in objects]
        if any(cell is not None and cell.written_by for cell in cells):
            return True
    return False
