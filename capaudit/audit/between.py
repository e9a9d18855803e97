"""Host state that code changes between replays: the boundary reads it, and only eager Python moves it on.

The boundary looks steady by itself. A loop that replays the graph counts a step, anneals a scale or toggles a
flag beside the replay, and the graph keeps the value that it was recorded with.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from capaudit.audit import parameters
from capaudit.audit.boundaries import Entry, captured_in
from capaudit.audit.contexts import Cell
from capaudit.audit.hazards import SELDOM
from capaudit.audit.machine import Machine
from capaudit.audit.values import Const, Host, Instance
from capaudit.audit.warmup import CAPTURE
from capaudit.program import ClassInfo, FunctionInfo, Module, walk
from capaudit.program.locating import functions_with
from capaudit.program.symbols import dotted_text

_REPLAY = re.compile(r"\.replay\(|capture_launch\(")
_CAPTURE = re.compile(rf"{CAPTURE.pattern}|CUDAGraph\(")
_SETUP = ("__init__", "__post_init__", "__new__", "__enter__", "__exit__", "__del__", "close")
_MOST = 2
_NUMBERS = ("int", "float", "bool")


@dataclass(frozen=True, slots=True)
class _Change:
    """One store beside a replay: ``cls`` is the class whose attribute it is."""

    cls: ClassInfo
    name: str
    value: ast.expr | None
    module: Module
    node: ast.AST
    seldom: bool


def note_changes(machine: Machine, entry: Entry, tick: set[FunctionInfo | None]) -> bool:
    """Mark the host state that is changed between replays of a boundary as varying; whether there is any."""
    found = False
    for change in _changes(machine, entry, tick):
        for cell in _cells(machine, change, tick):
            if change.seldom:
                machine.memo.setdefault(SELDOM, {})[cell] = None
            cell.tick_write = cell.tick_write or (change.module, change.node)
            machine.set_varies(cell)
            found = True
    return found


def _cells(machine: Machine, change: _Change, tick: set[FunctionInfo | None]) -> Iterator[Cell]:
    """The numbers and flags of that name that the boundary reads and that the change gives another value."""
    for owner, table in machine.cells_of.items():
        cell = table.get(change.name)
        if cell is None or not isinstance(owner, Instance) or cell.varies or not cell.value:
            continue
        if not machine.names.are_related(owner.cls, change.cls):
            continue
        if not all(isinstance(atom, (Const, Host)) and atom.type_name in _NUMBERS for atom in cell.value):
            continue
        if isinstance(change.value, ast.Constant) and all(
            isinstance(atom, Const) and atom.value == change.value.value for atom in cell.value
        ):
            continue
        if any(reader.phase == "tick" and reader.function in tick for reader in cell.readers):
            yield cell


def _changes(machine: Machine, entry: Entry, tick: set[FunctionInfo | None]) -> list[_Change]:
    found: list[_Change] = []
    drivers: dict[FunctionInfo, None] = {}
    for module in machine.program.productive:
        if "replay(" in module.source or "capture_launch(" in module.source:
            replaying = dict.fromkeys(function for function, _, _ in functions_with(module, _REPLAY))
            captures = captured_in(module, entry.function.name)
            drivers.update((f, None) for f in replaying if captures or _is_own(machine, entry, f))
    for driver in drivers:
        if driver in tick or isinstance(driver.node, ast.Lambda):
            continue
        for statement in _per_tick(driver.node):
            found.extend(_stores(machine, driver, statement, seldom=False))
            for node in walk(statement):
                for callee in _called(machine, driver, node):
                    if callee not in tick and callee not in drivers and _is_plain(callee):
                        found.extend(_stores(machine, callee, callee.node, seldom=False))
    for cls in dict.fromkeys(driver.cls for driver in drivers if driver.cls is not None):
        for method in cls.methods.values():
            public = not method.name.startswith(("_", "test", "setUp")) and method.name not in _SETUP
            if public and method not in tick and method not in drivers and _is_plain(method):
                found.extend(_stores(machine, method, method.node, seldom=True))
    return found


def _is_own(machine: Machine, entry: Entry, function: FunctionInfo) -> bool:
    """Whether a function that replays belongs to the boundary's own class, whose graph it then is."""
    if function.cls is None or entry.cls is None:
        return entry.region is not None and function.module is entry.function.module
    return machine.names.are_related(function.cls, entry.cls)


def _is_plain(function: FunctionInfo) -> bool:
    """Whether a function captures nothing anew: one that does brings its changes into the graph."""
    return function.name not in _SETUP and not _CAPTURE.search(str(function.text))


def _per_tick(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """The statements that run once with each replay: those of the loop around it, or the whole function."""
    loops = [node for node in walk(function) if isinstance(node, (ast.For, ast.AsyncFor, ast.While))]
    around = [loop for loop in loops if any(_replays(node) for node in walk(loop))]
    if not around:
        return [s for s in function.body if not _records(s)] if not loops else []
    innermost = max(around, key=lambda loop: loop.lineno)
    return [statement for statement in innermost.body if not _records(statement)]


def _records(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Call) and _CAPTURE.search(f"{dotted_text(node.func)}(") for node in walk(statement))


def _replays(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and dotted_text(node.func).rpartition(".")[2] in ("replay", "capture_launch")


def _called(machine: Machine, caller: FunctionInfo, node: ast.AST) -> list[FunctionInfo]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    if isinstance(node.func.value, ast.Name) and node.func.value.id == "self":
        method = machine.names.method(caller.cls, node.func.attr) if caller.cls is not None else None
        return [method] if method is not None else []
    methods = machine.program.methods_named(node.func.attr)
    return methods if len(methods) <= _MOST else []


def _stores(machine: Machine, function: FunctionInfo, root: ast.AST, seldom: bool) -> Iterator[_Change]:
    """Numbers and flags that a piece of code binds on objects, those apart that it gives back what they had."""
    given_back = {
        target.attr
        for node in walk(root)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        for target in node.targets
        if isinstance(target, ast.Attribute) and _keeps(function.node, node.value.id, target.attr)
    }
    for node in walk(root):
        value = node.value if isinstance(node, ast.Assign) else None
        match node:
            case ast.AugAssign(target=ast.Attribute() as target) | ast.Assign(targets=[ast.Attribute() as target]):
                pass
            case _:
                continue
        if target.attr in given_back:
            continue
        for cls in _owners(machine, function, target):
            yield _Change(cls, target.attr, value, function.module, node, seldom)


def _keeps(root: ast.AST, local: str, attribute: str) -> bool:
    """Whether a local was read from an attribute of that name."""
    return any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == attribute
        and any(isinstance(target, ast.Name) and target.id == local for target in node.targets)
        for node in walk(root)
    )


def _owners(machine: Machine, function: FunctionInfo, target: ast.Attribute) -> list[ClassInfo]:
    """The classes of what an attribute is bound on, as far as the program shows them."""
    if isinstance(target.value, ast.Name) and target.value.id == "self":
        return [function.cls] if function.cls is not None else []
    if not any(target.attr in table for table in machine.cells_of.values()):
        return []
    value = parameters.detached(machine, function.module, function, target.value)
    return list(dict.fromkeys(atom.cls for atom in value if isinstance(atom, Instance)))
