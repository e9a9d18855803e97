"""Contexts and heap cells: the summaries that the fixpoint works on."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from capaudit.audit.values import NOTHING, Value, join
from capaudit.model import Confidence, OwnershipClass
from capaudit.program.symbols import FunctionInfo, Module


def closure_token(context: Context) -> Any:
    """An atom that stands for the variables of one context, so that closures over them have cells."""
    from capaudit.audit.values import library_object

    return library_object("closure", context)


class Cell:
    """One heap location: an attribute of an object, or the content of a container.

    ``varies`` is set when captured code changes the host value from tick to tick, so that a replay
    would keep using the value of the capture.
    """

    __slots__ = (
        "carried",
        "carried_from",
        "carried_label",
        "constants",
        "first",
        "label",
        "name",
        "node",
        "owner",
        "persistent",
        "readers",
        "steered",
        "tick_write",
        "value",
        "varies",
        "widened",
        "written_by",
    )

    def __init__(self, owner: Any, name: str, label: str, persistent: bool) -> None:
        self.owner = owner
        self.name = name
        self.label = label
        self.persistent = persistent
        self.value: Value = NOTHING
        self.carried: Value = NOTHING  # what readers get, and the state of the cell that it was made from
        self.carried_from: Value | None = None
        self.carried_label: str | None = None
        self.readers: dict[Context, None] = {}
        self.first: Value = NOTHING  # what set-up code bound
        self.varies = False
        self.widened = False  # its alternatives became too many to be told apart
        self.steered = False  # bound under a branch on frozen host state
        self.node: tuple[Module, ast.AST] | None = None  # first binding, for the value's story
        self.constants: dict[Any, None] = {}  # constants written inside the boundary
        self.tick_write: tuple[Module, ast.AST] | None = None
        self.written_by: dict[FunctionInfo, None] = {}

    def __repr__(self) -> str:
        return f"<{self.label}>"


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """One classified operation inside a context, before call paths are known."""

    module: Module
    node: ast.AST
    name: str
    ownership: OwnershipClass
    hazard: str | None
    confidence: Confidence
    message: str
    remedy: str
    why: tuple[str, ...]
    related: tuple[tuple[Module, ast.AST, str], ...] = ()
    cell: Cell | None = None  # the host state that a CAP501 is about


@dataclass(frozen=True, slots=True)
class Rebind:
    """An attribute bound to other storage inside a context.

    ``swap``: the new storage belongs to another cell, so that an even number of ``times`` undoes it;
    ``times`` is ``None`` where the surrounding loops have no constant count.
    """

    cell: Cell
    module: Module
    node: ast.AST
    definite: bool
    swap: bool = False
    times: int | None = 1
    source: Cell | None = None  # the cell whose storage the name gets: an alias, unless that cell is rebound as well
    grows: bool = False  # only where the old storage is too small
    empties: bool = False  # bound to an empty list, which holds no storage yet
    getter: bool = False  # a property that no tick reads binds it, and what it finds may be what the name had
    followed: bool = False  # a later binding in the same tick may take its place, which the end of the tick tells


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Something that happened to a stream, in program order: ``fork``, ``join``, ``work``, ``record``, ``wait``."""

    kind: str
    stream: Any
    other: Any
    module: Module
    node: ast.AST


class Context:
    """One function under one set of abstract arguments: parameters in, result and records out.

    ``phase`` is ``tick`` inside a boundary and ``cold`` elsewhere; ``mode`` holds the capture facts
    that calls inherit (current stream, registration with Warp).
    """

    __slots__ = (
        "arguments",
        "busy",
        "callees",
        "callers",
        "calls",
        "depth",
        "dirty",
        "edges",
        "entry_reads",
        "function",
        "items",
        "local_readers",
        "locals",
        "mode",
        "module",
        "must_write",
        "phase",
        "pruned",
        "reads",
        "rebinds",
        "receiver",
        "records",
        "result",
        "runs",
        "serial",
        "streams",
        "token",
        "used",
        "yields",
    )

    def __init__(
        self,
        function: FunctionInfo | None,
        module: Module,
        receiver: Any,
        arguments: dict[str, Value],
        mode: frozenset[Any],
        phase: str,
    ) -> None:
        self.function = function
        self.module = module
        self.receiver = receiver
        self.arguments = arguments
        self.mode = mode
        self.phase = phase
        self.result: Value = NOTHING
        self.yields: Value = NOTHING
        self.locals: dict[str, Value] = {}
        self.local_readers: dict[Context, None] = {}
        self.callers: dict[Context, None] = {}
        self.token = closure_token(self)
        self.serial = 0
        self.dirty = False
        self.busy = False
        self.runs = 0
        self.depth = 0
        self.items: dict[Any, Any] = {}  # per-context memory of the frame (stream states, warmed functions)
        self.clear()

    def clear(self) -> None:
        """Forget what one evaluation produced; the next one starts over, with results only moving up."""
        self.records: dict[tuple[Any, ...], OperationRecord] = {}
        self.callees: dict[Context, ast.AST] = {}
        self.used: dict[Context, Value] = {}  # the results that this evaluation built on
        self.reads: dict[Cell, tuple[Value, bool]] = {}  # what each cell held when this evaluation first read it
        self.edges: dict[tuple[Context, ast.AST], int | None] = {}  # how often each call site runs
        self.calls: dict[ast.Call, tuple[bool, str]] = {}
        self.entry_reads: dict[Cell, tuple[Module, ast.AST]] = {}
        self.must_write: dict[Cell, None] = {}
        self.rebinds: list[Rebind] = []
        self.streams: list[StreamEvent] = []
        self.pruned: dict[ast.AST, str] = {}
        for key in (
            "cells",
            "exit",
            "device-writes",
            "yield-mode",
            "cut",
            "work",
            "finals",
            "refuses-capture",
            "rebound",
            "first-writes",
            "host-reads",
            "stamps",
            "stamped",
            "advanced",
            "stamp-tests",
        ):
            self.items.pop(key, None)

    def note_local(self, name: str, value: Value) -> bool:
        """Join a local's value for closures; true when it grew."""
        old = self.locals.get(name, NOTHING)
        new = join(old, value)
        self.locals[name] = new
        return new is not old

    def __repr__(self) -> str:
        return f"<{self.phase} {self.function.owner if self.function else self.module.name} #{self.runs}>"
