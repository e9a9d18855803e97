"""Selections that a test has shown to hold something: behind ``if not mask.any(): return``, ``mask.nonzero()`` does.

The test itself is a branch on device data and is reported where it stands. What asks again further on, there
or in what is called, whether the selection is empty always gets the same answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from capaudit.audit.values import FILLED, Host
from capaudit.program import FunctionInfo, walk

_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
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


def is_positive(atom: object) -> bool:
    """Whether a host number is a size that is known not to be 0."""
    return isinstance(atom, Host) and atom.type_name == "int" and atom.taint == size_taint(True)


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
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _shows(inner, subject, not wanted)
        case ast.Call(func=ast.Name(id="bool" | "int"), args=[inner]):
            return _shows(inner, subject, wanted)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="any"), args=[inner]):
            return wanted and ast.unparse(inner) == subject
        case ast.Call(func=ast.Attribute(value=inner, attr="any"), args=[], keywords=[]):
            return wanted and ast.unparse(inner) == subject
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[]) if name in _VALUE_WRAPPERS:
            return _shows(inner, subject, wanted)
        case ast.BoolOp(op=ast.And() | ast.Or() as operator, values=values):
            return isinstance(operator, ast.And) == wanted and any(_shows(value, subject, wanted) for value in values)
        case _:
            return False


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
