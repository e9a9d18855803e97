"""Methods of lists, dictionaries, sets and tuples."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from capaudit.audit import hazards, operators, stores
from capaudit.audit.values import (
    NOTHING,
    Atom,
    Box,
    Const,
    Items,
    Mapping,
    Record,
    Sequence,
    Value,
    const,
    host,
    items,
    join,
    join_all,
    none,
    sequence,
    unknown,
)
from capaudit.model import Confidence

if TYPE_CHECKING:
    from capaudit.audit.arguments import Arguments
    from capaudit.audit.frame import Frame

_REORDERING = {
    "append",
    "appendleft",
    "pop",
    "popleft",
    "rotate",
    "insert",
    "remove",
    "reverse",
    "popitem",
    "extend",
    "extendleft",
}


def held(frame: Frame, atom: Atom, node: ast.AST | None = None) -> Value:
    """Join of the values that a container holds (values of a dictionary)."""
    from capaudit.audit import expressions

    match atom:
        case Box():
            return expressions.entries(frame, atom, node)
        case Items():
            return join_all(atom.items)
        case Sequence() | Mapping():
            return atom.item
        case Record():
            return join_all(value for _, value in atom.entries)
        case _:
            return NOTHING


def keys(frame: Frame, atom: Atom) -> Value:
    match atom:
        case Box():
            machine = frame.machine
            return machine.read_cell(machine.cell(atom, "#keys"), frame.context)
        case Mapping():
            return atom.name
        case Record():
            return join_all(const(name) for name, _ in atom.entries)
        case _:
            return NOTHING


def missing(frame: Frame, atom: Box, key: Value) -> Confidence | None:
    """How sure it is that set-up code leaves a dictionary without a key; ``None`` where it certainly puts it in."""
    keys = frame.machine.cell(atom, "#keys")
    keys.readers[frame.context] = None
    put = keys.first
    if key and all(isinstance(a, Const) and a in put for a in key):
        return None
    vague = any(not isinstance(a, Const) for a in put)
    return Confidence.POSSIBLE if vague else Confidence.LIKELY


def order_taint(frame: Frame, atom: Box) -> tuple[Any, ...] | None:
    """The taint of a lasting container whose order or length Python changes inside the tick."""
    cell = frame.machine.cell(atom, "#order")
    cell.readers[frame.context] = None
    return ("frozen", cell.label, cell) if cell.varies else None


def note_emptied(frame: Frame, atom: Box) -> None:
    """What a tick empties before it fills it holds nothing of an earlier tick."""
    if not frame.recording or atom.tick or frame.failure or frame.env is None:
        return
    for name in ("#order", "*", *(n for n in frame.machine.owner_cells(atom) if n.startswith("["))):
        stores.note_written(frame, frame.machine.cell(atom, name))


def note_walk(frame: Frame, atom: Box, found: Value, node: ast.AST) -> None:
    """Iterating over a lasting container that captured code reorders takes its buffers as they stood at capture."""
    if frame.recording and not atom.tick and order_taint(frame, atom) and stores.owns_buffers(frame.machine, found):
        note_stale_order(frame, atom, node)


def note_reordering(frame: Frame, atom: Box, node: ast.AST) -> None:
    """Remember that captured code changes a lasting container: a replay does not."""
    if not frame.recording or atom.tick or atom.kind == "dict" or frame.failure:
        return
    cell = frame.machine.cell(atom, "#order")
    if stores.is_written(frame, cell):
        return  # emptied before: built anew in every tick
    cell.label = f"the {atom.kind} made at line {atom.site[1]}"
    if cell.tick_write is None:
        cell.tick_write = (frame.module, node)
    frame.machine.set_varies(cell)


def note_stale_order(frame: Frame, atom: Box, node: ast.AST) -> None:
    """A buffer taken out of a lasting container that captured code reorders: report it where it is reordered."""

    cell = frame.machine.cell(atom, "#order")
    cell.readers[frame.context] = None
    if not cell.varies or cell.tick_write is None or stores.is_written(frame, cell):
        return
    module, place = cell.tick_write
    frame.reject(
        place,
        "CAP304",
        "container reordered",
        f"{cell.label} is changed by Python here, while every replay keeps using the buffers that it held "
        "during capture",
        confidence=Confidence.LIKELY,
        related=((frame.module, node, "captured work takes a buffer out of it here"),),
        module=module,
        remedy="Keep the buffers in place and copy their contents (copy_, roll into a preallocated buffer).",
    )


def method(frame: Frame, atom: Atom, name: str, arguments: Arguments, node: ast.expr) -> Value:
    """Evaluate a container method."""
    from capaudit.audit import builtin_calls, calls, expressions

    machine = frame.machine
    first = arguments.positional[0] if arguments.positional else NOTHING
    if isinstance(atom, Box) and name == "clear":
        note_emptied(frame, atom)
    elif isinstance(atom, Box) and name in _REORDERING:
        note_reordering(frame, atom, node)
    if isinstance(atom, Box) and atom.kind != "dict":
        cell = machine.cell(atom, "*")
        if name in ("append", "appendleft", "add"):
            machine.join_cell(cell, first)
            return none
        if name == "insert":
            machine.join_cell(cell, arguments.positional[1] if len(arguments.positional) > 1 else NOTHING)
            return none
        if name in ("extend", "update", "extendleft"):
            machine.join_cell(cell, expressions.iterate(frame, first, node))
            return none
    if isinstance(atom, Box) and atom.kind == "dict":
        if name == "update":
            for value in arguments.positional:
                calls.update_box(frame, atom, value)
            for key, value in arguments.keywords.items():
                expressions.set_entry(frame, atom, const(key), value)
            return none
        if name == "setdefault":
            default = arguments.positional[1] if len(arguments.positional) > 1 else none
            if (
                frame.recording
                and not atom.tick
                and stores.owns_buffers(frame.machine, default)
                and not stores.is_warm(frame)
                and (confidence := missing(frame, atom, first)) is not None
            ):
                frame.reject(
                    node,
                    "CAP301",
                    "lazy-storage",
                    "setdefault keeps a buffer that is made on first use; inside a capture it lands in the "
                    "graph's own memory",
                    confidence=confidence,
                )
            expressions.set_entry(frame, atom, first, default)
            return entry(frame, atom, first)
    if name in ("pop", "popleft"):
        result = (
            entry(frame, atom, first) if keys(frame, atom) or isinstance(atom, (Record, Mapping)) else held(frame, atom)
        )
        if isinstance(atom, Box) and atom.kind != "dict" and frame.recording and not atom.tick:
            if stores.owns_buffers(frame.machine, result):
                note_stale_order(frame, atom, node)
            elif (taint := order_taint(frame, atom)) is not None:
                result = operators.with_taint(result, taint)
        if len(arguments.positional) > 1:
            result = join(result, arguments.positional[1])
        return result
    if name == "get":
        default = arguments.positional[1] if len(arguments.positional) > 1 else arguments.keywords.get("default", none)
        return join(entry(frame, atom, first), default)
    if name == "values":
        return sequence("iterator", held(frame, atom, node))
    if name == "keys":
        return sequence("iterator", keys(frame, atom))
    if name == "items":
        name_part, item = keys(frame, atom), held(frame, atom, node)
        if isinstance(atom, Record):
            return items(tuple(items((const(key), value)) for key, value in atom.entries))
        return sequence("iterator", items((name_part or host("str"), item))) if item else sequence("iterator", NOTHING)
    if name == "popitem":
        return items((keys(frame, atom) or unknown, held(frame, atom) or unknown))
    if name in ("copy", "union", "intersection", "difference", "symmetric_difference"):
        return (atom,)
    if name in ("index", "count", "remove") and not isinstance(atom, (Mapping, Record)):
        hazards.compared(frame, first, held(frame, atom, node), node, f"{name}() compares with each element")
    if name == "sort":
        builtin_calls.note_sorting(frame, held(frame, atom, node), arguments, node)
    if name in ("index", "count", "numel"):
        return host("int", getattr(atom, "taint", None))
    if name in ("issubset", "issuperset", "isdisjoint"):
        return host("bool")
    if name == "fromkeys":
        return unknown
    return none


def entry(frame: Frame, atom: Atom, key: Value) -> Value:
    """``container[key]`` for a dictionary-like container."""
    from capaudit.audit import expressions

    machine = frame.machine
    match atom:
        case Record():
            if len(key) == 1 and isinstance(key[0], Const):
                found = [value for name, value in atom.entries if name == key[0].value]
                return found[0] if found else NOTHING
            return join_all(value for _, value in atom.entries)
        case Mapping():
            return atom.item
        case Box():
            constants = [a for a in key if isinstance(a, Const)]
            if key and len(constants) == len(key):
                result: Value = stores.read_cell(frame, machine.cell(atom, "*"), None)
                for constant in constants:
                    cell = machine.cell(atom, f"[{constant.value!r}]")
                    result = join(result, stores.read_cell(frame, cell, None))
                return result
            return expressions.entries(frame, atom)
        case _:
            return held(frame, atom)
