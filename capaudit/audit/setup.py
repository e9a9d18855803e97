"""Which calls set-up code has to follow.

Construction is evaluated to learn what objects hold. A function that binds nothing and says what it
returns teaches nothing more; attributes that stay unbound are looked for when they are read. This
keeps the cost near what the boundary needs instead of everything that start-up runs.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from capaudit.audit import attributes
from capaudit.audit.values import NONE, NOTHING, UNKNOWN, Returns, Tensor, Value
from capaudit.program import FunctionInfo
from capaudit.program.symbols import dotted_text

if TYPE_CHECKING:
    from capaudit.audit.machine import Machine

_CONSTRUCTORS = ("__init__", "__post_init__", "__new__", "__call__", "__enter__", "__getattr__", "__setattr__")
_ADDING = ("append", "appendleft", "add", "insert", "extend", "update", "setdefault", "register_buffer", "add_module")
_TICK_WORK = ("compute", "step", "apply", "forward", "update", "reset", "render", "print", "info", "get", "items", "append", "keys", "values")
"""Names too common to follow: what they bind is found when it is read."""


def shortcut(machine: Machine, info: FunctionInfo) -> Value:
    """The promised result of a set-up call that need not be followed; the empty union where it has to be."""
    key = ("shortcut", info)
    if key not in machine.memo:
        machine.memo[key] = NOTHING
        machine.memo[key] = _decide(machine, info)
    return machine.memo[key]  # type: ignore[no-any-return]


def _decide(machine: Machine, info: FunctionInfo) -> Value:
    if info.name in _CONSTRUCTORS or isinstance(info.node, ast.Lambda) or info.has_decorator("contextmanager"):
        return NOTHING
    promised = attributes.return_annotation(machine, info)
    if not promised or UNKNOWN in promised or any(isinstance(a, Returns) for a in promised):
        return NOTHING
    if promised != (NONE,) and any(isinstance(atom, Tensor) for atom in promised) and _length(info) < 12:
        return NOTHING  # short enough to learn the element kind from
    if _may_bind(machine, info):
        return NOTHING
    return promised


def _length(info: FunctionInfo) -> int:
    return (info.node.end_lineno or info.line) - info.line


def _may_bind(machine: Machine, info: FunctionInfo) -> bool:
    """Whether a function binds attributes or fills containers, itself or through a method that it names."""
    if binds(machine, info):
        return True
    for node in ast.walk(info.node):
        if not isinstance(node, ast.Call):
            continue
        name = dotted_text(node.func).rpartition(".")[2]
        if not name or name in _TICK_WORK:
            continue
        if any(binds(machine, method) for method in machine.program.methods_named(name)):
            return True
    return False


def binds(machine: Machine, info: FunctionInfo) -> bool:
    """Whether a function's own body binds an attribute, a global, or an entry of a container that outlives it."""
    key = ("binds", info)
    if key not in machine.memo:
        machine.memo[key] = any(_is_binding(node) for node in ast.walk(info.node))
    return bool(machine.memo[key])


def _is_binding(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(ctx=ast.Store()):
            return True
        case ast.Subscript(ctx=ast.Store(), value=ast.Attribute()):
            return True
        case ast.Global() | ast.Nonlocal():
            return True
        case ast.Call(func=ast.Attribute(attr=name, value=ast.Attribute())):
            return name in _ADDING
        case ast.Call(func=ast.Name(id="setattr")):
            return True
        case _:
            return False


