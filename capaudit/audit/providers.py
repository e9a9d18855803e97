"""Implementations that the boundary's own constructor refuses.

``if not self.backend.capabilities().resets: raise`` in the constructor says that no object of the class ever
holds a backend without that capability: what such backends override never runs in the boundary.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from capaudit.audit import guards
from capaudit.audit.names import Names
from capaudit.program import ClassInfo, FunctionInfo, walk
from capaudit.program.index import absolute_source
from capaudit.program.symbols import dotted_text

_DEEPEST = 2


def refused(names: Names, cls: ClassInfo | None) -> frozenset[ClassInfo]:
    """Subclasses of what a class keeps in its attributes that its constructor turns down with an exception."""
    found: dict[ClassInfo, None] = {}
    for owner in names.mro(cls) if cls is not None else ():
        init = owner.methods.get("__init__")
        for attribute, steps in _demands(init) if init is not None else ():
            base = _declared(names, names.mro(cls), attribute) if cls is not None else None
            for sub in names.subclasses(base) if base is not None else ():
                if _answer(names, sub, steps) is False:
                    found[sub] = None
    accepted = [sub for sub in found if all(deeper in found for deeper in names.subclasses(sub))]
    return frozenset(accepted)


def _demands(init: FunctionInfo) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What the constructor asks of an attribute: ``backend`` and the steps ``capabilities``, ``resets``."""
    known: dict[str, tuple[str, tuple[str, ...]]] = {}
    for statement in _plain_statements(init.node.body if isinstance(init.node.body, list) else []):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                place = _place(value, known)
                if place is None:
                    known.pop(name, None)
                else:
                    known[name] = place
            case ast.If(test=test, body=body) if guards.always_raises(body):
                yield from _needed(test, True, known)


def _plain_statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that every construction runs."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.With, ast.Try)):
            yield from _plain_statements(statement.body)


def _needed(
    test: ast.expr, refusing: bool, known: dict[str, tuple[str, tuple[str, ...]]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What has to be true so that a test does not have the truth ``refusing``."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield from _needed(inner, not refusing, known)
        case ast.BoolOp(op=operator, values=values) if isinstance(operator, ast.Or) == refusing:
            for value in values:
                yield from _needed(value, refusing, known)
        case _ if not refusing:
            place = _place(test, known)
            if place is not None and place[1]:
                yield place


def _place(node: ast.expr, known: dict[str, tuple[str, tuple[str, ...]]]) -> tuple[str, tuple[str, ...]] | None:
    match node:
        case ast.Name(id=name):
            return known.get(name)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name, ()
        case ast.Attribute(value=inner, attr=name):
            place = _place(inner, known)
        case ast.Call(func=ast.Attribute() as method, args=[], keywords=[]):
            return _place(method, known)
        case ast.Call(func=ast.Name(id="getattr"), args=[inner, ast.Constant(value=str() as name), *_]):
            place = _place(inner, known)
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return _place(inner, known)
        case _:
            return None
    return (place[0], (*place[1], name)) if place is not None else None


def _declared(names: Names, mro: Iterable[ClassInfo], attribute: str) -> ClassInfo | None:
    """The class of the program that an attribute is annotated with, itself or through a constructor's parameter."""
    for owner in mro:
        if attribute in owner.annotations:
            return _class(names, owner, owner.annotations[attribute])
        for method in names.stores_of(owner).get(attribute, ()):
            for node in walk(method.node):
                if isinstance(node, ast.AnnAssign) and dotted_text(node.target) == f"self.{attribute}":
                    return _class(names, owner, node.annotation)
                if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Name):
                    continue
                if any(dotted_text(target) == f"self.{attribute}" for target in node.targets):
                    spec = method.node.args
                    for parameter in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
                        if parameter.arg == node.value.id and parameter.annotation is not None:
                            return _class(names, owner, parameter.annotation)
    return None


def _class(names: Names, owner: ClassInfo, annotation: ast.expr) -> ClassInfo | None:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return None
    symbol = names.expression(owner.module, annotation)
    return symbol if isinstance(symbol, ClassInfo) else None


def _answer(names: Names, cls: ClassInfo, steps: tuple[str, ...]) -> bool | None:
    """The truth that a class's own code gives to a demand, where constants decide it."""
    first, rest = steps[0], steps[1:]
    for owner in names.mro(cls):
        if first in owner.methods:
            return _returned(names, owner.methods[first], rest, _DEEPEST)
        if first in owner.values:
            return _truth(owner.values[first], rest)
    return None


def _returned(names: Names, function: FunctionInfo, rest: tuple[str, ...], depth: int) -> bool | None:
    """The truth of what every way through a function returns, or of the fields of it that are asked for."""
    answers = [
        _value(names, function, node.value, rest, depth)
        for node in walk(function.node)
        if isinstance(node, ast.Return) and node.value is not None
    ]
    return answers[0] if answers and len(set(answers)) == 1 else None


def _value(names: Names, function: FunctionInfo, node: ast.expr, rest: tuple[str, ...], depth: int) -> bool | None:
    if not rest:
        return _truth(node, rest)
    if not isinstance(node, ast.Call) or len(rest) > 1:
        return None
    symbol = names.expression(function.module, node.func) or _imported(names, function, node.func)
    if isinstance(symbol, FunctionInfo) and depth:
        return _returned(names, symbol, rest, depth - 1)
    if not isinstance(symbol, ClassInfo) or node.args or any(keyword.arg is None for keyword in node.keywords):
        return None
    for keyword in node.keywords:
        if keyword.arg == rest[0]:
            return _truth(keyword.value, ())
    for owner in names.mro(symbol):
        if rest[0] in owner.methods:
            return None
        if rest[0] in owner.values:
            return _truth(owner.values[rest[0]], ())
    return None


def _truth(node: ast.expr, rest: tuple[str, ...]) -> bool | None:
    return bool(node.value) if not rest and isinstance(node, ast.Constant) else None


def _imported(names: Names, function: FunctionInfo, node: ast.expr) -> object:
    """What a name stands for that the function itself imports."""
    if not isinstance(node, ast.Name):
        return None
    for statement in walk(function.node):
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                if (alias.asname or alias.name) == node.id:
                    source = names.module_or_external(absolute_source(function.module, statement))
                    return names.attribute(source, alias.name)
    return None
