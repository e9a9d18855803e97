"""Carriers rebound outside the boundary, after capture.

The boundary itself looks clean: it reads a buffer at a fixed address. A setter, an expansion or a
reload that runs between replays binds the name to new storage, and the graph keeps the old one. The
functions that may do that are evaluated once more as code that runs after capture.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from capaudit.audit import calls, stores
from capaudit.audit.boundaries import Entry
from capaudit.audit.contexts import Context, Rebind
from capaudit.audit.machine import Machine
from capaudit.audit.values import Box, Instance, instance
from capaudit.program import ClassInfo, FunctionInfo, Module, walk
from capaudit.program.locating import functions_at
from capaudit.program.symbols import dotted_text
from capaudit.program.text import Text

_MOST_FUNCTIONS = 150
_SETUP_PREFIXES = (
    "initialize",
    "init_",
    "create_",
    "setup",
    "build",
    "allocate",
    "make_",
    "prepare",
    "configure",
    "register",
)
_SETUP = (
    "__init__",
    "__post_init__",
    "__new__",
    "setup",
    "__setstate__",
    "__deepcopy__",
    "__enter__",
    "__del__",
    "close",
)


def late_rebinds(machine: Machine, root: Context, entry: Entry) -> list[Rebind]:
    """Return rebindings of the boundary's carriers by functions that run neither in it nor at construction."""
    carriers = {cell: None for cell in root.entry_reads if cell.persistent and None not in cell.constants}
    owners: dict[ClassInfo, dict[Instance, None]] = {}
    names: dict[str, None] = {}
    files: dict[str, None] = {}
    for cell in carriers:
        if isinstance(cell.owner, Instance):
            names[cell.name] = None
            for cls in machine.names.mro(cell.owner.cls):
                owners.setdefault(cls, {})[cell.owner] = None
        elif isinstance(cell.owner, Box) and stores.owns_buffers(machine, cell.value):
            names[ENTRY] = None
            files[cell.owner.site[0]] = None
    if not names:
        return []
    files.update(dict.fromkeys(cls.module.file for cls in owners))
    from capaudit.audit.verdicts import reachable

    excluded = {context.function for context in reachable(root)}
    evaluated = 0
    found: list[Rebind] = []
    seen: set[tuple[object, ...]] = set()
    for function in _candidates(machine, names, _holders(root)):
        if (
            function in excluded
            or function.name in _SETUP
            or function in machine.owned
            or _constructs(machine, function)
        ):
            continue
        if function.cls not in owners and not (function.cls is None and function.module.file in files):
            continue
        evaluated += 1
        if evaluated > _MOST_FUNCTIONS:
            break
        for receiver in _receivers(machine, function, owners):
            arguments = calls.promised_arguments(machine, function, receiver)
            context = machine.enter(function, receiver, arguments, frozenset(), "after", None, None)
            if context is None:
                continue
            for rebind in context.rebinds:
                if rebind.cell.owner is not receiver and _only_fills_new(machine, function, rebind.cell.owner):
                    continue
                key = (rebind.cell, rebind.module.name, getattr(rebind.node, "lineno", 0))
                if rebind.cell in carriers and key not in seen:
                    seen.add(key)
                    getter = function.has_decorator("property")
                    found.append(Rebind(rebind.cell, rebind.module, rebind.node, False, getter=getter))
    return found


def _constructs(machine: Machine, function: FunctionInfo | None) -> bool:
    """Whether construction was seen to run a function: what it binds, it binds before any capture."""
    if function is None:
        return False
    if function.name.lstrip("_").startswith(_SETUP_PREFIXES):
        return True
    if _only_called_by_setup(machine, function, 3):
        return True
    seen = {context: None for context in machine.by_function.get(function, ()) if context.phase == "cold"}
    queue = list(seen)
    for context in queue:
        if context.function is not None and context.function.name in _SETUP:
            return True
        for caller in context.callers:
            if caller not in seen and caller.phase == "cold":
                seen[caller] = None
                queue.append(caller)
    return False


def is_part_of_setup(machine: Machine, function: FunctionInfo) -> bool:
    """Whether a private method goes by a set-up's name, or the program's text shows set-up code alone to call it."""
    private = function.name.startswith("_")
    named = function.name.lstrip("_").startswith(_SETUP_PREFIXES)
    return private and (named or _only_called_by_setup(machine, function, 3))


def _only_called_by_setup(machine: Machine, function: FunctionInfo, depth: int) -> bool:
    """Whether every call that the program shows stands in set-up code."""
    if function.cls is None or depth == 0:
        return False
    callers = {
        owner
        for _, call, owner in machine.program.calls_to(function.name)
        if owner is not None
        and owner is not function
        and owner.cls is not None
        and dotted_text(call.func).startswith(_OWN)
    }
    related = [c for c in callers if c.cls is not None and machine.names.are_related(c.cls, function.cls)]
    return bool(related) and all(
        c.name in _SETUP
        or c.name.lstrip("_").startswith(_SETUP_PREFIXES)
        or _only_called_by_setup(machine, c, depth - 1)
        for c in related
    )


_OWN = ("self.", "super().")


def _only_fills_new(machine: Machine, function: FunctionInfo, owner: object) -> bool:
    """Whether every caller of a private helper hands it an object of that class that the caller has just made."""
    if not isinstance(owner, Instance) or not function.name.startswith("_"):
        return False
    key = ("fills-new", function, owner.cls)
    known: bool | None = machine.memo.get(key)
    if known is None:
        calls_of = machine.program.calls_to(function.name)
        known = machine.memo[key] = bool(calls_of) and all(
            # An override hands on what it is given: its own callers are among these.
            caller is not None
            and (caller.name == function.name or _passes_new(machine, module, call, caller, owner.cls))
            for module, call, caller in calls_of
        )
    return known


def _passes_new(machine: Machine, module: Module, call: ast.Call, caller: FunctionInfo, cls: ClassInfo) -> bool:
    passed = {a.id for a in (*call.args, *(k.value for k in call.keywords)) if isinstance(a, ast.Name)}
    bound = [
        (target.id, node.value)
        for node in walk(caller.node)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in passed
    ]
    made = {name for name, value in bound if isinstance(value, ast.Call) and _makes(machine, module, value, cls)}
    return any(all(name != other or _makes(machine, module, value, cls) for other, value in bound) for name in made)


def _makes(machine: Machine, module: Module, node: ast.expr, cls: ClassInfo) -> bool:
    symbol = machine.names.expression(module, node.func) if isinstance(node, ast.Call) else None
    return isinstance(symbol, ClassInfo) and machine.names.are_related(symbol, cls)


ENTRY = "[]"
"""Stands for entries of containers among the names of carriers."""
# Each begins with a character that the search skips to: one pattern with branches looks at every character instead.
_NAMED = re.compile(r"\.(\w++)(?:\s*+,[^=\n]*+)?\s*+(?::[^=\n]++)?=(?!=)")
_ENTRIES = re.compile(r"\](?:\s*+,[^=\n]*+)?\s*+=(?!=)")
_COMPUTED = re.compile(r"\b(?:setattr|resize_|set_)\(")


def is_set_by_others(machine: Machine, cls: ClassInfo, name: str) -> bool:
    """Whether code that no evaluation has run may give an attribute another value than construction does.

    That is a method of the class that only its users call, or a function that names the class and binds
    the attribute on some object: a builder that fills in the counts of what it makes.
    """
    key = ("set-by-others", cls, name)
    known: bool | None = machine.memo.get(key)
    if known is None:
        known = machine.memo[key] = any(_may_set(machine, cls, f) for f in _storing(machine, name))
    return known


def _may_set(machine: Machine, cls: ClassInfo, function: FunctionInfo) -> bool:
    if function.name in _SETUP or machine.by_function.get(function):
        return False
    if function.module not in machine.program.productive:
        return False
    if function.cls is not None and machine.names.are_related(cls, function.cls):
        return not machine.program.calls_to(function.name)
    text = function.text
    return f"{cls.name}(" in text and re.search(rf"\b{re.escape(cls.name)}\(", text) is not None


def _holders(root: Context) -> list[str]:
    """The names through which a tick reaches its containers."""
    reached = [cell for cell in root.entry_reads if any(isinstance(atom, Box) for atom in cell.value)]
    return [cell.name for cell in reached if not isinstance(cell.owner, Box)]


def _candidates(machine: Machine, names: dict[str, None], holders: list[str]) -> list[FunctionInfo]:
    """Functions whose text binds one of the names, an entry of a holder, or an attribute whose name is computed."""
    found: dict[FunctionInfo, None] = {}
    for name in (*names, ""):
        stored = _storing(machine, name)
        if name == ENTRY:
            stored = {f: None for f in stored if any(holder in f.text for holder in holders)}
        found.update(stored)
    order = {function: i for i, function in enumerate(found)}
    return sorted(found, key=lambda f: (f.module.file, f.line, order[f]))


def _storing(machine: Machine, name: str) -> dict[FunctionInfo, None]:
    """Functions that bind an attribute of that name; the empty name for ``setattr`` and ``resize_``."""
    found: dict[FunctionInfo, None] = {}
    for module, positions in _stores_index(machine).get(name, {}).values():
        found.update(dict.fromkeys(place[0] for place in functions_at(module, positions) if place is not None))
    return found


def _stores_index(machine: Machine) -> dict[str, dict[str, tuple[Module, list[int]]]]:
    """Names of stores to the modules that hold them, each with the positions."""
    index: dict[str, dict[str, tuple[Module, list[int]]]] | None = machine.memo.get("stores-index")
    if index is not None:
        return index
    index = {}
    for module in machine.program.modules.values():
        for position, name in _stores(module.source):
            index.setdefault(name, {}).setdefault(module.name, (module, []))[1].append(position)
    machine.memo["stores-index"] = index
    return index


def _stores(source: Text) -> list[tuple[int, str]]:
    """Return position and name of every store in a text, in order; of several that end in one ``=`` the first."""
    found = {match.end(): (match.start(), match[1]) for match in source.matches(_NAMED)}
    for match in source.matches(_ENTRIES):
        if match.end() not in found or match.start() < found[match.end()][0]:
            found[match.end()] = match.start(), ENTRY
    if any(word in source for word in ("setattr(", "resize_(", "set_(")):
        found.update((match.end(), (match.start(), "")) for match in source.matches(_COMPUTED))
    return sorted(found.values())


def _receivers(
    machine: Machine, function: FunctionInfo, owners: dict[ClassInfo, dict[Instance, None]]
) -> Sequence[Instance | None]:
    if function.cls is None or function.has_decorator("staticmethod"):
        return [None]
    known = owners.get(function.cls)
    if known:
        return list(known)[:4]
    constructed = machine.instances.get(function.cls)
    if constructed:
        return list(constructed)[:2]
    return [instance(function.cls)]
