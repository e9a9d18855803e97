"""``if`` statements: which branch runs, what both leave behind, and host state that only steers bookkeeping.

A branch on host state that a replay does not advance is a fault where it steers device work. Where it
only steers other host values (a log is written, a counter starts over), the fault, if there is one,
lies where those values reach device work: they carry the branch's taint there.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from capaudit.audit import correlated, diagnoses, guards, hazards, once, operators, stamps, stores
from capaudit.audit.contexts import Cell
from capaudit.audit.values import NONE, NOTHING, Const, Function, Host, Kernel, Partial, Value, stronger
from capaudit.model import Confidence
from capaudit.program import walk

if TYPE_CHECKING:
    from capaudit.audit.frame import Environment, Frame


@dataclass(slots=True)
class Steered:
    """A test of frozen host state, held back until it is known what its branches do."""

    taint: tuple[Any, ...]
    node: ast.AST
    how: str
    subject: ast.expr | None


def run_if(frame: Frame, node: ast.If) -> None:
    """Evaluate both branches that can run, and join what they leave."""
    from capaudit.audit.frame import merge, narrow

    held: list[Steered] = []
    diagnosing = not node.orelse and diagnoses.follows_read(frame, node.test, node.body)
    ending = not node.orelse and isinstance(node.body[-1], (ast.Return, ast.Continue))
    rest_diagnoses = ending and diagnoses.follows_read(frame, node.test, once.following(frame, node))
    if ending and diagnoses.asks_device(frame, node.test):
        frame.left_by_device.add(node)
    outer, frame.held = frame.held, held
    only_checks = diagnosing or rest_diagnoses or (not node.orelse and _only_raises(node.body))
    checking, frame.checking = frame.checking, only_checks
    try:
        outcome = guards.test(frame, node.test, node)
    finally:
        frame.held, frame.checking = outer, checking
    if frame.env is None:
        return
    before = frame.env
    clock = stamps.clock(frame, node) if frame.recording else None
    refreshed: Environment = {}
    work, opaque, writes = frame.work, frame.opaque, len(frame.host_writes)
    ends: list[Environment] = []
    writes_before = frame.writes
    wrote: list[bool] = []
    for branch, body, wanted in ((outcome.true, node.body, True), (outcome.false, node.orelse, False)):
        if branch is None:
            if body:
                guards.note_pruned(frame, node, body, outcome.reason, wanted)
            continue
        frame.env = narrow(frame, before, branch)
        if clock is not None and clock[1] != wanted:
            stamps.mark_current(frame, clock[0])
        frame.holding.append((node.test, wanted))
        correlated.recall(frame)
        after = once.following(frame, node) if wanted else None
        modes = once.modes(frame, node.test, wanted, body, after) | once.alias(node.test, wanted)
        outside = frame.mode
        frame.mode = frame.mode | modes
        frame.failure += diagnosing and wanted
        refreshing = [node.test] if clock is not None and clock[1] == wanted else []
        frame.stale.extend(refreshing)
        frame.run_block(body)
        del frame.stale[len(frame.stale) - len(refreshing) :]
        frame.failure -= diagnosing and wanted
        if modes:
            frame.mode = once.left(frame.mode, outside)
        frame.holding.pop()
        if frame.env is not None:
            ends.append(frame.env)
            if clock is not None and clock[1] == wanted:
                refreshed = frame.env
            if frame.writes > writes_before:
                wrote.append(wanted)
            writes_before = frame.writes
        else:
            _guard_rest(frame, node, body, wanted)
    _share_writes(frame, ends)
    frame.env = merge(ends)
    if not node.orelse and node.body[-1] in frame.left_by_device:
        rest_diagnoses = diagnoses.only_names_culprit(frame, once.following(frame, node))
    frame.failure += rest_diagnoses  # until the block ends
    if clock is not None:
        stamps.mark_refreshed(frame, clock[0], before, refreshed)
    _note_used_up(frame, node)
    for wanted in wrote:
        correlated.remember(frame, node, wanted, before, ends)
    if held:
        if clock is not None:
            for test in held:
                stamps.note_test(frame, test.node, clock[0])
        _judge(frame, node, held, before, (work, opaque, writes))


def _only_raises(body: list[ast.stmt]) -> bool:
    """Whether a block does nothing but raise: where it ends without, it has changed nothing."""
    if guards.always_raises(body):
        return True
    return any(isinstance(statement, ast.If) for statement in body) and all(map(_leaves_nothing, body))


def _leaves_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Raise() | ast.Assert() | ast.Pass():
            return True
        case ast.If():
            return all(_leaves_nothing(inner) for inner in (*statement.body, *statement.orelse))
        case _:
            return False


def _guard_rest(frame: Frame, node: ast.If, body: list[ast.stmt], wanted: bool) -> None:
    """What follows a branch that ends the block runs where the test has the other truth."""
    if once.ONCE in frame.mode and guards.always_raises(body) and once.refuses_capture(node.test):
        frame.context.items["refuses-capture"] = True
        frame.mode = frame.mode | {once.REFUSED}
    elif once.SETTLED not in frame.mode and not node.orelse and not guards.always_raises(body):
        frame.mode = frame.mode | once.modes(frame, node.test, not wanted, once.following(frame, node))


def _note_used_up(frame: Frame, node: ast.If) -> None:
    """A count that a test asks for and the branch sets to 0 at last is 0 behind it, whichever way the test went."""
    if node.orelse or not frame.tick or frame.function is None or frame.function.cls is None:
        return
    match node.body[-1]:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self")) as target], value=ast.Constant(value=0)):
            pass
        case _:
            return
    text = ast.unparse(target)
    parts = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]
    others = [ast.unparse(part) for part in parts if ast.unparse(part) not in (f"{text} > 0", f"{text} != 0", text)]
    if len(others) == len(parts):
        return
    counting = frame.machine.names.stores_of(frame.function.cls).get(target.attr, ())
    if all(_counts_up(method.node, text, others) for method in counting):
        stores.note_back(frame, target)


def _counts_up(function: ast.AST, text: str, needed: list[str]) -> bool:
    """Whether a method only adds 1 to a count, or sets it to 0, and adds only where all that is ``needed`` holds."""
    body = getattr(function, "body", [])
    for node in walk(function):
        match node:
            case ast.AugAssign(target=ast.Attribute() as place, op=operator, value=value) if ast.unparse(place) == text:
                if not isinstance(operator, ast.Add) or ast.unparse(value) != "1":
                    return False
                held = {ast.unparse(s.test.operand) for s in body if _turns_away(s)}
                if not held.issuperset(needed):
                    return False
            case ast.Assign(targets=targets, value=value) if any(ast.unparse(t) == text for t in targets):
                if ast.unparse(value) != "0":
                    return False
            case _:
                pass
    return True


def _turns_away(statement: ast.stmt) -> TypeGuard[Any]:
    return (
        isinstance(statement, ast.If)
        and isinstance(statement.test, ast.UnaryOp)
        and isinstance(statement.test.op, ast.Not)
        and isinstance(statement.body[-1], ast.Return)
    )


def _share_writes(frame: Frame, ends: list[Environment]) -> None:
    """What one branch wrote on an object counts as written in the branch in which there is no such object."""
    if len(ends) != 2:
        return
    table = frame.context.items.get("cells", {})
    for env, other in (ends, ends[::-1]):
        missing = stores.absent_objects(env)
        for name in other if missing else ():
            if name in table and stores.is_absent(frame.machine, table[name], missing):
                env.setdefault(name, NOTHING)


def _judge(frame: Frame, node: ast.If, held: list[Steered], before: Environment, marks: tuple[int, int, int]) -> None:
    """Report a frozen test whose branches do device work, or end the function before more of it."""
    if frame.failure:
        return  # what follows raises in any case
    work, opaque, writes = marks
    bodies = [*node.body, *node.orelse]
    if frame.work > work or _picks(frame, before, bodies):
        report(frame, held, before)
        return
    if frame.opaque > opaque:
        report(frame, held, before, Confidence.POSSIBLE)
    if _leaves(bodies):
        frame.leaving.append((held, frame.work))
        frame.exit_taint = stronger(frame.exit_taint, held[0].taint)
    _steer(frame, held[0].taint, before, bodies, frame.host_writes[writes:])


def report(frame: Frame, held: list[Steered], env: Environment, confidence: Confidence = Confidence.LIKELY) -> None:
    """Report tests that were held back."""
    after, frame.env = frame.env, env
    for test in held:
        hazards.frozen(frame, test.taint, test.node, test.how, test.subject, confidence)
    frame.env = after


def finish(frame: Frame) -> None:
    """At the end of a function: tests that ended it early steer whatever came after them."""
    for held, work in frame.leaving:
        if frame.work > work:
            report(frame, held, {})
    if frame.exit_taint is not None and _numeric(frame.context.result):
        frame.context.result = operators.with_taint(frame.context.result, frame.exit_taint)


def _leaves(bodies: list[ast.stmt]) -> bool:
    return any(isinstance(inner, (ast.Return, ast.Break, ast.Continue)) for body in bodies for inner in walk(body))


def _numeric(value: Value) -> bool:
    """Numbers, flags and text alone, of known type."""
    return bool(value) and all(
        isinstance(atom, (Const, Host)) and (atom is NONE or atom.type_name in ("int", "float", "bool", "str"))
        for atom in value
    )


def _names(bodies: list[ast.stmt]) -> dict[str, None]:
    found: dict[str, None] = {}
    for body in bodies:
        for inner in walk(body):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                found[inner.id] = None
    return found


def _picks(frame: Frame, before: Environment, bodies: list[ast.stmt]) -> bool:
    """Whether a branch decides which buffer or which function a name stands for."""
    env = frame.env or {}
    for name in _names(bodies):
        value = env.get(name, NOTHING)
        if value is not before.get(name) and is_choice(frame, value):
            return True
    return False


def is_choice(frame: Frame, value: Value) -> bool:
    """Whether a value is something that captured work may use: buffers, or what is called."""
    return any(isinstance(atom, (Function, Partial, Kernel)) for atom in value) or stores.owns_buffers(
        frame.machine, value
    )


def _steer(
    frame: Frame, taint: tuple[Any, ...], before: Environment, bodies: list[ast.stmt], written: list[tuple[Cell, Any]]
) -> None:
    """Numbers that a frozen branch binds are as frozen as the branch."""
    if frame.env is not None:
        for name in _names(bodies):
            value = frame.env.get(name, NOTHING)
            if value is not before.get(name) and _numeric(value):
                frame.env[name] = operators.with_taint(value, taint)
    for cell, place in written:
        if cell.persistent and _numeric(cell.value) and isinstance(taint[2], Cell) and cell is not taint[2]:
            cell.tick_write = cell.tick_write or place
            cell.steered = True
            frame.machine.set_varies(cell)
