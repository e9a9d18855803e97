"""Guards that let set-up run once: ``if self._buf is None``, ``if not self._ready``, ``if len(self._buf) < n``.

What stands behind such a guard is made on first use and not again in every tick, also in the functions
that the guarded code calls. A guard counts only where the guarded code settles it (it binds the
attribute that the guard asks for) and where no tick and no method of the class arms it again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capaudit.audit import expressions, operators, stores
from capaudit.audit.values import Instance, Tensor
from capaudit.program import ClassInfo, FunctionInfo, walk
from capaudit.program.symbols import dotted_text

if TYPE_CHECKING:
    from capaudit.audit.contexts import Cell
    from capaudit.audit.frame import Frame
    from capaudit.audit.machine import Machine

ONCE = "once"
"""Mode of code behind such a guard."""
GROWTH = "growth"
"""Beside ``ONCE``: the guard asks for a size alone, so that what it replaces may be storage in use."""
REFUSED = "refused"
"""Beside ``ONCE``: an exception keeps the code at hand from running while a stream is capturing."""

SETTLED = "settled"
"""Beside ``ONCE``: the guarded code settles the guard on every way through it, so that the next tick passes it by."""
ALIAS = "alias"
"""Mode of code that runs only where two buffers share their storage, which whoever made them decides."""

MODES = frozenset((ONCE, GROWTH, REFUSED, SETTLED, ALIAS))
_FIRST_USE = frozenset(("CAP301", "CAP503"))

_ABSENT, _FLAG, _SIZE, _FIXED = "absent", "flag", "size", "fixed size"
_DEEPEST = 3
_MOST = 6
_SETUP = ("__init__", "__post_init__", "__new__", "__setstate__", "__deepcopy__")


@dataclass(frozen=True, slots=True)
class Guard:
    """One question to an attribute: ``owner.name`` is missing, is (not) set, or is too small.

    ``armed`` is the truth of a flag for which the guarded code runs.
    """

    owner: ast.expr
    name: str
    kind: str
    armed: bool = False


Alternative = tuple[Guard, ...]
"""Guards of which each has to be settled, so that the code behind them runs once."""


def modes(
    frame: Frame, test: ast.expr, wanted: bool, body: list[ast.stmt], after: list[ast.stmt] | None = None
) -> frozenset[str]:
    """The modes of ``body``, which runs where ``test`` has the truth ``wanted``; none where it may run again.

    ``after``: what runs next in any case, and may settle the guard in place of the body.
    """
    if not body or not frame.tick or frame.function is None:
        return frozenset()
    key = ("once", test, wanted)
    known: tuple[Alternative, ...] | None = frame.machine.memo.get(key)
    if known is None:
        found = _alternatives(frame, test, wanted, _DEEPEST)
        whole = [*body, *after] if after and not any(_may_leave(statement) for statement in body) else body

        def settles(guard: Guard) -> bool:
            assert frame.function is not None
            # What is missing is there for good once anything binds it; a size or a flag may be asked for again.
            return _settles(frame.machine, frame.function, whole if guard.kind == _ABSENT else body, guard)

        known = tuple(a for a in found if a and all(map(settles, a)))
        frame.machine.memo[key] = known
    for guards in known:
        if any(_armed_again(frame, guard) for guard in guards):
            continue
        if all(guard.kind == _SIZE for guard in guards):
            return frozenset((ONCE, GROWTH))
        settled = all(
            _always_settles(
                frame.machine, frame.function, [*body, *(after or [])] if guard.kind == _ABSENT else body, guard
            )
            for guard in guards
        )
        return frozenset((ONCE, SETTLED) if settled else (ONCE,))
    return frozenset()


def _may_leave(statement: ast.stmt) -> bool:
    return any(isinstance(node, (ast.Return, ast.Continue, ast.Break)) for node in walk(statement))


def made_for(frame: Frame, asked: list[tuple[ast.expr, str]], body: list[ast.stmt]) -> frozenset[str]:
    """The modes of a handler that binds one of the attributes whose absence leads to it."""
    if frame.function is None:
        return frozenset()
    for owner, name in asked:
        guard = Guard(owner, name, _ABSENT)
        if _settles(frame.machine, frame.function, body, guard) and not _armed_again(frame, guard):
            return frozenset((ONCE,))
    return frozenset()


def left(mode: frozenset[Any], outside: frozenset[Any]) -> frozenset[Any]:
    """The mode behind a block that such a guard leads to or ends: what held ``outside`` of it holds again."""
    return (mode - MODES) | (outside & MODES)


def is_first_binding(frame: Frame, cell: Cell) -> bool:
    """Whether the code at hand binds a cell once: it stands behind a guard and replaces nothing that is in use."""
    if ONCE not in frame.mode:
        return False
    return GROWTH not in frame.mode or REFUSED in frame.mode or not stores.owns_buffers(frame.machine, cell.first)


def is_first_use(frame: Frame) -> bool:
    """Whether the code at hand stands behind a guard that lets it run once and replaces nothing that is in use."""
    return ONCE in frame.mode and GROWTH not in frame.mode


def fills_later(frame: Frame, node: ast.Dict | ast.Call) -> bool:
    """Whether a dictionary is left empty on first use and kept, so that what it will hold is made by later stores."""
    if frame.function is None or (node.keys if isinstance(node, ast.Dict) else node.args or node.keywords):
        return False
    missing = {key.removeprefix(".lazy ") for key in frame.env or {} if key.startswith(".lazy ")}
    if not missing and not is_first_use(frame):
        return False
    assigned = [n for n in walk(frame.function.node) if isinstance(n, ast.Assign)]
    named = {t.id for n in assigned if n.value is node for t in n.targets if isinstance(t, ast.Name)}
    if any(_fills_at_once(n) for n in walk(frame.function.node)):
        return False
    return any(
        any(_keeps(frame, target, missing) for target in n.targets)
        and (n.value is node or (isinstance(n.value, ast.Name) and n.value.id in named))
        for n in assigned
    )


def _fills_at_once(node: ast.AST) -> bool:
    """``cache.update(...)``, ``cache |= ...``: stores that are not looked at entry by entry."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.BitOr)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update"


def _keeps(frame: Frame, target: ast.expr, missing: set[str]) -> bool:
    if isinstance(target, ast.Subscript):
        return expressions.dotted_key(target.value) in missing
    return isinstance(target, ast.Attribute) and is_first_use(frame)


def alias(test: ast.expr, wanted: bool) -> frozenset[str]:
    """``ALIAS`` where ``test`` has the truth ``wanted`` for buffers at one address alone."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as operator], comparators=[right]):
            same = isinstance(operator, ast.Eq) == wanted
            return frozenset((ALIAS,)) if same and _is_address(left) and _is_address(right) else frozenset()
        case _:
            return frozenset()


def _is_address(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "data_ptr"
    return isinstance(node, ast.Attribute) and node.attr == "ptr"


def doubt(mode: frozenset[Any], hazard: str) -> str:
    """Why a hazard of the code at hand is only possible, or nothing. What is made on first use speaks of itself."""
    if SETTLED in mode and hazard not in _FIRST_USE:
        return "it stands behind a guard that lets it run once, so that an eager run before the capture settles it"
    if ALIAS in mode:
        return "it runs only where two buffers share their storage"
    return ""


def following(frame: Frame, node: ast.If) -> list[ast.stmt]:
    """The statements after ``node`` in its block: what an early return guards."""
    machine, function = frame.machine, frame.function
    if function is None or isinstance(function.node, ast.Lambda):
        return []
    key = ("once-blocks", function)
    blocks: dict[ast.stmt, tuple[list[ast.stmt], int]] | None = machine.memo.get(key)
    if blocks is None:
        blocks = {}
        for inner in walk(function.node):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(inner, name, None)
                if isinstance(block, list):
                    blocks.update({statement: (block, i) for i, statement in enumerate(block)})
        machine.memo[key] = blocks
    block, place = blocks.get(node, ([], 0))
    return block[place + 1 :]


# -- what a test asks ----------------------------------------------------------------------------------------


def _alternatives(frame: Frame, test: ast.expr, wanted: bool, depth: int) -> list[Alternative]:
    """Sets of guards that a test with this truth stands for; any one of them makes what follows run once."""
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return _alternatives(frame, test.operand, not wanted, depth)
        case ast.BoolOp():
            parts = [_alternatives(frame, operand, wanted, depth) for operand in test.values]
            if isinstance(test.op, ast.And) == wanted:
                return [alternative for part in parts for alternative in part][:_MOST]
            found: list[Alternative] = [()]
            for part in parts:
                found = [(*one, *other) for one in found for other in part][:_MOST]
            return found
        case ast.Compare(ops=[operator], comparators=[right]):
            return [(guard,) for guard in _compared(frame, test.left, operator, right, wanted)]
        case ast.NamedExpr():
            return _alternatives(frame, test.value, wanted, depth)
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return _alternatives(frame, inner, wanted, depth)
        case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str() as name)]):
            return [(Guard(owner, name, _ABSENT),)] if not wanted else []
        case (
            ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name))
            | ast.Attribute(value=ast.Name(id="self"), attr=name)
        ) if depth and (answer := _answer(frame, name)) is not None:
            return _alternatives(frame, answer, wanted, depth - 1)
        case _:
            named = _attribute(frame, test)
            return [(Guard(*named, _FLAG, wanted),)] if named is not None else []


def _answer(frame: Frame, name: str) -> ast.expr | None:
    """What a method or property of one statement returns: ``if not self.is_ready():`` asks just that."""
    cls = frame.function.cls if frame.function is not None else None
    method = frame.machine.names.method(cls, name) if cls is not None else None
    if method is None or isinstance(method.node, ast.Lambda):
        return None
    body = [s for s in method.node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None


_EQUALITIES = (ast.Eq, ast.NotEq)
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def _compared(frame: Frame, left: ast.expr, operator: ast.cmpop, right: ast.expr, wanted: bool) -> Iterator[Guard]:
    if isinstance(right, ast.Constant) and (right.value is None or isinstance(right.value, bool)):
        named = _attribute(frame, left)
        positive = isinstance(operator, (ast.Is, ast.Eq)) == wanted
        if named is not None and isinstance(operator, (ast.Is, ast.IsNot, *_EQUALITIES)):
            if right.value is not None:
                yield Guard(*named, _FLAG, right.value == positive)
            elif positive:
                yield Guard(*named, _ABSENT)
        return
    if isinstance(operator, (ast.In, ast.NotIn)):
        named = _attribute(frame, right)
        if named is not None and isinstance(operator, ast.NotIn) == wanted:
            yield Guard(*named, _ABSENT)
        return
    if isinstance(operator, _ORDERS) or (
        isinstance(operator, _EQUALITIES) and isinstance(operator, ast.NotEq) == wanted
    ):
        for side, other in ((left, right), (right, left)):
            if (measured := _measured(frame, side)) is not None and not _is_tensor(frame, side):
                yield Guard(*measured, _FIXED if _is_fixed(frame, other) else _SIZE)


def _is_tensor(frame: Frame, node: ast.expr) -> bool:
    """Whether a comparison asks for device data, not for a size."""
    return any(isinstance(atom, Tensor) for atom in expressions.quietly(frame, node))


def _attribute(frame: Frame, node: ast.expr) -> tuple[ast.expr, str] | None:
    """The owner and name of an attribute, also of one that was read by ``getattr`` or into a local name."""
    match node:
        case ast.Name():
            origin = frame.stories.get(node.id)
            return _attribute(frame, origin) if isinstance(origin, (ast.Attribute, ast.Call)) else None
        case ast.Attribute():
            return node.value, node.attr
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str() as name), *_]):
            return owner, name
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Name(id=name), *_]):
            return owner, _COMPUTED + name
        case ast.Call(func=ast.Attribute(attr="get", value=ast.Attribute() as container)):
            return container.value, container.attr
        case _:
            return None


_COMPUTED = "*"
"""Begins the name of an attribute that a variable holds: ``getattr(self, name)`` is ``*name``."""
_MEASURES = ("shape", "size", "capacity", "nbytes", "numel", "dim", "__len__", "device", "dtype")


def _measured(frame: Frame, node: ast.expr) -> tuple[ast.expr, str] | None:
    """The attribute whose size an expression is: ``self.x.shape[0]``, ``len(self.x)``, or a remembered size."""
    match node:
        case ast.Name():
            origin = frame.stories.get(node.id)
            return _measured(frame, origin) if isinstance(origin, (ast.Attribute, ast.Call, ast.Subscript)) else None
        case ast.Subscript():
            return _measured(frame, node.value)
        case ast.Tuple(elts=[first, *rest]):
            measured = _measured(frame, first) if isinstance(first, ast.Subscript) else None
            return measured if all(isinstance(part, ast.Subscript) for part in rest) else None
        case ast.Call(func=ast.Name(id="len" | "int" | "tuple"), args=[inner]):
            return _measured(frame, inner)
        case ast.Call(func=ast.Attribute(attr=name, value=inner)) if name in _MEASURES:
            return _attribute(frame, inner)
        case ast.Attribute(attr=name, value=inner) if name in _MEASURES and not _is_self(inner):
            return _attribute(frame, inner)
        case ast.Attribute():
            return _attribute(frame, node)
        case _:
            return None


def _is_fixed(frame: Frame, node: ast.expr) -> bool:
    """Whether a size is a constant or kept by the object itself: set-up knows it as well as any tick."""
    if isinstance(node, ast.Name):
        origin = frame.stories.get(node.id)
        return isinstance(origin, ast.Attribute) and _is_fixed(frame, origin)
    return isinstance(node, ast.Constant) or dotted_text(node).startswith("self.")


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


# -- what settles it, and what arms it again ------------------------------------------------------------------


def _settles(
    machine: Machine, function: FunctionInfo, body: Iterable[ast.AST], guard: Guard, depth: int = _DEEPEST
) -> bool:
    """Whether the guarded code binds the attribute, itself or in what it calls."""
    called: list[ast.Call] = []
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.Call):
                called.append(node)
            if _binds(node, guard):
                return True
    if depth == 0:
        return False
    for callee in dict.fromkeys(f for call in called for f in callees(machine, function, call)):
        key = ("once-settles", callee, guard.name, guard.kind, guard.armed)
        if key not in machine.memo:
            machine.memo[key] = False
            below = callee.node.body if isinstance(callee.node.body, list) else [callee.node.body]
            machine.memo[key] = _settles(machine, callee, below, guard, depth - 1)
        if machine.memo[key]:
            return True
    return False


def _always_settles(
    machine: Machine, function: FunctionInfo, body: list[ast.stmt], guard: Guard, depth: int = _DEEPEST
) -> bool:
    """Whether every way through the guarded code that raises nothing binds the attribute."""
    for statement in body:
        match statement:
            case ast.If():
                branches = [
                    _always_settles(machine, function, b, guard, depth) for b in (statement.body, statement.orelse)
                ]
                if all(branches) or (branches[0] and _asks_again(statement.test, guard)):
                    return True
            case ast.With() | ast.Try():
                if _always_settles(machine, function, statement.body, guard, depth):
                    return True
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr() | ast.Return() | ast.For():
                if isinstance(statement, ast.For) and guard.kind != _ABSENT:
                    pass  # a loop may run no round
                elif _settles(machine, function, (statement,), guard, 0) or (
                    depth
                    and any(
                        isinstance(callee.node.body, list)
                        and _always_settles(machine, callee, callee.node.body, guard, depth - 1)
                        for call in walk(statement)
                        if isinstance(call, ast.Call)
                        for callee in callees(machine, function, call)
                    )
                ):
                    return True
        if _returns(statement):
            return False
    return False


def _asks_again(test: ast.expr, guard: Guard) -> bool:
    """Whether a test asks whether the attribute is still missing."""
    place = f"{ast.unparse(guard.owner)}.{guard.name}"
    return guard.kind == _ABSENT and ast.unparse(test) in (f"{place} is None", f"not {place}")


def is_filled_by_setup(machine: Machine, cell: Cell) -> bool:
    """Whether the constructor, after it has bound a name to ``None``, binds it to something on every way through it."""
    owner = cell.owner
    if not isinstance(owner, Instance):
        return False
    key = ("filled-by-setup", owner.cls, cell.name)
    known: bool | None = machine.memo.get(key)
    if known is None:
        init = machine.names.method(owner.cls, "__init__")
        body = init.node.body if init is not None and isinstance(init.node.body, list) else []
        guard = Guard(ast.Name("self"), cell.name, _ABSENT)
        empty = [n for n, statement in enumerate(body) if any(_arms(node, guard) for node in walk(statement))]
        rest = body[empty[-1] + 1 :] if empty else []
        filled = init is not None and _always_settles(machine, init, rest, guard)
        known = machine.memo[key] = filled and not _rearmed_by_method(machine, owner.cls, guard)
    return known


def _returns(statement: ast.AST) -> bool:
    """Whether a statement may leave the function that it stands in."""
    if isinstance(statement, ast.Return):
        return True
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
        return False
    return any(_returns(inner) for inner in ast.iter_child_nodes(statement))


def callees(machine: Machine, function: FunctionInfo, call: ast.Call) -> list[FunctionInfo]:
    """The functions of the program that a call may run, by the text alone."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if function.cls is not None:
            method = machine.names.method(function.cls, name)
            return [method] if method is not None else []
        case ast.Attribute(attr=name):
            symbol = machine.names.expression(function.module, call.func)
            if isinstance(symbol, FunctionInfo):
                return [symbol]
            methods = machine.program.methods_named(name)
            return methods if len(methods) <= _MOST else []
        case ast.Name():
            symbol = machine.names.lookup(function.module, call.func.id)
            return [symbol] if isinstance(symbol, FunctionInfo) else []
        case _:
            return []


def _binds(node: ast.AST, guard: Guard) -> bool:
    """Whether a node gives the attribute a value for which the guard no longer holds."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return any(_stores(target, guard) for target in targets) and _disarms(value, guard)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            return _stores(target, guard) and _disarms(value, guard)
        case ast.NamedExpr(target=target, value=value):
            return _stores(target, guard) and _disarms(value, guard)
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=name), value]):
            return name == guard.name and _disarms(value, guard)
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Name(id=name), value]):
            return _COMPUTED + name == guard.name and _disarms(value, guard)
        case ast.Call(func=ast.Attribute(attr=method, value=ast.Attribute(attr=name))):
            return guard.kind == _ABSENT and name == guard.name and method in ("setdefault", "update", "add")
        case _:
            return False


def _stores(target: ast.expr, guard: Guard) -> bool:
    match target:
        case ast.Attribute(attr=name):
            return name == guard.name
        case ast.Subscript(value=ast.Attribute(attr=name)):
            return guard.kind == _ABSENT and name == guard.name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(_stores(part, guard) for part in parts)
        case _:
            return False


def _disarms(value: ast.expr, guard: Guard) -> bool:
    if not isinstance(value, ast.Constant):
        return guard.kind != _FLAG or not guard.armed
    if guard.kind == _FLAG:
        return bool(value.value) != guard.armed
    return value.value is not None


def _armed_again(frame: Frame, guard: Guard) -> bool:
    """Whether a tick, or a method that is no set-up, gives the attribute a value for which the guard holds."""
    machine = frame.machine
    owners = expressions.quietly(frame, guard.owner)
    for atom in owners:
        if not isinstance(atom, Instance):
            continue
        cell = machine.existing_cell(atom, guard.name)
        if cell is not None:
            value = machine.read_cell(cell, frame.context)
            if cell.varies or operators.taint_of(value) is not None:
                return True
            if guard.kind in (_ABSENT, _FLAG) and None in cell.constants:
                return True
        if guard.kind in (_ABSENT, _FLAG) and _rearmed_by_method(machine, atom.cls, guard):
            return True
    return False


def _rearmed_by_method(machine: Machine, cls: ClassInfo, guard: Guard) -> bool:
    from capaudit.audit import late

    key = ("once-rearmed", cls, guard.name, guard.kind, guard.armed)
    known: bool | None = machine.memo.get(key)
    if known is None:
        methods = {
            method: None
            for owner in (*machine.names.mro(cls), *machine.names.subclasses(cls))
            for method in machine.names.stores_of(owner).get(guard.name, ())
            if method.name not in _SETUP and not late.is_part_of_setup(machine, method)
        }
        known = any(_arms(node, guard) for method in methods for node in walk(method.node))
        machine.memo[key] = known
    return known


def _arms(node: ast.AST, guard: Guard) -> bool:
    match node:
        case ast.Assign(targets=targets, value=value):
            stored = any(isinstance(t, ast.Attribute) and t.attr == guard.name for t in targets)
        case ast.AnnAssign(target=ast.Attribute(attr=name), value=value) if value is not None:
            stored = name == guard.name
        case ast.AugAssign(target=ast.Attribute(attr=name)):
            return name == guard.name and guard.kind == _FLAG
        case ast.Delete(targets=targets):
            return any(isinstance(t, ast.Attribute) and t.attr == guard.name for t in targets)
        case _:
            return False
    if not stored:
        return False
    if isinstance(value, ast.Constant):
        return bool(value.value) == guard.armed if guard.kind == _FLAG else value.value is None
    return guard.kind == _FLAG and guard.armed


def refuses_capture(test: ast.expr) -> bool:
    """Whether a test that leads to an exception asks if a stream is capturing."""
    return any("capturing" in dotted_text(node) for node in walk(test) if isinstance(node, (ast.Attribute, ast.Name)))
