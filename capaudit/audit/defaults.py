"""Process-wide defaults that a program sets for every boundary."""

from __future__ import annotations

import ast

from capaudit.program import Program
from capaudit.program.symbols import dotted_text


def sets_default_device(program: Program) -> bool:
    """Whether the program makes another device than the CPU the default, and not only puts back what was found."""
    return any(
        _moves(node, module.tree)
        for module in program.modules_with("set_default_device")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and dotted_text(node.func).rpartition(".")[2] == "set_default_device"
    )


def _moves(call: ast.Call, tree: ast.Module) -> bool:
    given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "device"), None)
    match given:
        case None | ast.Constant(value=None | "cpu"):
            return False
        case ast.Name(id=name):
            return not any(
                isinstance(node, ast.Assign)
                and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
                and isinstance(node.value, ast.Call)
                and dotted_text(node.value.func).rpartition(".")[2] == "get_default_device"
                for node in ast.walk(tree)
            )
        case _:
            return True
