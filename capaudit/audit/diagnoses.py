"""Code that names the culprit after a test of device data has found one, and does nothing but raise.

``if not finite: for name, value in terms: if not value.isfinite().all(): raise ...`` reads the device again, but
only on the way to an exception. The test itself is the fault and is reported where it stands.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from capaudit.audit import expressions, once
from capaudit.audit.values import Host, Tensor
from capaudit.program import FunctionInfo, walk

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame
    from capaudit.audit.machine import Machine

_DEEPEST = 2
_FETCHES = ("item", "tolist", "cpu")


def follows_read(frame: Frame, test: ast.expr, body: list[ast.stmt]) -> bool:
    """Whether a block runs on the word of a device value alone, and only raises."""
    return only_names_culprit(frame, body) and asks_device(frame, test)


def only_names_culprit(frame: Frame, body: list[ast.stmt]) -> bool:
    """Whether a block does nothing but look for something to raise about."""
    return frame.function is not None and frame.recording and _diagnoses(frame.machine, frame.function, body)


def asks_device(frame: Frame, test: ast.expr) -> bool:
    """Whether a test, or a part without which it does not hold, asks for a device value."""
    return any(_asks_device(frame, part) for part in _parts(test))


def _parts(test: ast.expr) -> list[ast.expr]:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _parts(inner)
        case ast.BoolOp(op=ast.And(), values=values):
            return [part for value in values for part in _parts(value)]
        case _:
            return [test]


def _asks_device(frame: Frame, test: ast.expr) -> bool:
    value = expressions.quietly(frame, test)
    origin = frame.stories.get(test.id) if isinstance(test, ast.Name) else None
    if origin is not None and any(isinstance(n, ast.Attribute) and n.attr in _FETCHES for n in walk(origin)):
        return True
    return bool(value) and all(
        (isinstance(atom, Tensor) and atom.device == "cuda")
        or (isinstance(atom, Host) and atom.taint is not None and atom.taint[0] == "device")
        for atom in value
    )


def _diagnoses(machine: Machine, function: FunctionInfo, body: list[ast.stmt]) -> bool:
    key = ("diagnoses", function, body[0] if body else None)
    known: bool | None = machine.memo.get(key)
    if known is None:
        raises = _Raises()
        known = machine.memo[key] = _leads_nowhere(machine, function, body, raises, _DEEPEST) and raises.seen
    return known


class _Raises:
    """Whether any exception was met."""

    seen = False


def _changes(function: FunctionInfo) -> bool:
    """Whether a function stores something, by an assignment or by a method that changes a tensor in place."""
    return any(
        isinstance(node.ctx, ast.Store)
        if isinstance(node, (ast.Attribute, ast.Subscript))
        else isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.endswith("_")
        and not node.func.attr.endswith("__")
        for node in walk(function.node)
    )


def _leads_nowhere(machine: Machine, function: FunctionInfo, body: list[ast.stmt], raises: _Raises, depth: int) -> bool:
    return all(_leaves_nothing(machine, function, statement, raises, depth) for statement in body)


def _leaves_nothing(machine: Machine, function: FunctionInfo, statement: ast.stmt, raises: _Raises, depth: int) -> bool:
    match statement:
        case ast.Raise():
            raises.seen = True
            return True
        case ast.Pass() | ast.Continue() | ast.Break() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=targets, value=value):
            calls = [inner for inner in walk(value) if isinstance(inner, ast.Call)]
            changing = [c for call in calls for c in once.callees(machine, function, call) if _changes(c)]
            return not changing and all(isinstance(target, (ast.Name, ast.Tuple)) for target in targets)
        case ast.If(body=body, orelse=orelse) | ast.For(body=body, orelse=orelse):
            return _leads_nowhere(machine, function, [*body, *orelse], raises, depth)
        case ast.Expr(value=ast.Call() as call) if depth:
            callees = once.callees(machine, function, call)
            return bool(callees) and all(
                isinstance(callee.node.body, list)
                and _leads_nowhere(machine, callee, callee.node.body, raises, depth - 1)
                for callee in callees
            )
        case _:
            return False
