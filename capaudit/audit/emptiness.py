"""Selections that a test has shown to hold something: behind ``if not mask.any(): return``, ``mask.nonzero()`` does.

The test itself is a branch on device data and is reported where it stands. What asks again further on, there
or in what is called, whether the selection is empty always gets the same answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from capaudit.audit import once
from capaudit.audit.values import FILLED, Host
from capaudit.program import FunctionInfo, walk

if TYPE_CHECKING:
    from capaudit.audit.machine import Machine

_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_DEEPEST = 3
_VALUE_WRAPPERS = ("item", "cpu", "tolist", "bool")


def is_filled(function: FunctionInfo | None, node: ast.AST, subject: ast.expr) -> bool:
    """Whether a test around or before ``node`` has shown that ``subject`` holds a true element."""
    if function is None or not isinstance(subject, (ast.Name, ast.Attribute)):
        return False
    body = function.node.body
    return isinstance(body, list) and bool(_known(body, node, ast.unparse(subject), False))


def size_taint(filled: bool) -> tuple[str, str, None]:
    """The taint of a size that depends on device data."""
    return ("dynamic", FILLED if filled else "", None)


def open_taint(taint: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """The taint of what is computed from a size: whether that is 0 is open again."""
    return size_taint(False) if taint == size_taint(True) else taint


def is_positive(atom: object) -> bool:
    """Whether a host number is known not to be 0: the size of what holds something, or what counts or tests it."""
    return isinstance(atom, Host) and atom.type_name in ("int", "bool", "float") and atom.taint == size_taint(True)


def sized(test: ast.expr) -> tuple[ast.expr, bool] | None:
    """What a test asks the size of, and the truth of the test under which that is not empty."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.LtE()], comparators=[ast.Constant(value=0)]):
            subject, truth = _measured(left), False
        case ast.Compare(left=left, ops=[ast.NotEq() | ast.Gt()], comparators=[ast.Constant(value=0)]):
            subject, truth = _measured(left), True
        case _:
            subject, truth = _measured(test), True
    return None if subject is None else (subject, truth)


def _measured(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[subject]):
            return subject
        case ast.Call(func=ast.Attribute(value=subject, attr="numel"), args=[]):
            return subject
        case ast.Call(func=ast.Attribute(value=subject, attr="size"), args=[ast.Constant(value=0)]):
            return subject
        case ast.Subscript(value=ast.Attribute(value=subject, attr="shape"), slice=ast.Constant(value=0)):
            return subject
        case _:
            return None


def asked(
    machine: Machine, function: FunctionInfo, test: ast.expr, depth: int = _DEEPEST
) -> tuple[ast.expr, bool] | None:
    """What a test asks for a true element, itself or through what it calls, and the truth that tells of one."""
    test = _unwrapped(test)
    subject = _any_of(test)
    if subject is not None:
        return subject, True
    match test:
        case ast.Compare(left=left, ops=[operator], comparators=[ast.Constant(value=0)]):
            counted = _counted(left)
            return None if counted is None or type(operator) not in _NONE else (counted, _NONE[type(operator)])
        case ast.Call(args=[ast.Name() | ast.Attribute() as given], keywords=[]) if depth:
            truths = {_answers(machine, callee, depth - 1) for callee in once.callees(machine, function, test)}
            truth = truths.pop() if len(truths) == 1 else None
            return None if truth is None else (given, truth)
        case _:
            return None


_NONE: dict[type[ast.cmpop], bool] = {ast.Eq: False, ast.LtE: False, ast.NotEq: True, ast.Gt: True}


def _counted(node: ast.expr) -> ast.expr | None:
    """What ``node`` is the number of true elements of."""
    match node:
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return _counted(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="sum" | "count_nonzero"), args=[], keywords=[]):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[]) if name in _VALUE_WRAPPERS:
            return _counted(inner)
        case _:
            return None


def _answers(machine: Machine, function: FunctionInfo, depth: int) -> bool | None:
    """The answer by which a function says that its only argument holds a true element."""
    spec, body = function.node.args, function.node.body
    names = [p.arg for p in (*spec.posonlyargs, *spec.args)][function.cls is not None :]
    if not isinstance(body, list) or len(names) != 1 or not isinstance(body[-1], ast.Return) or body[-1].value is None:
        return None
    flips, answer = 0, body[-1].value
    while isinstance(answer, ast.UnaryOp) and isinstance(answer.op, ast.Not):
        flips, answer = flips + 1, answer.operand
    if (
        isinstance(answer, ast.Call)
        and not answer.keywords
        and [ast.unparse(a) for a in answer.args] == names
        and depth
    ):
        truths = {_answers(machine, callee, depth - 1) for callee in once.callees(machine, function, answer)}
        found = truths.pop() if len(truths) == 1 else None
    else:
        told = asked(machine, function, _spelled_out(body[:-1], answer), depth)
        found = told[1] if told is not None and ast.unparse(told[0]) == names[0] else None
    return found if found is None else found != bool(flips % 2)


def _spelled_out(body: list[ast.stmt], answer: ast.expr) -> ast.expr:
    """An answer that asks a scratch tensor, asked of what the function has copied into it."""
    for statement in reversed(body):
        match statement:
            case ast.Expr(ast.Call(func=ast.Attribute(value=scratch, attr="copy_"), args=[source, *_])):
                text, wanted = ast.unparse(answer), ast.unparse(scratch)
                if f"{wanted}.item()" in text:
                    return ast.parse(text.replace(f"{wanted}.item()", ast.unparse(source)), mode="eval").body
            case _:
                pass
    return answer


def _known(body: list[ast.stmt], node: ast.AST, subject: str, known: bool) -> bool | None:
    """What is known where ``node`` stands, which is ``None`` where ``body`` does not hold it."""
    for statement in body:
        if _holds(statement, node):
            if isinstance(statement, ast.If):
                for block, wanted in ((statement.body, True), (statement.orelse, False)):
                    shown = known or _shows(statement.test, subject, wanted)
                    if (inner := _known(block, node, subject, shown)) is not None:
                        return inner
            for block in _blocks(statement):
                if (inner := _known(block, node, subject, known)) is not None:
                    return inner
            return known
        if _binds(statement, subject):
            known = False
        elif isinstance(statement, ast.If) and isinstance(statement.body[-1], _LEAVING) and not statement.orelse:
            known = known or _shows(statement.test, subject, False)
    return None


def _holds(statement: ast.stmt, node: ast.AST) -> bool:
    line = getattr(node, "lineno", 0)
    return statement.lineno <= line <= (statement.end_lineno or 0) and any(inner is node for inner in walk(statement))


def _blocks(statement: ast.stmt) -> Iterable[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list) and not isinstance(statement, (ast.If, ast.FunctionDef, ast.ClassDef)):
            yield block
    for handler in getattr(statement, "handlers", ()):
        yield handler.body


def _shows(test: ast.expr, subject: str, wanted: bool) -> bool:
    """Whether a test with the truth ``wanted`` says that some element of the subject is true."""
    test = _unwrapped(test)
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _shows(inner, subject, not wanted)
        case ast.BoolOp(op=ast.And() | ast.Or() as operator, values=values):
            return isinstance(operator, ast.And) == wanted and any(_shows(value, subject, wanted) for value in values)
        case _:
            found = _any_of(test)
            return wanted and found is not None and ast.unparse(found) == subject


def _unwrapped(test: ast.expr) -> ast.expr:
    """A test without what only fetches its answer: ``bool(...)``, ``.item()``."""
    match test:
        case ast.Call(func=ast.Name(id="bool" | "int"), args=[inner]):
            return _unwrapped(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[]) if name in _VALUE_WRAPPERS:
            return _unwrapped(inner)
        case _:
            return test


def _any_of(test: ast.expr) -> ast.expr | None:
    """What ``test`` asks whether any element of it is true."""
    match test:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="any"), args=[inner]):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="any"), args=[], keywords=[]):
            return inner
        case _:
            return None


def _binds(statement: ast.stmt, subject: str) -> bool:
    """Whether a statement binds or changes the subject."""
    for node in walk(statement):
        match node:
            case ast.Name(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                place = node.value if isinstance(node, ast.Subscript) else node
                if ast.unparse(place) == subject:
                    return True
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name.endswith("_"):
                if ast.unparse(inner) == subject:
                    return True
            case _:
                pass
    return False
