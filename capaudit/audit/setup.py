"""Which calls set-up code has to follow.

Construction is evaluated to learn what objects hold. A function that binds nothing and says what it
returns teaches nothing more; attributes that stay unbound are looked for when they are read. This
keeps the cost near what the boundary needs instead of everything that start-up runs.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from capaudit.audit import attributes, calls
from capaudit.audit.sameness import SHORT
from capaudit.audit.values import NONE, NOTHING, UNKNOWN, Instance, Returns, Tensor, Value
from capaudit.program import FunctionInfo

if TYPE_CHECKING:
    from capaudit.audit.machine import Machine

_CONSTRUCTORS = ("__init__", "__post_init__", "__new__", "__call__", "__enter__", "__getattr__", "__setattr__")
_TICK_WORK = (
    "compute",
    "step",
    "apply",
    "forward",
    "update",
    "reset",
    "render",
    "print",
    "info",
    "get",
    "items",
    "append",
    "keys",
    "values",
)
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
    if promised != (NONE,) and any(isinstance(atom, Tensor) for atom in promised) and _length(info) < SHORT:
        return NOTHING  # short enough to learn the element kind from
    if info.has_decorator("classmethod") and any(isinstance(a, Instance) and a.cls is info.cls for a in promised):
        return NOTHING  # a constructor by another name: its arguments say what the object holds
    if _may_bind(machine, info):
        return NOTHING
    return promised


def _length(info: FunctionInfo) -> int:
    return (info.node.end_lineno or info.line) - info.line


def _may_bind(machine: Machine, info: FunctionInfo) -> bool:
    """Whether a function binds attributes or fills containers, itself or through a method that it names."""
    facts = calls.facts_of(info)
    if facts.binds:
        return True
    return any(_binding_name(machine, name) for name in facts.calls if name not in _TICK_WORK)


def _binding_name(machine: Machine, name: str) -> bool:
    """Whether some method of that name binds something."""
    key = ("binding-name", name)
    if key not in machine.memo:
        machine.memo[key] = any(calls.facts_of(method).binds for method in machine.program.methods_named(name))
    return bool(machine.memo[key])
