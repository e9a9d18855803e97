"""What a statement of a traceback does, read from its text alone: which hazards its calls are known for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from capaudit.knowledge import Knowledge, Operation
from capaudit.logs.tracebacks import Frame

_ALIASES: Final = {"wp": "warp", "np": "numpy", "th": "torch", "F": "torch.nn.functional", "mjw": "mujoco_warp"}
_LIBRARIES: Final = ("torch", "warp", "numpy", "mujoco_warp", "math")
_METHODS: Final = ("torch.Tensor", "warp.array", "torch.cuda.Stream", "torch.cuda.Event")
_CALL: Final = re.compile(r"([A-Za-z_][\w.]*|\)?\.[A-Za-z_]\w*)\(")
_PACKAGE: Final = re.compile(r"(?:site|dist)-packages[/\\](?P<path>[\w/\\]+)\.py$")
_READS: Final = "CAP101"
_UPLOADS: Final = "CAP103"


def statement_hazards(frame: Frame, knowledge: Knowledge) -> tuple[str, ...]:
    """Return the rules that the frame's statement may break, the surest first; empty when it says nothing.

    What stands under the carets decides where there are any: the statement around it is not to blame.
    """
    for code in (frame.marked, frame.code):
        found = tuple(dict.fromkeys(_hazards(code.strip(), knowledge)))
        if found:
            return found
    return ()


def function_hazard(frame: Frame, knowledge: Knowledge) -> str | None:
    """Return the rule that a library's own function is known for, by the frame's file and name."""
    found = _PACKAGE.search(frame.file)
    if found is None or not frame.function.isidentifier():
        return None
    module = found["path"].replace("\\", "/").removesuffix("/__init__").replace("/", ".")
    operation = knowledge.operations.get(f"{module}.{frame.function}")
    return operation.hazard or None if operation is not None else None


def _hazards(code: str, knowledge: Knowledge) -> Iterator[str]:
    if not code:
        return
    tree = _parsed(code)
    names = list(_called(tree)) if tree is not None else [match.lstrip(").") for match in _CALL.findall(code)]
    operations = [found for name in names if (found := _operation(name, knowledge)) is not None]
    yield from (found.hazard for found in operations if found.hazard)
    if tree is not None:
        yield from _syntax(tree)
    yield from (case.hazard for found in operations for case in found.cases if case.hazard)


def _parsed(code: str) -> ast.Module | None:
    # A header without its body, a line of several, a part under carets.
    for text in (code, f"{code} pass", f"{code}\n    pass", f"if 1:\n    pass\n{code} pass", f"{code})", f"({code}"):
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _called(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            parts: list[str] = []
            callee: ast.expr = node.func
            while isinstance(callee, ast.Attribute):
                parts.append(callee.attr)
                callee = callee.value
            if isinstance(callee, ast.Name):
                parts.append(callee.id)
            else:
                parts = parts[:1]  # a method of something computed
            yield ".".join(reversed(parts))


def _operation(name: str, knowledge: Knowledge) -> Operation | None:
    first, _, rest = name.partition(".")
    first = _ALIASES.get(first, first)
    if first.partition(".")[0] in _LIBRARIES and rest:
        return knowledge.operation(f"{first}.{rest}")
    last = name.rpartition(".")[2]
    if last == name and name in ("float", "int", "bool", "print", "complex", "round", "max", "min", "sorted"):
        return knowledge.operation(f"builtins.{name}")
    if last == name and "." not in name:
        return _method(name, knowledge) if name else None
    return _method(last, knowledge)


def _method(name: str, knowledge: Knowledge) -> Operation | None:
    for owner in _METHODS:
        found = knowledge.operations.get(f"{owner}.{name}")
        if found is not None and (found.hazard or any(case.hazard for case in found.cases)):
            return found
    return None


def _syntax(tree: ast.Module) -> Iterator[str]:
    """Branches on values and formatted text read; a number put through an index is uploaded."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While, ast.Assert, ast.IfExp, ast.JoinedStr, ast.BoolOp)):
            if not (isinstance(node, ast.If) and isinstance(node.test, ast.Constant)):
                yield _READS
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            if any(isinstance(target, ast.Subscript) for target in node.targets):
                yield _UPLOADS
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "bool")
        ):
            yield _READS
