"""Configurations that only another environment takes: what they register never runs in the boundary.

``events: EventCfg = EventCfg()`` in a class that derives from ``ManagerEnvCfg`` reaches an environment through
the parameter that some constructor annotates with that class. Where this constructor belongs to a class that
is not related to the boundary's own, but has a method of the entry's name, it is what one runs instead.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from capaudit.program import ClassInfo, FunctionInfo, Module

if TYPE_CHECKING:
    from capaudit.audit.machine import Machine

_MOST_SITES = 60
_PARAMETERS = ("cfg", "config", "configuration")


class Registrations:
    """Which configurations reach the boundary's class, and which only reach what one runs instead."""

    def __init__(self, machine: Machine, cls: ClassInfo, entry: str) -> None:
        self._machine = machine
        self._cls = cls
        self._entry = entry
        self._own = self._taken(cls)
        self._known: dict[ClassInfo, bool] = {}

    @cached_property
    def _foreign(self) -> dict[ClassInfo, None]:
        """What other classes with the entry's method take, looked for when a registration is first met."""
        names = self._machine.names
        found: dict[ClassInfo, None] = {}
        for method in self._machine.program.methods_named(self._entry) if self._own else ():
            if method.cls is not None and not names.are_related(self._cls, method.cls):
                found.update(dict.fromkeys(self._taken(method.cls)))
        return found

    def are_elsewhere(self, module: Module, call: ast.Call, owner: FunctionInfo | None) -> bool:
        """Whether a call stands in configurations that only others take."""
        if not self._foreign:
            return False
        cls = owner.cls if owner is not None else _class_around(module, call)
        return cls is not None and self._is_elsewhere(cls)

    def _taken(self, cls: ClassInfo) -> tuple[ClassInfo, ...]:
        """The classes of the program that a constructor takes as the configuration."""
        names = self._machine.names
        found: dict[ClassInfo, None] = {}
        init = names.method(cls, "__init__")
        if init is None:
            return ()
        spec = init.node.args
        for parameter in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            if parameter.arg in _PARAMETERS and parameter.annotation is not None:
                symbol = names.expression(init.module, parameter.annotation)
                if isinstance(symbol, ClassInfo):
                    found[symbol] = None
        return tuple(found)

    def _is_elsewhere(self, cls: ClassInfo) -> bool:
        known = self._known.get(cls)
        if known is None:
            self._known[cls] = True  # what only holds itself decides nothing
            known = self._known[cls] = self._decide(cls)
        return known

    def _decide(self, cls: ClassInfo) -> bool:
        mro = self._machine.names.mro(cls)
        if any(base in self._own for base in mro):
            return False
        if any(base in self._foreign for base in mro):
            return True
        names, program = self._machine.names, self._machine.program
        holders: dict[ClassInfo, None] = {}
        sites = 0
        for made in (cls, *names.subclasses(cls)):
            for module, call, owner in program.calls_to(made.name):
                if names.expression(module, call.func) not in (made, None):
                    continue  # another class of that name
                sites += 1
                holder = owner.cls if owner is not None else _class_around(module, call)
                if holder is None or sites > _MOST_SITES:
                    return False
                holders[holder] = None
        return bool(holders) and all(self._is_elsewhere(holder) for holder in holders)


def _class_around(module: Module, call: ast.Call) -> ClassInfo | None:
    """The innermost class whose body a call stands in."""
    around = [c for c in module.all_classes if c.node.lineno <= call.lineno <= (c.node.end_lineno or 0)]
    return max(around, key=lambda c: c.node.lineno, default=None)
