"""Handlers around capture or replay that go on eagerly without a counted, named reason (CAP604).

The fault stands where the graph is driven, which is usually outside the boundary, so the whole
program is read for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from capaudit.audit.contexts import OperationRecord
from capaudit.audit.warmup import CAPTURE
from capaudit.model import Confidence, OwnershipClass
from capaudit.program import FunctionInfo, Program, walk
from capaudit.program.locating import functions_with
from capaudit.program.symbols import dotted_text

_GRAPH_CALLS = {
    "replay",
    "capture_launch",
    "capture_begin",
    "capture_end",
    "ScopedCapture",
    "make_graphed_callables",
    "CUDAGraph",
}
MESSAGE = "a broad handler around capture or replay goes on in eager mode, and nothing counts or names the reason"
_BROAD = {"Exception", "BaseException", "RuntimeError"}
_HINT = re.compile(
    r"\.replay\(|capture_(?:launch|begin|end)\(|ScopedCapture\(|CUDAGraph\(|cuda\.graph\(|make_graphed_callables\(|self\.\w*capture\w*\("
)


def silent_fallbacks(program: Program) -> Iterator[tuple[FunctionInfo, OperationRecord]]:
    """Yield every silent handler with the function that it stands in."""
    for module in program.productive:
        if "except" not in module.source and "suppress" not in module.source:
            continue
        listed = {function.node for function in module.all_functions}
        driving = dict.fromkeys(found for found, _, _ in functions_with(module, _HINT))
        methods = frozenset(f.name for f in driving if f.cls is not None and CAPTURE.search(str(f.text)))
        asking = re.compile(r"self\.(?:" + "|".join(map(re.escape, sorted(methods))) + r")\(")
        callers = [found for found, _, _ in functions_with(module, asking)] if methods else []
        for function in dict.fromkeys([*driving, *callers]):
            for node in _own_nodes(function.node, listed):
                for place in _silent(node, methods):
                    yield (
                        function,
                        OperationRecord(
                            module,
                            place,
                            "except",
                            OwnershipClass.REJECTED,
                            "CAP604",
                            Confidence.LIKELY,
                            MESSAGE,
                            "",
                            (),
                        ),
                    )


def _own_nodes(root: ast.AST, listed: Collection[ast.AST]) -> Iterator[ast.AST]:
    """Nodes of a function with those of closures in it, but without functions that are listed for themselves."""
    stack = list(ast.iter_child_nodes(root))
    while stack:
        node = stack.pop()
        yield node
        if node not in listed:
            stack.extend(ast.iter_child_nodes(node))


def _silent(node: ast.AST, methods: frozenset[str]) -> list[ast.AST]:
    if isinstance(node, (ast.Try, ast.TryStar)) and _drives_graph(node.body, methods):
        return list(silent_handlers(node))
    if isinstance(node, ast.With) and _drives_graph(node.body, methods):
        return [
            item.context_expr
            for item in node.items
            if isinstance(item.context_expr, ast.Call)
            and dotted_text(item.context_expr.func).rpartition(".")[2] == "suppress"
            and any(dotted_text(kind) in _BROAD for kind in item.context_expr.args)
        ]
    return []


def silent_handlers(node: ast.Try | ast.TryStar) -> list[ast.ExceptHandler]:
    """Broad handlers that neither raise nor keep a record."""
    return [handler for handler in node.handlers if _is_broad(handler) and not _accounts(handler)]


def _drives_graph(body: list[ast.stmt], methods: frozenset[str]) -> bool:
    """Whether a block captures or replays, itself or through a method of its own object that captures."""
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.Call):
                text = dotted_text(node.func)
                last = text.rpartition(".")[2]
                if (
                    last in _GRAPH_CALLS
                    or text.endswith("cuda.graph")
                    or (text.startswith("self.") and ("capture" in last or text[5:] in methods))
                ):
                    return True
    return False


def _is_broad(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or dotted_text(kind).rpartition(".")[2] in _BROAD for kind in kinds)


def _accounts(handler: ast.ExceptHandler) -> bool:
    """Re-raising, counting and naming the reason, or answering with it makes a failure visible."""
    inner = [node for statement in handler.body for node in walk(statement)]
    if any(isinstance(node, ast.Raise) for node in inner):
        return True
    reasons = _reasons(handler)
    last = handler.body[-1]
    if isinstance(last, ast.Return) and last.value is not None and _names(last.value, reasons):
        return True  # the caller gets the failure itself, and no eager result
    named = any(isinstance(node, ast.Name) and node.id in reasons for node in inner)
    return named and any(_keeps_record(node) or _hands_on(node, reasons) for node in inner)


def _reasons(handler: ast.ExceptHandler) -> set[str]:
    """The exception's name, and the names of what is made from it."""
    found = {handler.name} if handler.name else set()
    for statement in handler.body:
        for node in walk(statement):
            if isinstance(node, ast.Assign) and _names(node.value, found):
                found.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return found


_RECORDING = ("disable", "fallback", "fall_back", "record", "count", "register", "remember", "track")


def _hands_on(node: ast.AST, reasons: set[str]) -> bool:
    """A method of the program that is told the reason, and whose name says that it keeps or counts it."""
    if not isinstance(node, ast.Call) or not any(word in dotted_text(node.func) for word in _RECORDING):
        return False
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return any(_names(argument, reasons) for argument in given)


def _names(expression: ast.expr, names: set[str]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in names for node in walk(expression))


def _keeps_record(node: ast.AST) -> bool:
    """A counter, a list of reasons or a bound attribute keeps what happened; a log line alone does not."""
    if isinstance(node, ast.AugAssign):
        return True
    if isinstance(node, ast.Assign):
        return any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets)
    return isinstance(node, ast.Call) and dotted_text(node.func).rpartition(".")[2] in (
        "append",
        "add",
        "record",
        "count",
    )
