"""Arithmetic whose result nobody reads: what it uses of an earlier tick reaches nothing.

``self.rate = (self.x - self.before) / dt`` observes ``before`` only where something observes ``rate``. An
attribute counts as unread where no code of the program loads its name and no text spells it.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from capaudit.program import ClassInfo, FunctionInfo, Program, walk

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame
    from capaudit.audit.machine import Machine

_DEEPEST = 4
_LISTING = 200
"""Characters up to which a text may be a list of names; longer ones are prose."""
_SAME_VALUE = ("clone", "detach", "float", "view", "reshape", "unsqueeze", "squeeze", "flatten", "abs", "square", "sum")


def is_unread(frame: Frame) -> bool:
    """Whether the statement at hand only computes what nobody reads."""
    if frame.place is None or frame.function is None:
        return False
    return _leads_nowhere(frame.machine, frame.function, frame.place, _DEEPEST)


def _leads_nowhere(machine: Machine, function: FunctionInfo, statement: ast.stmt, depth: int) -> bool:
    key = ("unread", statement)
    known: bool | None = machine.memo.get(key)
    if known is None:
        machine.memo[key] = False  # what feeds itself alone is not followed
        known = machine.memo[key] = _is_plain(statement) and _target_unread(machine, function, statement, depth)
    return known


def _is_plain(statement: ast.stmt) -> bool:
    """Whether a statement binds one name to arithmetic that hands its operands to nobody."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return False
    for node in walk(statement.value):
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr, ast.Lambda)):
            return False
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_VALUE):
            return False
    return True


def _target_unread(machine: Machine, function: FunctionInfo, statement: ast.stmt, depth: int) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    match targets:
        case [ast.Attribute(value=ast.Name(id="self"), attr=name)]:
            return (
                function.cls is not None
                and _is_plain_attribute(machine, function.cls, name)
                and _never_loaded(machine, name)
            )
        case [ast.Name(id=name)] if depth:
            uses = _uses(machine, function).get(name, ())
            return None not in uses and all(
                use is not None and _leads_nowhere(machine, function, use, depth - 1) for use in uses
            )
        case _:
            return False


def _uses(machine: Machine, function: FunctionInfo) -> dict[str, list[ast.stmt | None]]:
    """The simple statements in which a function loads each name; ``None`` for uses by anything else."""
    key = ("uses", function)
    found: dict[str, list[ast.stmt | None]] | None = machine.memo.get(key)
    if found is None:
        found = machine.memo[key] = {}
        owners: dict[ast.AST, ast.stmt] = {}
        for node in walk(function.node):
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                owners.update((inner, node) for inner in walk(node))
        for node in walk(function.node):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
                found.setdefault(node.id, []).append(owners.get(node))
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                for name in node.names:
                    found.setdefault(name, []).append(None)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                found.setdefault(node.target.id, []).append(None)
    return found


def _is_plain_attribute(machine: Machine, cls: ClassInfo, name: str) -> bool:
    """Whether binding an attribute runs no code, and no method goes through all attributes of the object."""
    for owner in machine.names.mro(cls):
        if name in owner.methods or name in owner.overloads or name in owner.values or "__setattr__" in owner.methods:
            return False
        if any(
            (isinstance(node, ast.Name) and node.id == "vars")
            or (isinstance(node, ast.Attribute) and node.attr == "__dict__")
            for node in walk(owner.node)
        ):
            return False
    return not any(name.startswith(part) or name.endswith(part) for part in _computed_parts(machine))


def _computed_parts(machine: Machine) -> frozenset[str]:
    """The fixed parts of the names that ``getattr`` is asked for by an f-string."""
    known: frozenset[str] | None = machine.memo.get("computed parts")
    if known is None:
        known = machine.memo["computed parts"] = frozenset(
            part.value
            for module in machine.program.modules_with("getattr")
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr"
            for argument in node.args[1:2]
            if isinstance(argument, ast.JoinedStr)
            for part in argument.values
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and len(part.value.strip("_")) > 1
        )
    return known


def _never_loaded(machine: Machine, name: str) -> bool:
    key = ("never loaded", name)
    known: bool | None = machine.memo.get(key)
    if known is None:
        known = machine.memo[key] = not _is_loaded(machine.program, name)
    return known


def _is_loaded(program: Program, name: str) -> bool:
    for module in program.modules_with(name):
        for node in ast.walk(module.tree):
            match node:
                case ast.Attribute(attr=attr, ctx=ast.Load() | ast.Del()) if attr == name:
                    return True
                case ast.AugAssign(target=ast.Attribute(attr=attr)) if attr == name:
                    return True
                case ast.Constant(value=str() as text) if text == name or (
                    len(text) < _LISTING and name in re.findall(r"\w+", text)
                ):
                    return True
    return False
