"""Warm-ups that the source shows: the captured path runs once before the capture begins."""

from __future__ import annotations

import ast
import re

from capaudit.audit.boundaries import Entry
from capaudit.program import FunctionInfo, Program, walk
from capaudit.program.locating import functions_with
from capaudit.program.symbols import dotted_text

_WORDS = ("cuda.graph(", "ScopedCapture(", "capture_begin(", "make_graphed_callables(")
CAPTURE = re.compile("|".join(map(re.escape, _WORDS)))
"""Calls that begin a capture."""
_SELF_WARMING = ("make_graphed_callables",)  # it runs the callable a few times itself


def entry_is_warm(capturing: list[tuple[FunctionInfo, int]], entry: Entry) -> bool:
    """Whether the entry is called before a capture, by the function that captures or by its class's constructor."""
    name = entry.function.name
    init = entry.cls.methods.get("__init__") if entry.cls is not None else None
    if init is not None and any(_calls(node, name, own=True) for node in walk(init.node)):
        return True
    return any(
        function is not entry.function and _warms_before_capture(function, line, name) for function, line in capturing
    )


def capturing_functions(program: Program) -> list[tuple[FunctionInfo, int]]:
    """Functions that begin a capture, each with the line of the first."""
    first: dict[FunctionInfo, int] = {}
    for module in program.modules.values():
        if any(word in module.source for word in _WORDS):
            for function, line, _ in functions_with(module, CAPTURE):
                first.setdefault(function, line)
    return list(first.items())


def _warms_before_capture(function: FunctionInfo, capture: int, name: str) -> bool:
    for node in walk(function.node):
        if _calls(node, name, own=False) and getattr(node, "lineno", capture) < capture:
            return True
        if not isinstance(node, ast.Call) or dotted_text(node.func).rpartition(".")[2] not in _SELF_WARMING:
            continue
        if any(dotted_text(argument).rpartition(".")[2] == name for argument in node.args):
            return True
    return False


def _calls(node: ast.AST, name: str, own: bool) -> bool:
    if not isinstance(node, ast.Call):
        return False
    text = dotted_text(node.func)
    if own:
        return text == f"self.{name}"
    return text.rpartition(".")[2] == name
