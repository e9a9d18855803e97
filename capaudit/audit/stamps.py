"""Values that a time stamp or a flag keeps fresh: each is bound anew at its first use after that has changed.

``if self.stamp < self.now: self.value = ...; self.stamp = self.now`` leaves a value that was bound since
``now`` advanced last, whichever way the test goes. A tick that advances ``now`` before it uses the value
therefore never reads what an earlier tick has bound.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from capaudit.audit import expressions, once
from capaudit.audit.contexts import Cell, Context
from capaudit.audit.values import Instance
from capaudit.program import FunctionInfo, Module

if TYPE_CHECKING:
    from capaudit.audit.frame import Environment, Frame

_MARK = ".s"
_ANY = f"{_MARK}*"


def clock(frame: Frame, node: ast.If) -> tuple[Cell, bool] | None:
    """The cell that a test compares a stamp with, and the truth of the test under which the stamp is out of date."""
    match node.test:
        case ast.Compare(left=left, ops=[ast.Lt() | ast.Gt() | ast.NotEq()], comparators=[right]) if not node.orelse:
            stale, body = True, node.body
        case ast.Compare(left=left, ops=[ast.Eq() | ast.GtE() | ast.LtE()], comparators=[right]) if (
            not node.orelse and isinstance(node.body[-1], ast.Return)
        ):
            whole = frame.function.node if frame.function else None
            stale, body = False, whole.body if isinstance(whole, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
        case ast.UnaryOp(op=ast.Not(), operand=ast.Attribute() as flag) if not node.orelse:
            return _flag(frame, flag, node.body, "True")
        case ast.Attribute() as flag if not node.orelse:
            return _flag(frame, flag, node.body, "False")
        case _:
            return None
    now = next((b for a, b in ((left, right), (right, left)) if _follows(frame, body, a, b)), None)
    cell = _cell(frame, now) if isinstance(now, ast.Attribute) else None
    return None if cell is None else (cell, stale)


def _flag(frame: Frame, flag: ast.Attribute, body: list[ast.stmt], settled: str) -> tuple[Cell, bool] | None:
    """``if not self.fresh: ...; self.fresh = True``: what a flag that somebody takes back keeps fresh."""
    wanted = ast.unparse(flag), settled
    cell = _cell(frame, flag) if any(_sets(statement, wanted) for statement in body) else None
    return None if cell is None else (cell, True)


def _cell(frame: Frame, place: ast.Attribute) -> Cell | None:
    for atom in expressions.quietly(frame, place.value):
        if isinstance(atom, Instance):
            return frame.machine.existing_cell(atom, place.attr)
    return None


def _follows(frame: Frame, body: list[ast.stmt], stamp: ast.expr, now: ast.expr) -> bool:
    """Whether a block, or a method that it calls on the object itself, sets the stamp to what it was compared with."""
    wanted = ast.unparse(stamp), ast.unparse(now)
    for statement in body:
        if _sets(statement, wanted):
            return True
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and frame.function is not None:
            callees = once.callees(frame.machine, frame.function, statement.value)
            if callees and all(_always_sets(callee, wanted) for callee in callees):
                return True
    return False


def _always_sets(function: FunctionInfo, wanted: tuple[str, str]) -> bool:
    body = function.node.body
    return isinstance(body, list) and any(_sets(statement, wanted) for statement in body)


def _sets(statement: ast.stmt, wanted: tuple[str, str]) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Attribute)
        and (ast.unparse(statement.targets[0]), ast.unparse(statement.value)) == wanted
    )


def is_elapsed(frame: Frame, node: ast.BinOp) -> bool:
    """Whether a difference is the time since a stamp, alike in every tick that refreshes in the same places."""
    texts = {ast.unparse(node.left), ast.unparse(node.right)}
    return any(
        isinstance(test, ast.Compare) and texts == {ast.unparse(test.left), ast.unparse(test.comparators[0])}
        for test in frame.stale
    )


def mark_current(frame: Frame, now: Cell) -> None:
    """Where the stamp is up to date, what is read was bound since ``now`` advanced."""
    if frame.env is not None:
        frame.env[_ANY] = ()
        frame.context.items.setdefault("stamps", {})[_ANY] = now


def mark_refreshed(frame: Frame, now: Cell, before: Environment, refreshed: Environment) -> None:
    """Behind the test, what the refreshing branch has bound was bound since ``now`` advanced."""
    if frame.env is None:
        return
    for key in list(refreshed):
        if key.startswith(".w") and key not in before:
            mark = _MARK + key[2:]
            frame.env[mark] = ()
            frame.context.items.setdefault("stamps", {})[mark] = now


def since(frame: Frame, cell: Cell) -> Cell | None:
    """The clock since whose last advance a cell was bound for certain, where there is one."""
    env = frame.env or {}
    stamps = frame.context.items.get("stamps")
    if not stamps:
        return None
    mark = f"{_MARK}{id(cell)}"
    return stamps[mark] if mark in env else stamps[_ANY] if _ANY in env else None


def advance(frame: Frame, cell: Cell) -> None:
    """Note that a tick moves a number on."""
    frame.context.items.setdefault("advanced", {})[cell] = None


def note_test(frame: Frame, node: ast.AST, now: Cell) -> None:
    """Note a test of a stamp."""
    frame.context.items.setdefault("stamp-tests", {})[node] = now


def is_steady(context: Context, root: Context, node: ast.AST) -> bool:
    """Whether a test of a stamp ends alike in every tick: each tick advances the clock in the same places."""
    return context.items.get("stamp-tests", {}).get(node) in root.items.get("advanced", ())


def note_read(context: Context, cell: Cell, place: tuple[Module, ast.AST], clock: Cell | None) -> None:
    """Note a read of what an earlier tick may have bound, unless a clock that has advanced here rules that out."""
    if clock is not None and clock in context.items.get("advanced", ()):
        return
    stamped = context.items.setdefault("stamped", {})
    if cell not in context.entry_reads:
        context.entry_reads[cell] = place
        if clock is not None:
            stamped[cell] = clock
    elif stamped.get(cell) not in (None, clock):
        del stamped[cell]
        context.entry_reads[cell] = place
