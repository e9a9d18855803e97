"""From settled contexts to operations and findings, with call paths."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from capaudit.audit.boundaries import Entry
from capaudit.audit.contexts import Cell, Context, OperationRecord, Rebind
from capaudit.audit.fallback import silent_fallbacks
from capaudit.audit.frame import _strength
from capaudit.audit.machine import Machine
from capaudit.audit.regions import OWN_STREAMS
from capaudit.audit.stamps import is_steady
from capaudit.audit.stores import is_restored, is_superseded, keeps
from capaudit.audit.streams import judge_streams
from capaudit.knowledge import Knowledge
from capaudit.model import (
    Boundary,
    Confidence,
    Finding,
    Hop,
    Operation,
    OwnershipClass,
    Place,
    PrunedBranch,
    ReachedFunction,
    RelatedPlace,
    UnresolvedCall,
)
from capaudit.program import Module, Program


@dataclass(slots=True)
class Verdicts:
    """What one boundary's contexts amount to."""

    findings: list[Finding] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    unresolved: list[UnresolvedCall] = field(default_factory=list)
    pruned: list[PrunedBranch] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    reached: tuple[ReachedFunction, ...] = ()
    calls: int = 0


RESTARTED = "restarted"
"""Where a root keeps the host state that every tick binds before it reads it."""


def reachable(root: Context) -> dict[Context, tuple[Context, ast.AST] | None]:
    """Contexts reachable from a root in breadth-first order, each with its caller: the shortest call paths."""
    parents: dict[Context, tuple[Context, ast.AST] | None] = {root: None}
    queue = [root]
    for context in queue:
        for callee, node in context.callees.items():
            if callee.phase == "tick" and callee not in parents:
                parents[callee] = (context, node)
                queue.append(callee)
    return parents


def collect(machine: Machine, entry: Entry, root: Context, late: list[Rebind]) -> Verdicts:
    """Classify everything that a boundary reaches."""
    result = Verdicts()
    parents = reachable(root)
    restarted = root.items.get(RESTARTED, ())
    best: dict[tuple[object, ...], tuple[OperationRecord, Context]] = {}
    calls: dict[tuple[str, int, int, int, int], tuple[bool, str, Module, ast.Call, Context]] = {}
    for context in parents:
        result.functions.add(context.function.owner if context.function else context.module.name)
        for record in context.records.values():
            if record.cell is not None and (
                record.cell in restarted or is_restored(machine, record.cell, root, parents)
            ):
                continue
            if record.hazard != "CAP501" or not is_steady(context, root, record.node):
                _keep(best, record, context)
        for node, (resolved, text) in context.calls.items():
            key = (context.module.file, *_span(node))
            old = calls.get(key)
            if old is None or (resolved and not old[0]):
                calls[key] = (resolved, text, context.module, node, context)
        for branch, reason in context.pruned.items():
            result.pruned.append(PrunedBranch(place_of(context.module, branch), reason))
    for record in judge_streams(root.streams, root.items.get(OWN_STREAMS, ())):
        _keep(best, record, _holder(parents, record, root))
    for rebind in [*_stale(machine, root, parents), *late]:
        record = _rebind_record(rebind, root)
        if rebind.definite and not rebind.grows:  # what is made from itself in every tick is not made on first use
            best.pop((rebind.module.file, *_span(rebind.node), "CAP301"), None)
        _keep(best, record, _holder(parents, record, root))
    for record, context in best.values():
        path = call_path(entry, context, parents)
        result.operations.append(_operation(record, context, entry.boundary))
        if record.hazard is not None:
            result.findings.append(_finding(record, context, path, entry.boundary, machine.knowledge))
    result.calls = len(calls)
    for resolved, text, module, node, context in calls.values():
        if not resolved:
            result.unresolved.append(_unresolved(text, module, node, context, entry.boundary))
    return result


def attach_fallbacks(program: Program, results: list[tuple[Entry, Verdicts]], knowledge: Knowledge) -> None:
    """Report silent fallbacks with the boundary that their module drives, else with the first one."""
    if not results:
        return
    for function, record in silent_fallbacks(program):
        near = [pair for pair in results if function.owner in pair[1].functions]
        near = near or [pair for pair in results if pair[0].function.module is function.module] or results[:1]
        entry, verdicts = near[0]
        context = Context(function, function.module, None, {}, frozenset(), "tick")
        path = (Hop(function.owner, function.module.file, function.line),)
        verdicts.operations.append(_operation(record, context, entry.boundary))
        verdicts.findings.append(_finding(record, context, path, entry.boundary, knowledge))


def _keep(
    best: dict[tuple[object, ...], tuple[OperationRecord, Context]], record: OperationRecord, context: Context
) -> None:
    place = (record.module.file, *_span(record.node))
    key: tuple[object, ...] = (*place, record.hazard or "")
    old = best.get(key)
    if record.hazard is None and any((*place, code) in best for code in _CODES):
        return
    if record.hazard is not None:
        best.pop((*place, ""), None)
    if old is None or _strength(record.confidence) > _strength(old[0].confidence):
        best[key] = (record, context)


_CODES = tuple(
    f"CAP{n}"
    for n in (
        101,
        102,
        103,
        104,
        105,
        201,
        202,
        301,
        302,
        303,
        304,
        305,
        401,
        402,
        403,
        501,
        502,
        503,
        601,
        602,
        603,
        604,
    )
)


def _span(node: ast.AST) -> tuple[int, int, int, int]:
    line = getattr(node, "lineno", 0)
    column = getattr(node, "col_offset", 0)
    return line, column, getattr(node, "end_lineno", line) or line, getattr(node, "end_col_offset", column) or column


def _holder(parents: Iterable[Context], record: OperationRecord, root: Context) -> Context:
    line = getattr(record.node, "lineno", 0)
    inner: Context | None = None
    for context in parents:
        function = context.function
        if function is None or context.module is not record.module:
            continue
        if not function.node.lineno <= line <= (function.node.end_lineno or 0):
            continue
        if inner is None or inner.function is None or function.node.lineno > inner.function.node.lineno:
            inner = context
    return inner or root


# -- stale carriers ------------------------------------------------------------------------------------------


def _stale(machine: Machine, root: Context, parents: Iterable[Context]) -> list[Rebind]:
    """Cells that a tick reads before it binds them to other storage."""
    by_cell: dict[Cell, list[tuple[Context, Rebind]]] = {}
    for context in parents:
        for rebind in context.rebinds:
            if keeps(context, rebind.cell) or is_superseded(machine, rebind, context, root):
                continue
            by_cell.setdefault(rebind.cell, []).append((context, rebind))
    often = _how_often(root, parents) if by_cell else {}
    found: list[Rebind] = []
    for cell, rebinds in by_cell.items():
        if cell not in root.entry_reads or None in cell.constants:
            continue
        flag = root.items.get("stamped", {}).get(cell)  # a flag that each tick leaves as it was has it refreshed first
        if flag is not None and is_restored(machine, flag, root, parents):
            continue
        if all(rebind.swap for _, rebind in rebinds) and _even(rebinds, often):
            continue
        found.extend(rebind for _, rebind in rebinds if rebind.source is None or rebind.source in by_cell)
    return found


def _even(rebinds: list[tuple[Context, Rebind]], often: dict[Context, int | None]) -> bool:
    """An even number of exchanges leaves every name where it was."""
    total = 0
    for context, rebind in rebinds:
        calls = often.get(context)
        if calls is None or rebind.times is None:
            return False
        total += calls * rebind.times
    return total % 2 == 0


def _how_often(root: Context, parents: Iterable[Context]) -> dict[Context, int | None]:
    """How many times one tick runs each context; ``None`` under recursion or loops without a constant count."""
    result: dict[Context, int | None] = {}
    callers: dict[Context, list[tuple[Context, int | None]]] = {}
    for context in parents:
        for (callee, _), times in context.edges.items():
            callers.setdefault(callee, []).append((context, times))
    busy: set[Context] = set()

    def count(context: Context) -> int | None:
        if context is root:
            return 1
        if context in result:
            return result[context]
        if context in busy:
            return None
        busy.add(context)
        total: int | None = 0
        for caller, times in callers.get(context, ()):
            one = count(caller)
            total = None if total is None or one is None or times is None else total + one * times
        busy.discard(context)
        result[context] = total
        return total

    for context in parents:
        result[context] = count(context)
    return result


def _rebind_record(rebind: Rebind, root: Context) -> OperationRecord:
    related: tuple[tuple[Module, ast.AST, str], ...] = ()
    if rebind.cell in root.entry_reads:
        module, node = root.entry_reads[rebind.cell]
        if hasattr(node, "lineno"):
            related = ((module, node, "captured work reads it here, at the address it had during capture"),)
    text = "exchanged with another buffer" if rebind.swap else "bound to new storage"
    if rebind.grows:
        text += " when the old one is too small"
    if rebind.empties:
        text = "bound to an empty list"
    confidence = Confidence.CERTAIN if rebind.definite and not rebind.swap else Confidence.LIKELY
    return OperationRecord(
        rebind.module,
        rebind.node,
        "rebind",
        OwnershipClass.REJECTED,
        "CAP304",
        Confidence.POSSIBLE if rebind.grows or rebind.empties or rebind.getter else confidence,
        f"{rebind.cell.label} is {text} here, while every replay keeps using the address it had during capture",
        "Write into the existing buffer (copy_, out=, an in-place operator) so that its address stays.",
        (),
        related,
    )


# -- report values ---------------------------------------------------------------------------------------------


def place_of(module: Module, node: ast.AST) -> Place:
    line, column, end_line, end_column = _span(node)
    return Place(
        module.file, line, _character(module, line, column), end_line, _character(module, end_line, end_column)
    )


def _character(module: Module, line: int, column: int) -> int:
    """1-based character column of a byte offset."""
    if module.source.isascii():
        return column + 1
    lines = module.lines
    if 0 < line <= len(lines):
        return len(lines[line - 1].encode()[:column].decode(errors="ignore")) + 1
    return column + 1


def call_path(
    entry: Entry, context: Context, parents: dict[Context, tuple[Context, ast.AST] | None]
) -> tuple[Hop, ...]:
    hops: list[Hop] = []
    current = context
    while True:
        parent = parents.get(current)
        owner = current.function.owner if current.function else current.module.name
        if parent is None:
            hops.append(Hop(owner, entry.boundary.file, entry.boundary.line))
            break
        caller, node = parent
        hops.append(Hop(owner, caller.module.file, getattr(node, "lineno", 0)))
        current = caller
    return tuple(reversed(hops))


def _operation(record: OperationRecord, context: Context, boundary: Boundary) -> Operation:
    return Operation(
        name=record.name,
        text=source_text(record.module, record.node),
        ownership=record.ownership,
        hazard=record.hazard,
        place=place_of(record.module, record.node),
        owner=context.function.owner if context.function else context.module.name,
        boundary=boundary.name,
        reason=record.message,
    )


def source_text(module: Module, node: ast.AST) -> str:
    """The source of a node on one line."""
    line, column, end_line, end_column = _span(node)
    lines = module.lines
    if not 0 < line <= len(lines):
        return ""
    end_line = min(end_line, line + 40)  # more is never shown
    if line == end_line:
        text = lines[line - 1].encode()[column : min(end_column, column + 4000)].decode(errors="replace")
    else:
        first = lines[line - 1].encode()[column:].decode(errors="replace")
        last = lines[min(end_line, len(lines)) - 1].encode()[:end_column].decode(errors="replace")
        text = "\n".join([first, *lines[line : end_line - 1], last])
    text = " ".join(text.split())
    return text if len(text) <= 160 else f"{text[:157]}..."


def _finding(
    record: OperationRecord, context: Context, path: tuple[Hop, ...], boundary: Boundary, knowledge: Knowledge
) -> Finding:
    code = record.hazard or "CAP901"
    rule = knowledge.rules.get(code)
    name = rule.name if rule else code
    statement = statement_of(record.module, record.node)
    owner = context.function.qualname if context.function else ""
    text = source_text(record.module, statement)
    message = record.message or (rule.message if rule else "")
    return Finding(
        code=code,
        name=name,
        ownership=record.ownership,
        hazard=name,
        place=place_of(record.module, record.node),
        statement=place_of(record.module, statement),
        message=message,
        confidence=record.confidence,
        boundary=boundary.name,
        call_path=path,
        why=record.why,
        remedy=record.remedy or (rule.remedy if rule else ""),
        fingerprint=fingerprint(code, record.module.name.partition("@")[0], owner, text),
        operation=record.name,
        text=source_text(record.module, record.node),
        related=tuple(RelatedPlace(place_of(module, node), note) for module, node, note in record.related),
    )


def fingerprint(*parts: str) -> str:
    """A short stable hash: of names and text, never of lines or of where the audit was started."""
    return hashlib.sha256("\0".join(parts).encode(errors="backslashreplace")).hexdigest()[:20]


def statement_of(module: Module, node: ast.AST) -> ast.AST:
    """The innermost statement that holds a node; compound statements count by their header."""
    line, column, *_ = _span(node)
    best: ast.stmt | None = None
    scope: list[ast.stmt] = module.tree.body
    while scope:
        inner = next((s for s in scope if _first_line(s) <= line <= (s.end_lineno or s.lineno)), None)
        if inner is None:
            break
        if (inner.lineno, inner.col_offset) <= (line, column) <= header_end(inner):
            best = inner
        scope = [child for child in ast.iter_child_nodes(inner) if isinstance(child, ast.stmt)]
        for handler in (*getattr(inner, "handlers", ()), *getattr(inner, "cases", ())):
            scope.extend(handler.body)
    if best is None or best is node:
        return node
    if hasattr(best, "body"):
        header = ast.Pass()
        header.lineno, header.col_offset = best.lineno, best.col_offset
        header.end_lineno, header.end_col_offset = header_end(best)
        return header
    return best


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", ())
    lines: list[int] = [d.lineno for d in decorators]
    return min([statement.lineno, *lines])


def header_end(statement: ast.stmt) -> tuple[int, int]:
    """Where a statement, or a compound statement's header, ends."""
    match statement:
        case ast.If() | ast.While():
            last: ast.AST = statement.test
        case ast.For() | ast.AsyncFor():
            last = statement.iter
        case ast.With() | ast.AsyncWith():
            last = statement.items[-1].optional_vars or statement.items[-1].context_expr
        case ast.Match():
            last = statement.subject
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Try() | ast.TryStar():
            return statement.lineno, statement.col_offset + 1
        case _:
            last = statement
    return getattr(last, "end_lineno", 0) or 0, getattr(last, "end_col_offset", 0) or 0


def _unresolved(text: str, module: Module, node: ast.Call, context: Context, boundary: Boundary) -> UnresolvedCall:
    receiver = " ".join(ast.unparse(node.func.value).split())[:60] if isinstance(node.func, ast.Attribute) else text
    root = node.func
    while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call)):
        root = root.func if isinstance(root, ast.Call) else root.value
    settle = f"annotate {receiver}"
    function = context.function
    if (
        isinstance(root, ast.Name)
        and function is not None
        and root.id in context.arguments
        and root.id not in ("self", "cls")
    ):
        settle = f"annotate parameter {root.id} of {function.qualname}"
    owner = function.owner if function else module.name
    return UnresolvedCall(place_of(module, node), source_text(module, node), receiver, settle, owner, boundary.name)
