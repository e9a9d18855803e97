"""Joint axes taken for actuator axes, and joint data that is stored without its names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from capaudit.audit.order_rules.support import Hit, SourceFile, axis_of, last_part, text, words
from capaudit.model import Confidence
from capaudit.program import Program
from capaudit.program.symbols import dotted_text

# -- ORD012 -------------------------------------------------------------------------------------------------------


def joint_axis_as_actuator_axis(file: SourceFile, program: Program) -> Iterator[Hit]:
    """Joint arrays and actuator arrays are paired by position."""
    for call in file.all(ast.Call):
        if last_part(call.func) != "zip" or len(call.args) < 2:
            continue
        axes = {axis: argument for argument in call.args if (axis := axis_of(last_part(_bare(argument)))) is not None}
        if "joint" in axes and "actuator" in axes:
            yield Hit(
                call,
                f"{text(axes['joint'])} and {text(axes['actuator'])} are paired by position, and actuators have an "
                "order of their own",
            )
    for assign in file.all(ast.Assign):
        target = assign.targets[0]
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
            value = _bare(assign.value)
            whole = target.slice.lower is None and target.slice.upper is None
            if whole and last_part(target) == "ctrl" and axis_of(last_part(value)) == "joint":
                yield Hit(assign, f"{text(target)} takes {text(value)} by position", Confidence.POSSIBLE)


def _bare(node: ast.expr) -> ast.expr:
    """What a value is of: ``x`` for ``x[7:]``, ``x.tolist()``, ``list(x)``; an index that is no slice may be a map."""
    while True:
        if isinstance(node, ast.Subscript):
            if not isinstance(node.slice, (ast.Slice, ast.Tuple, ast.Constant)):
                return node.slice
            node = node.value
        elif (
            isinstance(node, ast.Call)
            and last_part(node.func) in ("list", "tuple", "enumerate", "asarray")
            and node.args
        ):
            node = node.args[0]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("tolist", "numpy", "cpu", "copy", "clone", "detach", "flatten")
        ):
            node = node.func.value
        else:
            return node


# -- ORD016 -------------------------------------------------------------------------------------------------------


def nameless_joint_data(file: SourceFile, program: Program) -> Iterator[Hit]:
    """``np.savez`` of joint or body arrays without the names of their columns."""
    for call in file.all(ast.Call):
        if last_part(call.func) not in ("savez", "savez_compressed"):
            continue
        keys = _keys(file, call)
        data = sorted(key for key in keys if _is_axis_data(key))
        if data and not any({"names", "name", "labels", "order"} & words(key) for key in keys):
            yield Hit(
                call,
                f"{', '.join(data[:4])} {'is' if len(data) == 1 else 'are'} stored without the names of columns, so "
                "whoever loads it has to guess their order",
            )


def _is_axis_data(key: str) -> bool:
    return bool(
        {"joint", "joints", "dof", "dofs", "qpos", "qvel", "body", "bodies", "link", "links"} & words(key)
    ) and not ({"names", "name", "num", "count", "id", "ids"} & words(key))


def _keys(file: SourceFile, call: ast.Call) -> set[str]:
    found: set[str] = set()
    for keyword in call.keywords:
        if keyword.arg is not None:
            found.add(keyword.arg)
        elif isinstance(keyword.value, ast.Dict):
            found |= _dict_keys(keyword.value)
        else:
            found |= _keys_of_name(file, call, dotted_text(keyword.value))
    for argument in call.args[1:]:
        if not isinstance(argument, ast.Starred):
            found.add(last_part(argument))
    return found - {""}


def _keys_of_name(file: SourceFile, call: ast.Call, name: str) -> set[str]:
    """Keys of a mapping that is built in the same function: its literal, and what is stored into it."""
    if not name:
        return set()
    scope = file.function_of(call) or file.module.tree
    found: set[str] = set()
    for value in file.bound_values(name, scope):
        for node in ast.walk(value):
            if isinstance(node, ast.Dict):
                found |= _dict_keys(node)
            elif isinstance(node, ast.Call) and last_part(node.func) == "dict":
                found |= {keyword.arg for keyword in node.keywords if keyword.arg}
    for subscript in file.all(ast.Subscript):
        if (
            (
                isinstance(subscript.ctx, ast.Store)
                and dotted_text(subscript.value) == name
                and file.is_below(subscript, scope)
            )
            and isinstance(subscript.slice, ast.Constant)
            and isinstance(subscript.slice.value, str)
        ):
            found.add(subscript.slice.value)
    return found


def _dict_keys(node: ast.Dict) -> set[str]:
    return {key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
