"""Carriers rebound outside the boundary, after capture.

The boundary itself looks clean: it reads a buffer at a fixed address. A setter, an expansion or a
reload that runs between replays binds the name to new storage, and the graph keeps the old one. The
functions that may do that are evaluated once more as code that runs after capture.
"""

from __future__ import annotations

import ast
import re

from capaudit.audit import calls
from capaudit.audit.boundaries import Entry
from capaudit.audit.contexts import Cell, Context, Rebind
from capaudit.audit.machine import Machine
from capaudit.audit.values import Atom, Instance, instance
from capaudit.audit.verdicts import reachable
from capaudit.program import ClassInfo, FunctionInfo
from capaudit.program.symbols import dotted_text

_MOST_FUNCTIONS = 200
_SETUP = ("__init__", "__post_init__", "__new__", "setup", "__setstate__", "__deepcopy__", "__enter__", "__del__", "close")


def late_rebinds(machine: Machine, root: Context, entry: Entry) -> list[Rebind]:
    """Return rebindings of the boundary's carriers by functions that run neither in it nor at construction."""
    carriers = {cell: None for cell in root.entry_reads if cell.persistent and None not in cell.constants}
    owners: dict[ClassInfo, dict[Instance, None]] = {}
    names: dict[str, None] = {}
    for (owner, name), cell in machine.heap.items():
        if cell in carriers and isinstance(owner, Instance):
            names[name] = None
            for cls in machine.names.mro(owner.cls):
                owners.setdefault(cls, {})[owner] = None
    if not names:
        return []
    excluded = {context.function for context in reachable(root)} | _construction(machine)
    found: list[Rebind] = []
    seen: set[tuple[object, ...]] = set()
    for function in _candidates(machine, names, excluded):
        for receiver in _receivers(machine, function, owners):
            arguments = calls.promised_arguments(machine, function, receiver)
            context = machine.enter(function, receiver, arguments, frozenset(), "after", None, None)
            if context is None:
                continue
            for inner in _after(context):
                for rebind in inner.rebinds:
                    key = (rebind.cell, rebind.module.name, getattr(rebind.node, "lineno", 0))
                    if rebind.cell in carriers and key not in seen and inner.function not in excluded:
                        seen.add(key)
                        found.append(Rebind(rebind.cell, rebind.module, rebind.node, False))
    return found


def _after(context: Context) -> list[Context]:
    seen = {context: None}
    queue = [context]
    for current in queue:
        for callee in current.callees:
            if callee.phase == "after" and callee not in seen:
                seen[callee] = None
                queue.append(callee)
    return queue


def _construction(machine: Machine) -> set[FunctionInfo | None]:
    """Functions that construction runs: what they bind, they bind before any capture."""
    contexts = [c for c in (*machine.contexts.values(), *machine.shared.values()) if c.phase == "cold"]
    queue = [c for c in contexts if c.function is not None and c.function.name in _SETUP]
    seen = dict.fromkeys(queue)
    for context in queue:
        for callee in context.callees:
            if callee.phase == "cold" and callee not in seen:
                seen[callee] = None
                queue.append(callee)
    return {context.function for context in seen}


_STORE = re.compile(r"\.(\w+)(?:\s*,[^=\n]*)?\s*(?::[^=\n]+)?=(?!=)|\b(setattr|resize_|set_)\(")


def _candidates(machine: Machine, names: dict[str, None], excluded: set[FunctionInfo | None]) -> list[FunctionInfo]:
    result: list[FunctionInfo] = []
    for module in machine.program.modules.values():
        lines = [
            module.source.count("\n", 0, match.start()) + 1
            for match in _STORE.finditer(module.source)
            if match[2] or match[1] in names
        ]
        if not lines:
            continue
        for function in module.all_functions:
            if function in excluded or function.name in _SETUP or function in machine.owned:
                continue
            last = function.node.end_lineno or 0
            if any(function.node.lineno <= line <= last for line in lines) and _rebinds_something(function, names):
                result.append(function)
                if len(result) >= _MOST_FUNCTIONS:
                    return result
    return result


def _rebinds_something(function: FunctionInfo, names: dict[str, None]) -> bool:
    for node in ast.walk(function.node):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in names:
            return True
        if isinstance(node, ast.Call) and dotted_text(node.func).rpartition(".")[2] in ("setattr", "resize_", "set_"):
            return True
    return False


def _receivers(machine: Machine, function: FunctionInfo, owners: dict[ClassInfo, dict[Instance, None]]) -> list[Atom | None]:
    if function.cls is None or function.has_decorator("staticmethod"):
        return [None]
    known = owners.get(function.cls)
    if known:
        return list(known)[:4]
    constructed = machine.instances.get(function.cls)
    if constructed:
        return list(constructed)[:2]
    return [instance(function.cls)]



