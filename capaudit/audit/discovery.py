"""Boundaries that nobody declared: captures that the code itself opens, and environment ``step`` methods."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from capaudit.audit.names import External, Names
from capaudit.model import CaptureKind
from capaudit.program import ClassInfo, FunctionInfo, Module, Program, walk
from capaudit.program.symbols import dotted_text

if TYPE_CHECKING:
    from capaudit.audit.boundaries import Entry

_CAPTURES: dict[str, CaptureKind] = {
    "torch.cuda.graph": "torch",
    "torch.cuda.graphs.graph": "torch",
    "warp.ScopedCapture": "warp",
}
_HINTS = ("cuda.graph", "ScopedCapture", "make_graphed_callables", "reduce-overhead")


def discover(program: Program, names: Names, capture: CaptureKind | None, make: Callable[..., Entry]) -> list[Entry]:
    """Return captured regions first, then graphed callables, then ``step`` of environment classes."""
    entries: list[Entry] = []
    for module in program.modules.values():
        if any(hint in module.source for hint in _HINTS):
            entries.extend(_regions(module, names, capture, make))
            entries.extend(_graphed(module, names, capture, make))
    for module in program.modules.values():
        if "def step" in module.source:
            entries.extend(_steps(module, names, capture, make))
    unique: dict[Any, Entry] = {}
    for entry in entries:
        unique.setdefault((entry.function, entry.cls, id(entry.region) if entry.region else 0), entry)
    return list(unique.values())


def _regions(module: Module, names: Names, capture: CaptureKind | None, make: Callable[..., Entry]) -> list[Entry]:
    found: list[Entry] = []
    for function in module.all_functions:
        for node in walk(function.node):
            if not isinstance(node, (ast.With, ast.AsyncWith)):
                continue
            for item in node.items:
                call = item.context_expr
                if not isinstance(call, ast.Call):
                    continue
                path = _path(names, module, function, call.func)
                kind = _CAPTURES.get(path)
                if kind is None or any(k.arg == "external" for k in call.keywords):
                    continue
                origin = f"discovered: with {dotted_text(call.func)}"
                found.append(make(function, function.cls, capture or kind, origin, "", node))
    return found


def _path(names: Names, module: Module, function: FunctionInfo, node: ast.expr) -> str:
    symbol = names.expression(module, node)
    if isinstance(symbol, External):
        return symbol.path
    text = dotted_text(node)
    head, _, rest = text.partition(".")
    for inner in walk(function.node):  # imports inside the function
        if isinstance(inner, ast.Import):
            for alias in inner.names:
                if (alias.asname or alias.name) == head:
                    return f"{alias.name}.{rest}" if rest else alias.name
    return ""


def _graphed(module: Module, names: Names, capture: CaptureKind | None, make: Callable[..., Entry]) -> list[Entry]:
    found: list[Entry] = []
    for node in walk(module.tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = dotted_text(node.func)
        compiled = name.endswith("compile") and any(
            k.arg == "mode" and isinstance(k.value, ast.Constant) and k.value.value == "reduce-overhead"
            for k in node.keywords
        )
        if not compiled and not name.endswith("make_graphed_callables"):
            continue
        targets = node.args[0].elts if isinstance(node.args[0], (ast.Tuple, ast.List)) else [node.args[0]]
        for target in targets:
            symbol = names.expression(module, target)
            if isinstance(symbol, FunctionInfo):
                found.append(make(symbol, symbol.cls, capture or "torch", f"discovered: {name.rpartition('.')[2]}"))
            elif isinstance(symbol, ClassInfo) and (method := names.method(symbol, "forward")) is not None:
                found.append(make(method, symbol, capture or "torch", f"discovered: {name.rpartition('.')[2]}"))
    return found


def _steps(module: Module, names: Names, capture: CaptureKind | None, make: Callable[..., Entry]) -> list[Entry]:
    found: list[Entry] = []
    for cls in module.all_classes:
        method = cls.methods.get("step")
        if method is None or not _is_environment(names, cls) or _is_abstract(method):
            continue
        found.append(make(method, cls, capture, "discovered: environment step"))
    return found


def _is_environment(names: Names, cls: ClassInfo) -> bool:
    """Named or derived like an environment, and resettable."""
    family = [c.name for c in names.mro(cls)] + [base.rpartition(".")[2] for base in names.external_bases(cls)]
    if not any(name.endswith(("Env", "Environment")) or "Env" in name for name in family):
        return False
    if "Wrapper" in cls.name or "Protocol" in family:
        return False
    return any("reset" in name for owner in names.mro(cls) for name in owner.methods)


def _is_abstract(method: FunctionInfo) -> bool:
    from capaudit.audit.calls import is_stub

    return is_stub(method.node)
