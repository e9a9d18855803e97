"""Arithmetic, comparisons and unary operators over abstract values."""

from __future__ import annotations

import ast
import operator as python_operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from capaudit.audit import builtin_calls, calls, containers, emptiness, hazards
from capaudit.audit.values import (
    NONE,
    NOTHING,
    UNKNOWN,
    Array,
    Atom,
    Box,
    Const,
    Host,
    Instance,
    Items,
    Mapping,
    Record,
    Sequence,
    Tensor,
    Value,
    WarpArray,
    array,
    const,
    host,
    items,
    join,
    like,
    sequence,
    stronger,
    tensor,
    unknown,
    warp_array,
)

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame

_METHODS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
}
_COMPARE_METHODS: dict[type[ast.cmpop], str] = {
    ast.Eq: "__eq__",
    ast.NotEq: "__ne__",
    ast.Lt: "__lt__",
    ast.LtE: "__le__",
    ast.Gt: "__gt__",
    ast.GtE: "__ge__",
}
_NUMBERS = ("int", "float", "bool", "complex")


def binary(frame: Frame, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    """Return ``left op right``; mixed unions combine pairwise."""
    result: Value = NOTHING
    for a in left:
        for b in right:
            result = join(result, _binary_atoms(frame, op, a, b, node))
    return result


def _binary_atoms(frame: Frame, op: ast.operator, a: Atom, b: Atom, node: ast.AST) -> Value:
    if a is NONE or b is NONE:
        return NOTHING
    if isinstance(op, ast.Mod) and _type_name(a) == "str":
        calls.format_value(frame, (b,), node, node if isinstance(node, ast.expr) else None)
        return host("str")
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return _tensor_binary(frame, op, a, b, node)
    if isinstance(a, Instance) or isinstance(b, Instance):
        return _dunder(frame, op, a, b, node)
    if isinstance(a, Array) or isinstance(b, Array):
        return array(None)
    if isinstance(a, WarpArray) or isinstance(b, WarpArray):
        _warp_operator(frame, node)
        return (warp_array(a.device if isinstance(a, WarpArray) else "cuda"),)
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold(op, a, b)
    if isinstance(op, ast.Add) and isinstance(a, Items) and isinstance(b, Items):
        return items((*a.items, *b.items))
    if isinstance(op, (ast.Add, ast.Mult, ast.BitOr, ast.Sub, ast.BitAnd)) and isinstance(
        a, (Items, Sequence, Box, Mapping, Record)
    ):
        if isinstance(op, ast.Add):
            kind = "list" if isinstance(a, Box) else "tuple"
            return sequence(kind, join(_content(frame, a, node), _content(frame, b, node)))
        if isinstance(a, Box) and a.kind == "list":
            return sequence("list", _content(frame, a, node))
        return (a,)
    if isinstance(op, ast.Mult) and isinstance(b, (Items, Sequence, Box)):
        return (b,)
    name_a, name_b = _type_name(a), _type_name(b)
    if name_a and name_b:
        taint = stronger(getattr(a, "taint", None), getattr(b, "taint", None))
        return host(_promote(op, name_a, name_b), emptiness.open_taint(taint))
    return unknown


def _warp_operator(frame: Frame, node: ast.AST) -> None:
    """An operator between Warp arrays makes its result in new memory."""
    from capaudit.audit import conditions

    if frame.flag("conditional-body"):
        hazard, why = (
            "CAP303",
            "an operator between Warp arrays allocates its result, which the body of a conditional node cannot hold",
        )
    elif conditions.capture_kind(frame) == "torch":
        hazard, why = (
            "CAP302",
            "an operator between Warp arrays allocates its result inside a capture that Warp does not know",
        )
    else:
        frame.record(node, "warp.array operator")
        return
    frame.reject(node, hazard, "warp.array operator", why, subject=node if isinstance(node, ast.expr) else None)


def _content(frame: Frame, atom: Atom, node: ast.AST) -> Value:
    from capaudit.audit import expressions

    return expressions.iterate(frame, (atom,), node)


def _type_name(atom: Atom) -> str | None:
    return atom.type_name if isinstance(atom, (Const, Host)) else None


def _promote(op: ast.operator, a: str, b: str) -> str:
    if "any" in (a, b):
        return "any"
    if "str" in (a, b):
        return "str"
    if isinstance(op, ast.Div) or "float" in (a, b):
        return "float"
    if a in _NUMBERS and b in _NUMBERS:
        return "int"
    return a


_FOLDS: dict[type[ast.operator], Any] = {
    ast.Add: python_operator.add,
    ast.Sub: python_operator.sub,
    ast.Mult: python_operator.mul,
    ast.Div: python_operator.truediv,
    ast.FloorDiv: python_operator.floordiv,
    ast.Mod: python_operator.mod,
}


def _fold(op: ast.operator, a: Const, b: Const) -> Value:
    fold = _FOLDS.get(type(op))
    small = all(not isinstance(c.value, (str, bytes)) or len(c.value) < 200 for c in (a, b))
    if fold is not None and small and a.type_name in (*_NUMBERS, "str") and b.type_name in (*_NUMBERS, "str"):
        try:
            value = fold(a.value, b.value)
        except (TypeError, ValueError, ArithmeticError):
            return host("any")
        if isinstance(value, (int, float)) and abs(value) < 2**53:
            return const(value)
        if isinstance(value, str) and len(value) < 200:
            return const(value)
    return host(_promote(op, a.type_name, b.type_name))


def _tensor_binary(frame: Frame, op: ast.operator, a: Atom, b: Atom, node: ast.AST) -> Value:
    tensors = [x for x in (a, b) if isinstance(x, Tensor)]
    for other in (a, b):
        hazards.frozen_operand(frame, other, node)
    if any(isinstance(x, Array) for x in (a, b)) and any(t.device == "cuda" for t in tensors):
        return unknown
    result = combine_tensors(tensors)
    float_operand = any(_type_name(x) == "float" for x in (a, b))
    if isinstance(op, ast.Div) or (float_operand and result.element in ("int", "bool")):
        result = like(result, element="float")
    elif result.element == "bool" and not isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor)):
        result = like(result, element="int")
    elif result.element == "int" and any(t.element is None for t in tensors):
        result = like(result, element=None)
    note_device_work(frame, result, f"torch.Tensor.__{_METHODS.get(type(op), 'op')}__", node)
    if isinstance(op, ast.MatMult):
        result = like(result, rank=None)
    return (result,)


def note_device_work(frame: Frame, result: Tensor, name: str, node: ast.AST) -> None:
    if result.device == "cuda":
        frame.record(node, name)
        frame.device_work(node)


def combine_tensors(tensors: list[Tensor]) -> Tensor:
    """Return the fresh tensor that elementwise work on ``tensors`` gives."""
    device = "cuda" if any(t.device == "cuda" for t in tensors) else "cpu"
    on_device = [t for t in tensors if t.device == device]
    elements = {t.element for t in tensors}
    element: str | None
    if None in elements:
        element = None
    elif "float" in elements:
        element = "float"
    elif "int" in elements:
        element = "int"
    else:
        element = "bool"
    ranks = [t.rank for t in tensors]
    rank = None if None in ranks else max(r for r in ranks if r is not None)
    return tensor(
        device,
        sure=any(t.sure for t in on_device),
        element=element,
        rank=rank,
        dynamic=any(t.dynamic for t in tensors),
    )


def _dunder(frame: Frame, op: ast.operator, a: Atom, b: Atom, node: ast.AST) -> Value:
    name = _METHODS.get(type(op), "")
    if isinstance(a, Instance):
        found = calls.call_dunder(frame, a, f"__{name}__", [(b,)], node)
        if found is not None:
            return found
    if isinstance(b, Instance):
        found = calls.call_dunder(frame, b, f"__r{name}__", [(a,)], node)
        if found is not None:
            return found
    return unknown


def compare(frame: Frame, op: ast.cmpop, left: Value, right: Value, node: ast.Compare) -> Value:
    """Return ``left op right``, recording membership tests on device values."""
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(op, left, right)
    if isinstance(op, (ast.In, ast.NotIn)):
        return builtin_calls.contains(frame, left, right, node)
    result: Value = NOTHING
    for a in left:
        for b in right:
            result = join(result, _compare_atoms(frame, op, a, b, node))
    return result


def _identity(op: ast.cmpop, left: Value, right: Value) -> Value:
    if not left or not right:
        return NOTHING
    if right == (NONE,):
        maybe_none = any(atom is NONE or atom is UNKNOWN or _may_be_none(atom) for atom in left)
        only_none = all(atom is NONE for atom in left)
        if only_none:
            return const(isinstance(op, ast.Is))
        if not maybe_none:
            return const(isinstance(op, ast.IsNot))
    return host("bool")


def _may_be_none(atom: Atom) -> bool:
    return isinstance(atom, Host) and atom.type_name == "any"


def _compare_atoms(frame: Frame, op: ast.cmpop, a: Atom, b: Atom, node: ast.Compare) -> Value:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        other = b if isinstance(a, Tensor) else a
        if isinstance(op, (ast.Eq, ast.NotEq)) and not _comparable(other):
            return const(isinstance(op, ast.NotEq))  # torch declines, and Python compares identities
        tensors = [x for x in (a, b) if isinstance(x, Tensor)]
        for other in (a, b):
            hazards.frozen_operand(frame, other, node)
        result = like(combine_tensors(tensors), element="bool")
        note_device_work(frame, result, f"torch.Tensor.{_COMPARE_METHODS.get(type(op), '')}", node)
        return (result,)
    if isinstance(a, Instance):
        found = calls.call_dunder(frame, a, _COMPARE_METHODS.get(type(op), ""), [(b,)], node)
        if found is not None:
            return found
        return host("bool")
    if isinstance(a, _HOLDERS) and isinstance(b, _HOLDERS):
        held = containers.held(frame, a, node), containers.held(frame, b, node)
        hazards.compared(frame, *held, node, "comparing containers compares their elements")
        return host("bool", emptiness.open_taint(stronger(taint_of((a,)), taint_of((b,)))))
    if isinstance(a, Array) or isinstance(b, Array):
        return array("bool")
    if isinstance(a, WarpArray) or isinstance(b, WarpArray):
        return host("bool")
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold_compare(op, a, b)
    if emptiness.is_positive(a) and isinstance(b, Const) and b.value == 0:
        return const(isinstance(op, (ast.NotEq, ast.Gt, ast.GtE)))
    taint = stronger(taint_of((a,)), taint_of((b,)))
    if a is UNKNOWN or b is UNKNOWN:
        return unknown
    return host("bool", emptiness.open_taint(taint))


_HOLDERS = (Items, Sequence, Box, Mapping, Record)


def _comparable(atom: Atom) -> bool:
    """Whether comparing a tensor with this compares values."""
    if isinstance(atom, (Const, Host)):
        return atom is not NONE and atom.type_name in (*_NUMBERS, "any")
    return isinstance(atom, (Tensor, Array)) or atom is UNKNOWN


def _fold_compare(op: ast.cmpop, a: Const, b: Const) -> Value:
    match op:
        case ast.Eq():
            return const(a.value == b.value)
        case ast.NotEq():
            return const(a.value != b.value)
    table = {
        ast.Lt: python_operator.lt,
        ast.LtE: python_operator.le,
        ast.Gt: python_operator.gt,
        ast.GtE: python_operator.ge,
    }
    try:
        return const(bool(table[type(op)](a.value, b.value)))
    except (TypeError, KeyError):
        return host("bool")


_SIGNS: dict[type[ast.unaryop], Callable[[Any], object]] = {
    ast.USub: python_operator.neg,
    ast.UAdd: python_operator.pos,
    ast.Invert: python_operator.invert,
}


def unary(frame: Frame, op: ast.unaryop, value: Value, node: ast.AST) -> Value:
    result: Value = NOTHING
    for atom in value:
        if isinstance(atom, Tensor):
            note_device_work(frame, atom, "torch.Tensor.__neg__", node)
            result = join(result, (like(atom, storage="fresh"),))
        elif isinstance(atom, Const) and atom.type_name in _NUMBERS:
            try:
                result = join(result, const(_SIGNS[type(op)](atom.value)))
            except TypeError:
                result = join(result, host("any"))
        elif isinstance(atom, (Host, Array, WarpArray)):
            result = join(result, (atom,))
        elif isinstance(atom, Instance):
            name = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}[type(op)]
            found = calls.call_dunder(frame, atom, name, [], node)
            result = join(result, found if found is not None else unknown)
        elif atom is not NONE:
            result = join(result, unknown)
    return result


def taint_of(value: Value) -> tuple[Any, ...] | None:
    """The strongest taint among host alternatives, lengths of sequences included."""
    taint: tuple[Any, ...] | None = None
    for atom in value:
        if isinstance(atom, (Host, Sequence)):
            taint = stronger(taint, atom.taint)
        elif isinstance(atom, Items):
            for item in atom.items:
                taint = stronger(taint, taint_of(item))
    return taint


def length_taint(value: Value) -> tuple[Any, ...] | None:
    """The taint of how many items ``value`` has."""
    taint: tuple[Any, ...] | None = None
    for atom in value:
        if isinstance(atom, Sequence):
            taint = stronger(taint, atom.taint)
        elif isinstance(atom, Tensor) and atom.dynamic:
            taint = stronger(taint, ("dynamic", "", None))
    return taint


def with_taint(value: Value, taint: tuple[Any, ...]) -> Value:
    """Return ``value`` with its host alternatives tainted."""
    result: Value = NOTHING
    for atom in value:
        if isinstance(atom, (Const, Host)) and atom.type_name in (*_NUMBERS, "any", "str"):
            own = atom.taint if isinstance(atom, Host) else None
            result = join(result, host(atom.type_name, stronger(own, taint)))
        else:
            result = join(result, (atom,))
    return result
