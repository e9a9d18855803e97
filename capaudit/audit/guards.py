"""Tests and what they decide: truth of values, narrowing, pruned branches, failure-only blocks."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from capaudit.audit import calls, emptiness, expressions, hazards, hints, operators, stores
from capaudit.audit.values import (
    NONE,
    NOTHING,
    UNKNOWN,
    Atom,
    Bound,
    ClassRef,
    Const,
    Function,
    Host,
    Instance,
    Items,
    Kernel,
    Library,
    Object,
    Partial,
    Record,
    Returns,
    Sequence,
    Slice,
    Tensor,
    Value,
    WarpArray,
    join,
    like,
    stronger,
)
from capaudit.model import Confidence
from capaudit.program import FunctionInfo
from capaudit.program.symbols import dotted_text

if TYPE_CHECKING:
    from capaudit.audit.frame import Environment, Frame


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a test leaves: bindings for the true and the false branch, ``None`` where a branch cannot run."""

    true: dict[str, Value] | None
    false: dict[str, Value] | None
    reason: str = ""
    taint: tuple[Any, ...] | None = None


def always_raises(body: list[ast.stmt]) -> bool:
    """True when the block cannot end without an exception: it is a failure path."""
    return failing_from(body) == 0


def failing_from(body: list[ast.stmt]) -> int | None:
    """From which statement on a block leads to an exception whatever happens; ``None`` where it may end well."""
    if not body or not _raises(body[-1]):
        return None
    escapes = [place for place, statement in enumerate(body) if _may_escape(statement)]
    return escapes[-1] + 1 if escapes else 0


def _may_escape(statement: ast.AST, in_loop: bool = False) -> bool:
    """Whether a statement may leave the block that it stands in without an exception."""
    match statement:
        case ast.Return() | ast.Yield() | ast.YieldFrom():
            return True
        case ast.Break() | ast.Continue():
            return not in_loop
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
            return False
        case ast.For() | ast.AsyncFor() | ast.While():
            in_loop = True
    return any(_may_escape(inner, in_loop) for inner in ast.iter_child_nodes(statement))


def _raises(last: ast.stmt) -> bool:
    match last:
        case ast.Raise():
            return True
        case ast.If():
            return bool(last.orelse) and always_raises(last.body) and always_raises(last.orelse)
        case ast.Assert():
            return isinstance(last.test, ast.Constant) and not last.test.value
        case ast.Expr(value=ast.Call(func=callee)):
            return dotted_text(callee) in ("sys.exit", "os._exit", "exit", "quit", "pytest.fail")
        case _:
            return False


_HOW = {
    ast.If: "an if statement asks",
    ast.While: "a while loop asks",
    ast.Assert: "an assertion asks",
    ast.IfExp: "a conditional expression asks",
}


def test(frame: Frame, node: ast.expr, statement: ast.AST) -> Outcome:
    """Evaluate a test and narrow both branches."""
    how = _HOW.get(type(statement), "a condition asks")
    return _test(frame, node, f"{how} whether it is true")


def _test(frame: Frame, node: ast.expr, how: str) -> Outcome:
    return _filled(frame, node, _narrowed(frame, node, how))


def _filled(frame: Frame, node: ast.expr, outcome: Outcome) -> Outcome:
    """Note for the branch in which a selection or a mask was found to hold something that it does."""
    sized = emptiness.sized(node)
    dynamic = sized is not None
    if sized is None and frame.function is not None and frame.tick:
        sized = _asked(frame, frame.function, node)
    key = _key(sized[0]) if sized is not None else None
    if sized is None or key is None:
        return outcome
    value = expressions.quietly(frame, sized[0])
    known = tuple(like(a, filled=True) if isinstance(a, Tensor) and a.dynamic == dynamic else a for a in value)
    branch = outcome.true if sized[1] else outcome.false
    if known == value or branch is None:
        return outcome
    narrowed = {key: known, **branch}
    return replace(outcome, true=narrowed) if sized[1] else replace(outcome, false=narrowed)


def _asked(frame: Frame, function: FunctionInfo, node: ast.expr) -> tuple[ast.expr, bool] | None:
    if not isinstance(node, (ast.Call, ast.Compare)):
        return None
    key = ("asks for an element", node)
    if key not in frame.machine.memo:
        frame.machine.memo[key] = emptiness.asked(frame.machine, function, node)
    found: tuple[ast.expr, bool] | None = frame.machine.memo[key]
    return found


def _narrowed(frame: Frame, node: ast.expr, how: str) -> Outcome:
    match node:
        case ast.UnaryOp(op=ast.Not()):
            inner = _test(frame, node.operand, how)
            return Outcome(inner.false, inner.true, inner.reason, inner.taint)
        case ast.BoolOp():
            return _bool_test(frame, node, how)
        case ast.NamedExpr():
            value = frame.evaluate(node)
            truth(frame, value, node.value, node, how)
            return _split(node.target.id, value, frame)
        case ast.Compare() if len(node.ops) == 1:
            return _compare_test(frame, node, how)
        case ast.Call(func=ast.Name(id="isinstance"), args=[subject, kind]):
            return _isinstance_test(frame, node, subject, kind)
        case ast.Call(func=ast.Name(id="hasattr")):
            return _hasattr_test(frame, node)
        case _:
            value = frame.evaluate(node)
            if _asks_for_cpu(node) and _is_open_flag(value):
                return Outcome(None, {}, "the boundary runs on CUDA")
            truth(frame, value, node, node, how)
            return _split(_key(node), value, frame)


def _key(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else expressions.dotted_key(node)


def _always_true(frame: Frame, atom: Atom) -> bool:
    """An object whose class says nothing about truth or length is true."""
    if not isinstance(atom, Instance):
        return False
    names = frame.machine.names
    if any(names.method(atom.cls, name) is not None for name in ("__bool__", "__len__")):
        return False
    return all(base.rpartition(".")[2] in _TRUE_BASES for base in names.external_bases(atom.cls))


_TRUE_BASES = ("object", "ABC", "Protocol", "Generic", "Module")


def _split(key: str | None, value: Value, frame: Frame | None = None) -> Outcome:
    """Narrow ``key`` by truthiness: what is false for certain leaves the true branch, and the reverse."""
    if not value:
        return Outcome({}, {})
    known = constant_truth(value)
    taint = operators.taint_of(value)
    if known is not None:
        reason = "capture-state guard" if any(_is_capture_state(a) for a in value) else f"always {known}"
        return Outcome({} if known else None, None if known else {}, reason, taint)
    if key is None:
        return Outcome({}, {}, "", taint)
    positive = tuple(atom for atom in value if atom_truth(atom) is not False)
    negative = tuple(atom for atom in value if atom_truth(atom) is not True)
    if NONE in negative and frame is not None:
        negative = tuple(atom for atom in negative if not _always_true(frame, atom))
    return Outcome(
        _absent(key, {key: positive} if positive else None, negative),
        _absent(key, {key: negative} if negative else None, positive),
        "",
        taint,
    )


def _absent(key: str, branch: dict[str, Value] | None, present: Value) -> dict[str, Value] | None:
    """Remember in the branch in which ``key`` is ``None`` which objects are not there."""
    if branch is None or branch.get(key) != (NONE,) or not present:
        return branch
    return {**branch, f"{stores.ABSENT}{key}": present}


def _is_capture_state(atom: Atom) -> bool:
    return isinstance(atom, Const) and atom.type_name == "capturing"


def atom_truth(atom: Atom) -> bool | None:
    """The truth of one alternative where it is certain without looking at the device."""
    match atom:
        case Const():
            return bool(atom.value)
        case Function() | ClassRef() | Library() | Bound() | Kernel() | Partial() | Returns() | Slice():
            return True
        case Items():
            return bool(atom.items)
        case Record():
            return bool(atom.entries) if not atom.entries else True
        case Object():
            return True if atom.path.startswith(("torch.", "warp.")) else None
        case WarpArray():
            return True
        case Host() if emptiness.is_positive(atom):
            return True
        case _:
            return None


def constant_truth(value: Value) -> bool | None:
    """The truth of a value when all alternatives agree."""
    truths = {atom_truth(atom) for atom in value}
    return truths.pop() if len(truths) == 1 else None


def truth(frame: Frame, value: Value, subject: ast.expr, node: ast.AST, how: str) -> None:
    """Record what asking for the truth of ``value`` costs."""
    hazards.host_read(frame, value, node, how, subject)
    for atom in value:
        if emptiness.is_positive(atom):
            continue
        if isinstance(atom, (Host, Sequence)) and atom.taint is not None:
            hazards.tainted_test(frame, atom.taint, node, "a branch depends", subject)
        elif isinstance(atom, Tensor) and atom.device == "cpu":
            frame.record(node, "python.bool")
        elif isinstance(atom, Instance):
            for name in ("__bool__", "__len__"):
                if calls.call_dunder(frame, atom, name, [], node) is not None:
                    break


def dynamic_loop(frame: Frame, node: ast.AST) -> None:
    hazards.tainted_test(
        frame, ("dynamic", "", None), node, "a loop depends", node if isinstance(node, ast.expr) else None
    )


def tainted_loop(frame: Frame, taint: tuple[Any, ...], node: ast.AST) -> None:
    hazards.tainted_test(frame, taint, node, "a loop bound depends", node if isinstance(node, ast.expr) else None)


def _bool_test(frame: Frame, node: ast.BoolOp, how: str) -> Outcome:
    before = frame.env
    conjunction = isinstance(node.op, ast.And)
    gathered: dict[str, Value] = {}
    reason, taint = "", None
    outcomes: list[Outcome] = []
    for operand in node.values:
        outcome = _test(frame, operand, how)
        outcomes.append(outcome)
        taint = stronger(taint, outcome.taint)
        going_on = outcome.true if conjunction else outcome.false
        if going_on is None:
            frame.env = before
            reason = outcome.reason
            return Outcome(None, {}, reason, taint) if conjunction else Outcome({}, None, reason, taint)
        gathered.update(going_on)
        if frame.env is not None:
            frame.narrow(going_on)
    frame.env = before
    leaving = [o.false if conjunction else o.true for o in outcomes]
    lazy: dict[str, Value] = {name: NOTHING for branch in leaving for name in branch or () if name.startswith(".lazy ")}
    if all(branch is None for branch in leaving):
        return (
            Outcome(gathered, None, outcomes[-1].reason, taint)
            if conjunction
            else Outcome(None, gathered, outcomes[-1].reason, taint)
        )
    reachable = [branch for branch in leaving if branch is not None]
    shared = {**_common(reachable), **lazy}  # missing, or not what is asked for: made anew either way
    return Outcome(gathered, shared, "", taint) if conjunction else Outcome(shared, gathered, "", taint)


def _common(branches: list[dict[str, Value]]) -> dict[str, Value]:
    """Bindings on which every way out of a boolean operation agrees to be narrowed."""
    result: dict[str, Value] = {}
    for key in branches[0]:
        if all(key in branch for branch in branches):
            value: Value = NOTHING
            for branch in branches:
                value = join(value, branch[key])
            result[key] = value
    return result


def boolean_operation(frame: Frame, node: ast.BoolOp) -> tuple[Value, Environment | None]:
    """Value of ``and``/``or`` as an expression; every operand but the last is asked for its truth."""
    before = frame.env
    conjunction = isinstance(node.op, ast.And)
    result: Value = NOTHING
    for i, operand in enumerate(node.values):
        value = frame.evaluate(operand)
        last = i == len(node.values) - 1
        if last:
            result = join(result, value)
            break
        word = "and" if conjunction else "or"
        truth(frame, value, operand, operand, f"'{word}' asks whether it is true")
        known = constant_truth(value)
        if known is not None and known != conjunction:
            return join(result, value), before
        kept = tuple(atom for atom in value if atom_truth(atom) is not conjunction)
        if known is None:
            result = join(result, kept)
        outcome = _narrow(frame, operand, value)
        branch = outcome.true if conjunction else outcome.false
        if branch and frame.env is not None:
            frame.narrow(branch)
    return result, before


def _narrow(frame: Frame, node: ast.expr, value: Value) -> Outcome:
    """Narrow by an operand that has been evaluated already, without recording it again."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _split(_key(node), value, frame)
    frame.quiet += 1
    try:
        return _test(frame, node, "")
    finally:
        frame.quiet -= 1


def _compare_test(frame: Frame, node: ast.Compare, how: str) -> Outcome:
    operator, right = node.ops[0], node.comparators[0]
    if (fixed := _device_comparison(node)) is not None:
        reason = "the boundary runs on CUDA"
        return Outcome({} if fixed else None, None if fixed else {}, reason)
    value = frame.evaluate(node)
    truth(frame, value, node, node, how)
    key = _key(node.left)
    if key is not None and isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) and _is_none(right):
        subject = expressions.quietly(frame, node.left)
        if subject:
            absent: Value = tuple(a for a in subject if a is NONE)
            present: Value = tuple(a for a in subject if a is not NONE)
            if UNKNOWN in subject or any(isinstance(a, Host) and a.type_name == "any" for a in subject):
                absent = (NONE,)
            positive = isinstance(operator, (ast.Is, ast.Eq))
            yes, no = (absent, present) if positive else (present, absent)
            reason = f"{key} is {'always' if not present else 'never'} None"
            held = _held_by(frame, node.left) or key
            return Outcome(
                _absent(key, _lazy(held, {key: yes} if yes else None, positive), no),
                _absent(key, _lazy(held, {key: no} if no else None, not positive), yes),
                reason,
            )
    if isinstance(operator, (ast.Is, ast.IsNot)) and _is_none(right) and (lazy := _getattr_key(node.left)) is not None:
        outcome = _split(None, value)
        mark = {f".lazy {lazy}": NOTHING}
        if isinstance(operator, ast.Is):
            marked = {**outcome.true, **mark} if outcome.true is not None else None
            return Outcome(marked, outcome.false, outcome.reason, outcome.taint)
        marked = {**outcome.false, **mark} if outcome.false is not None else None
        return Outcome(outcome.true, marked, outcome.reason, outcome.taint)
    if isinstance(operator, (ast.In, ast.NotIn)):
        container = _key(right)
        outcome = _split(None, value)
        if container is not None:
            mark = {f".lazy {container}": NOTHING}
            if isinstance(operator, ast.NotIn):
                return Outcome(
                    {**(outcome.true or {}), **mark} if outcome.true is not None else None,
                    outcome.false,
                    outcome.reason,
                    outcome.taint,
                )
            return Outcome(
                outcome.true,
                {**(outcome.false or {}), **mark} if outcome.false is not None else None,
                outcome.reason,
                outcome.taint,
            )
        return outcome
    if key is not None and isinstance(operator, (ast.Eq, ast.NotEq)) and isinstance(right, ast.Constant):
        return _equality(frame, key, node, value, isinstance(operator, ast.Eq), right.value)
    return _split(None, value)


def _held_by(frame: Frame, node: ast.expr) -> str | None:
    """What a local name was read from: ``self._x`` after ``x = self._x``, ``self._cache`` after ``self._cache.get``."""
    origin = frame.stories.get(node.id) if isinstance(node, ast.Name) else None
    match origin:
        case ast.Attribute():
            return expressions.dotted_key(origin)
        case ast.Call(func=ast.Attribute(attr="get", value=container)):
            return _key(container)
        case ast.Call():
            return _getattr_key(origin)
        case _:
            return None


def _getattr_key(node: ast.expr) -> str | None:
    """``self._x`` for ``getattr(self, "_x", None)``."""
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[base, ast.Constant(value=str() as name), *_]):
            key = _key(base)
            return f"{key}.{name}" if key is not None else None
        case _:
            return None


def _equality(frame: Frame, key: str, node: ast.Compare, value: Value, equal: bool, wanted: Any) -> Outcome:
    outcome = _split(None, value)
    subject = expressions.quietly(frame, node.left)
    if all(isinstance(atom, Const) for atom in subject) and subject:
        same = tuple(a for a in subject if isinstance(a, Const) and a.value == wanted)
        other = tuple(a for a in subject if isinstance(a, Const) and a.value != wanted)
        yes, no = (same, other) if equal else (other, same)
        return Outcome({key: yes} if yes else None, {key: no} if no else None, outcome.reason, outcome.taint)
    return outcome


def _lazy(key: str, branch: dict[str, Value] | None, absent: bool) -> dict[str, Value] | None:
    """Mark the branch in which ``key`` is still unset: what it binds there is created on first use."""
    if branch is None or not absent or "." not in key:
        return branch
    return {**branch, f".lazy {key}": NOTHING}


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _device_comparison(node: ast.Compare) -> bool | None:
    """``device == "cpu"`` and its kin are decided: a CUDA boundary runs on a CUDA device."""
    operator, left, right = node.ops[0], node.left, node.comparators[0]
    if isinstance(operator, (ast.In, ast.NotIn)) and isinstance(left, ast.Constant) and isinstance(left.value, str):
        if "device" in _device_text(right) and left.value in ("cuda", "cpu", "gpu"):
            return (left.value != "cpu") == isinstance(operator, ast.In)
        return None
    if not isinstance(operator, (ast.Eq, ast.NotEq)):
        return None
    for text_side, constant in ((left, right), (right, left)):
        if (
            isinstance(constant, ast.Constant)
            and isinstance(constant.value, str)
            and "device" in _device_text(text_side)
        ):
            if constant.value.startswith("cpu"):
                return isinstance(operator, ast.NotEq)
            if constant.value == "cuda" and _device_text(text_side).endswith("type"):
                return isinstance(operator, ast.Eq)
    return None


_CPU_MODE = re.compile(r"_*(?:(?:use|using|is|force|run|runs|run_on)_(?:\w+_)?cpu|cpu(?:_only|_mode)?)")


def _asks_for_cpu(node: ast.expr) -> bool:
    """Whether a bare flag, ``self.use_cpu`` or ``cpu_only``, chooses a configuration without the device."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return _CPU_MODE.fullmatch(name) is not None


def _is_open_flag(value: Value) -> bool:
    return constant_truth(value) is None and any(
        isinstance(a, (Const, Host)) and a is not NONE and a.type_name in ("bool", "any") for a in value
    )


def _device_text(node: ast.expr) -> str:
    if isinstance(node, ast.Call) and node.args:
        return _device_text(node.args[0])
    return dotted_text(node).lower()


def _isinstance_test(frame: Frame, node: ast.Call, subject: ast.expr, kind: ast.expr) -> Outcome:
    value = frame.evaluate(subject)
    kinds = hints.isinstance_kinds(frame, kind)
    if not value:
        return Outcome({}, {})
    yes: list[Atom] = []
    no: list[Atom] = []
    for atom in value:
        verdict = hints.is_instance(frame, atom, kinds)
        if verdict is not False:
            yes.extend(hints.narrowed(frame, atom, kinds) if verdict is None else [atom])
        if verdict is not True:
            no.append(atom)
    frame.context.calls.setdefault(node, (True, ""))
    key = _key(subject)
    if key is None:
        return Outcome({} if yes else None, {} if no else None, "the type is known")
    return Outcome(
        {key: tuple(dict.fromkeys(yes))} if yes else None, {key: tuple(no)} if no else None, "the type is known"
    )


def _hasattr_test(frame: Frame, node: ast.Call) -> Outcome:
    value = frame.evaluate(node)
    outcome = _split(None, value)
    if len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
        base = _key(node.args[0])
        if base is not None and outcome.false is not None:
            return Outcome(
                outcome.true, {**outcome.false, f".lazy {base}.{node.args[1].value!s}": NOTHING}, outcome.reason
            )
    return outcome


def note_pruned(frame: Frame, node: ast.If, body: list[ast.stmt], reason: str, wanted: bool) -> None:
    """List a branch that was left out; a capture guard that drops device work freezes the captured path."""
    if not frame.recording:
        return
    frame.context.pruned[body[0]] = reason or "cannot be reached"
    other = node.orelse if wanted else node.body
    if reason != "capture-state guard" or other:
        return
    if _writes_device_state(frame, body):
        frame.reject(
            node.test,
            "CAP501",
            "capture-state",
            "device work is skipped while capturing, so every replay leaves out what eager ticks do",
            confidence=Confidence.LIKELY,
            remedy=(
                "Do the same device work while capturing; move checks and prints that need the host to the "
                "completion side."
            ),
        )


def _writes_device_state(frame: Frame, body: list[ast.stmt]) -> bool:
    """Evaluate a dropped branch on the side and say whether it changes device buffers in place."""
    context = frame.context
    saved = (context.records, context.callees, context.calls, context.rebinds, context.streams, frame.env)
    context.records, context.callees, context.calls = {}, {}, {}
    context.rebinds, context.streams = [], []
    before: int = context.items.get("device-writes", 0)
    frame.env = dict(frame.env or {})
    try:
        frame.run_block(body)
        written: int = context.items.get("device-writes", 0)
        return written > before
    finally:
        context.items["device-writes"] = before
        context.records, context.callees, context.calls, context.rebinds, context.streams, frame.env = saved


def capture_state(frame: Frame) -> Value:
    """The value of ``is_current_stream_capturing()``: true inside a boundary, false outside."""
    from capaudit.audit.values import _intern

    return (_intern(Const, "capturing", frame.tick),)
