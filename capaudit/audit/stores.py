"""Heap reads and writes inside a frame, with what they mean for a replay.

Three facts are gathered per tick: which cells are read before they are written (state carried from
tick to tick), which are certainly written, and which are bound to new storage. A cell that is both
carried and rebound is a stale carrier.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from capaudit.audit.contexts import Cell, Context, Rebind
from capaudit.audit.values import NONE, Box, Const, Host, Items, Sequence, Tensor, Value, WarpArray
from capaudit.model import Confidence

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame


def read_cell(frame: Frame, cell: Cell, node: ast.AST | None) -> Value:
    """Read a cell and note when a tick reads it before writing it."""
    value = frame.machine.read_cell(cell, frame.context)
    if frame.recording and cell.persistent and _written_key(cell) not in (frame.env or {}) and holds_buffers(value):
        frame.context.entry_reads.setdefault(cell, (frame.module, node or ast.Pass()))
    return value


def _written_key(cell: Cell) -> str:
    return f".w{id(cell)}"


def holds_buffers(value: Value) -> bool:
    """True when a value is, or directly contains, device tensors or Warp arrays."""
    for atom in value:
        if isinstance(atom, WarpArray) or (isinstance(atom, Tensor) and atom.device == "cuda"):
            return True
        if isinstance(atom, Items) and any(holds_buffers(item) for item in atom.items):
            return True
        if isinstance(atom, Sequence) and holds_buffers(atom.item):
            return True
        if isinstance(atom, Box):
            return False
    return False


def write_cell(frame: Frame, cell: Cell, value: Value, node: ast.AST | None, name: str, augmented: bool = False) -> None:
    """Join a value into a cell and note rebinding and varying host state inside a boundary."""
    machine = frame.machine
    if cell.node is None and node is not None:
        cell.node = (frame.module, node)
    if frame.env is None:
        return
    if frame.context.phase == "after":
        if cell.persistent and not frame.failure:
            _note_rebind(frame, cell, value, node or ast.Pass())
        return
    machine.join_cell(cell, value)
    if not frame.tick:
        if frame.function is not None and value != (NONE,):
            cell.written_by[frame.function] = None
        return
    if frame.failure or not cell.persistent:
        return
    place = node or ast.Pass()
    _note_lazy(frame, cell, value, place, name)
    _note_varying(frame, cell, value, place, name, augmented)
    _note_rebind(frame, cell, value, place)
    frame.env[_written_key(cell)] = ()
    register(frame, cell)


def _note_varying(frame: Frame, cell: Cell, value: Value, node: ast.AST, name: str, augmented: bool) -> None:
    scalars = [atom for atom in value if isinstance(atom, (Const, Host)) and atom is not NONE]
    if not scalars:
        if value == (NONE,):
            cell.constants[None] = None
        return
    varying = augmented or _reads_itself(node, name)
    for atom in scalars:
        if isinstance(atom, Const):
            cell.constants[(atom.type_name, atom.value)] = None
        elif atom.taint is not None and atom.taint[0] in ("frozen", "rng", "clock"):
            varying = True
    if len([key for key in cell.constants if key is not None]) > 1:
        varying = True
    if varying:
        if cell.tick_write is None:
            cell.tick_write = (frame.module, node)
        frame.machine.set_varies(cell)


def _reads_itself(node: ast.AST, name: str) -> bool:
    return any(isinstance(inner, ast.Attribute) and inner.attr == name and isinstance(inner.ctx, ast.Load) for inner in ast.walk(node))


def _note_rebind(frame: Frame, cell: Cell, value: Value, node: ast.AST) -> None:
    for atom in value:
        storage = getattr(atom, "storage", None)
        is_buffer = isinstance(atom, WarpArray) or (isinstance(atom, Tensor) and atom.device == "cuda")
        if is_buffer and storage is not cell:
            swap = isinstance(storage, Cell)
            times = _times(frame)
            frame.context.rebinds.append(Rebind(cell, frame.module, node, storage == "fresh" or swap, swap, times))
            return
        if isinstance(atom, (Items, Sequence)) and holds_buffers((atom,)):
            frame.context.rebinds.append(Rebind(cell, frame.module, node, True))
            return


def _times(frame: Frame) -> int | None:
    times = 1
    for count in frame.loop_parity:
        if count is None:
            return None
        times *= count
    return times


def _note_lazy(frame: Frame, cell: Cell, value: Value, node: ast.AST, name: str) -> None:
    """Storage that is created on first use would be created while capturing, unless a warm-up came first."""
    env = frame.env or {}
    if not any(key.startswith(".lazy ") and key.endswith(f".{name}") for key in env):
        return
    if not holds_buffers(value) or frame.context.function in frame.machine.warmed:
        return
    if None in cell.constants:
        return  # emptied again in every tick: a per-tick memo, not lasting storage
    warm = bool(cell.written_by)
    frame.reject(
        node,
        "CAP301",
        "lazy-storage",
        f"{cell.label} is created on first use; inside a capture it lands in the graph's own memory and every replay creates it again",
        confidence=Confidence.POSSIBLE if warm else Confidence.LIKELY,
        remedy="Create the buffer at construction, or run the captured path once before capturing.",
    )


def absorb_callee(frame: Frame, callee: Context) -> None:
    """Take over what a called context reads, writes and does to streams, in program order."""
    if frame.env is None or not frame.tick:
        return
    context = frame.context
    for cell, place in callee.entry_reads.items():
        if _written_key(cell) not in frame.env:
            context.entry_reads.setdefault(cell, place)
    for cell in callee.must_write:
        frame.env[_written_key(cell)] = ()
        context.items.setdefault("cells", {})[_written_key(cell)] = cell
    if callee.items.get("device-writes"):
        context.items["device-writes"] = context.items.get("device-writes", 0) + 1
    if len(context.streams) < 400:
        context.streams.extend(callee.streams[:200])


def note_exit(frame: Frame) -> None:
    """At a return: only cells written on every way out are certainly written."""
    if not frame.tick or frame.env is None:
        return
    context = frame.context
    table = context.items.setdefault("cells", {})
    written = {key for key in frame.env if key.startswith(".w")}
    old = context.items.get("exit")
    agreed = written if old is None else old & written
    context.items["exit"] = agreed
    context.must_write = {cell: None for key, cell in table.items() if key in agreed}


def register(frame: Frame, cell: Cell) -> None:
    frame.context.items.setdefault("cells", {})[_written_key(cell)] = cell


