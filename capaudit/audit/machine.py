"""The fixpoint machine: the heap, the contexts and the work list that brings them to rest.

Contexts are evaluated depth first when first called; whatever they read (heap cells, closure
variables, results of other contexts) is remembered, and a change puts the reader on the work list.
Everything is ordered by first use, so the same program gives the same result byte for byte.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

from capaudit.audit.contexts import Cell, Context
from capaudit.audit.names import Names
from capaudit.audit.registrations import Registrations
from capaudit.audit.values import (
    NOTHING,
    Atom,
    Box,
    Const,
    Function,
    Host,
    Instance,
    Items,
    Sequence,
    Tensor,
    Value,
    WarpArray,
    host,
    is_widened,
    items,
    join,
    like,
    sequence,
    unknown,
    warp_array,
    widening,
)
from capaudit.knowledge import Knowledge
from capaudit.program import ClassInfo, FunctionInfo, Module, Program

Runner = Callable[["Machine", Context], None]

_MOST_CONTEXTS = 8
"""Argument-exact contexts per function and receiver; further calls share one joined context."""
_MOST_RUNS = 14
"""Evaluations per context; the joins settle well before, this only bounds pathological programs."""
_DEEPEST = 150
_COLD_DEEPEST = 24


class Machine:
    """All mutable state of one audit."""

    def __init__(
        self, program: Program, names: Names, knowledge: Knowledge, runner: Runner, versions: dict[str, str]
    ) -> None:
        self.program = program
        self.names = names
        self.knowledge = knowledge
        self.versions = versions
        self.capture = "torch"
        self.heap: dict[tuple[Any, ...], Cell] = {}
        self.cells_of: dict[Atom, dict[str, Cell]] = {}
        self.instances: dict[ClassInfo, dict[Instance, None]] = {}
        self.instance_count = 0
        self.cells_named: dict[str, int] = {}  # how many cells go by a name
        self.contexts: dict[tuple[Any, ...], Context] = {}
        self.shared: dict[tuple[Any, ...], Context] = {}
        self.exact_counts: dict[tuple[Any, ...], int] = {}
        self.dirty: dict[Context, None] = {}
        self.depth = 0
        self.serials = 0
        self.hollow: dict[Cell, None] = {}  # cells that were read before anything was bound to them
        self.by_function: dict[FunctionInfo, list[Context]] = {}
        self.constructed: dict[Instance, None] = {}
        self.owned: dict[FunctionInfo, tuple[str, str]] = {}
        self.warmed: dict[FunctionInfo, None] = {}
        self.cold_runs: dict[FunctionInfo, None] = {}
        self.speculative = 0  # evaluating methods only to learn what they bind
        self.watched: dict[Cell, None] = {}  # host state of which it is asked whether a tick reads it before binding it
        self.warm = False  # the whole boundary is seen to run before the capture
        self.refused: frozenset[ClassInfo] = frozenset()  # what the boundary's own constructor turns down
        self.registrations: Registrations | None = None  # whose configurations reach the boundary
        self.memo: dict[Any, Any] = {}
        self.capturing: list[tuple[FunctionInfo, int]] = []
        self._runner = runner
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))

    def subclasses(self, cls: ClassInfo) -> tuple[ClassInfo, ...]:
        """The proper subclasses in the program that the boundary may meet, in file order."""
        found = self.names.subclasses(cls)
        if found and cls.module in self._productive:  # a stand-in that a test makes meets that test alone
            found = tuple(sub for sub in found if sub.module in self._productive) or found
        return tuple(sub for sub in found if not self._is_refused(sub)) if self.refused else found

    @cached_property
    def _productive(self) -> frozenset[Module]:
        return frozenset(self.program.productive)

    def _is_refused(self, cls: ClassInfo) -> bool:
        """Whether the boundary cannot meet a class: it is turned down, or only what is turned down makes it."""
        if cls in self.refused:
            return True
        key = ("refused", cls)
        known: bool | None = self.memo.get(key)
        if known is None:
            makers = [owner.cls if owner is not None else None for _, _, owner in self.program.calls_to(cls.name)]
            known = self.memo[key] = bool(makers) and all(maker in self.refused for maker in makers)
        return known

    def is_host_only(self, cls: ClassInfo, function: FunctionInfo) -> bool:
        """Whether what a method uses of its object cannot be set up on CUDA."""
        key = ("host-only", cls, function)
        known: bool | None = self.memo.get(key)
        if known is None:
            from capaudit.audit.host_only import refuses_cuda

            known = self.memo[key] = refuses_cuda(self.names, cls, function)
        return known

    # -- contexts ---------------------------------------------------------------------------------

    def enter(
        self,
        function: FunctionInfo,
        receiver: Atom | None,
        arguments: dict[str, Value],
        mode: frozenset[Any],
        phase: str,
        caller: Context | None,
        node: ast.AST | None,
        closure: Context | None = None,
        times: int | None = 1,
    ) -> Context | None:
        """Return the context of a call, evaluated at least once; ``None`` where the chain is too deep to follow."""
        context = self._context(function, receiver, arguments, mode, phase, closure)
        if caller is not None and node is not None:
            context.callers[caller] = None
            caller.callees.setdefault(context, node)
            caller.edges.setdefault((context, node), times)
        limit = _DEEPEST if phase == "tick" else _COLD_DEEPEST
        if phase == "cold":
            self._note_cold(context, caller)
        if context.busy:
            if caller is not None:
                caller.used[context] = context.result
            return context
        if context.runs == 0 and self.depth >= limit:
            return None
        if context.runs == 0 or context.dirty:
            self.run(context, caller)
        if caller is not None:
            caller.used[context] = context.result
        return context

    def _context(
        self,
        function: FunctionInfo,
        receiver: Atom | None,
        arguments: dict[str, Value],
        mode: frozenset[Any],
        phase: str,
        closure: Context | None,
    ) -> Context:
        # A decorator or combinator is its argument: calls with other functions are never taken together.
        passed = tuple(value for value in arguments.values() if len(value) == 1 and type(value[0]) is Function)
        group = (function, receiver, mode, phase, closure, passed)
        key = (*group, tuple(arguments.items()))
        context = self.contexts.get(key)
        if context is not None:
            return context
        count = self.exact_counts.get(group, 0)
        if count < _MOST_CONTEXTS:
            self.exact_counts[group] = count + 1
            context = self._new_context(function, receiver, dict(arguments), mode, phase, closure)
            self.contexts[key] = context
            return context
        together = (*group, _places(arguments))
        context = self.shared.get(together)
        if context is None:
            context = self._new_context(function, receiver, dict(arguments), mode, phase, closure)
            self.shared[together] = context
            return context
        for name, value in arguments.items():
            old = context.arguments.get(name, NOTHING)
            new = join(old, value)
            if new is not old:
                context.arguments[name] = new
                self.mark(context)
        return context

    def _new_context(
        self,
        function: FunctionInfo,
        receiver: Atom | None,
        arguments: dict[str, Value],
        mode: frozenset[Any],
        phase: str,
        closure: Context | None,
    ) -> Context:
        context = Context(function, function.module, receiver, arguments, mode, phase)
        context.items["closure"] = closure
        self.serials += 1
        context.serial = self.serials
        self.by_function.setdefault(function, []).append(context)
        return context

    def _note_cold(self, context: Context, caller: Context | None) -> None:
        """Keep apart what set-up code really runs and what is only evaluated to learn what it binds."""
        if self.speculative or (caller is not None and caller.items.get("speculative")):
            if context.runs == 0:
                context.items["speculative"] = True
            return
        context.items.pop("speculative", None)
        if caller is not None and context.function is not None:
            self.cold_runs[context.function] = None

    def ran_cold(self, function: FunctionInfo) -> bool:
        """Whether set-up code was seen to run a function for real."""
        return function in self.cold_runs

    def mark(self, context: Context) -> None:
        """Put a context on the work list; one that is being evaluated checks what it read when it is done."""
        if not context.busy and context.runs < _MOST_RUNS:
            context.dirty = True
            self.dirty[context] = None

    def run(self, context: Context, caller: Context | None = None) -> None:
        """Evaluate a context once and mark whoever depends on a changed result."""
        context.dirty = False
        self.dirty.pop(context, None)
        before, yields = context.result, context.yields
        context.runs += 1
        context.busy = True
        self.depth += 1
        context.clear()
        try:
            self._runner(self, context)
        finally:
            context.busy = False
            self.depth -= 1
        if self._outdated(context):
            self.mark(context)
        if context.result is not before or context.yields is not yields:
            for other in context.callers:
                if other is not caller:
                    self.mark(other)

    def _outdated(self, context: Context) -> bool:
        if any(cell.value is not value or cell.varies is not varies for cell, (value, varies) in context.reads.items()):
            return True
        return any(callee.busy is False and callee.result is not result for callee, result in context.used.items())

    def settle(self) -> None:
        """Evaluate until nothing changes; what no caller reaches any more waits until somebody calls it again."""
        while self.dirty:
            context = next(iter(self.dirty))
            if context.callers and not any(context in caller.callees for caller in context.callers):
                del self.dirty[context]
                continue
            self.run(context)

    def settle_unknown(self) -> None:
        """Settle; then let what was read but never bound become unknown, and settle again."""
        for _ in range(6):
            self.settle()
            empty = [cell for cell in self.hollow if not cell.value]
            self.hollow.clear()
            if not empty:
                return
            for cell in empty:
                self.join_cell(cell, unknown)
        self.settle()

    # -- heap -------------------------------------------------------------------------------------

    def cell(self, owner: Atom, name: str) -> Cell:
        key = (owner, name)
        cell = self.heap.get(key)
        if cell is None:
            cell = Cell(owner, name, _label(owner, name), not getattr(owner, "tick", False))
            self.heap[key] = cell
            self.cells_of.setdefault(owner, {})[name] = cell
            self.cells_named[name] = self.cells_named.get(name, 0) + 1
            if isinstance(owner, Instance) and owner.site is not None:
                self.note_instance(owner)
        return cell

    def note_instance(self, made: Instance) -> None:
        """Remember an object that the program constructs, for whoever reads any object of its class."""
        known = self.instances.setdefault(made.cls, {})
        if made not in known:
            known[made] = None
            self.instance_count += 1

    def existing_cell(self, owner: Atom, name: str) -> Cell | None:
        return self.heap.get((owner, name))

    def read_cell(self, cell: Cell, context: Context) -> Value:
        """Read a cell; tensors and arrays come back as views of that cell's storage."""
        cell.readers[context] = None
        if cell not in context.reads:
            context.reads[cell] = (cell.value, cell.varies)
        if not cell.value:
            self.hollow[cell] = None
            return NOTHING
        if not cell.persistent:
            return cell.value
        if cell.carried_from is not cell.value or (cell.varies and cell.carried_label is not cell.label):
            cell.carried = carried(cell.value, cell)
            cell.carried_from, cell.carried_label = cell.value, cell.label if cell.varies else None
        return cell.carried

    def join_cell(self, cell: Cell, value: Value) -> None:
        added = _owned(value)
        if cell.widened:  # or it would fill up and be widened again, each time to be read anew by everybody
            added = widening(added)
        new = join(cell.value, added)
        if new is not cell.value:
            cell.widened = cell.widened or is_widened(cell.value, added, new)
            cell.value = new
            for reader in cell.readers:
                self.mark(reader)

    def set_varies(self, cell: Cell) -> None:
        if not cell.varies:
            cell.varies = True
            for reader in cell.readers:
                self.mark(reader)

    def note_local(self, context: Context, name: str, value: Value) -> None:
        """Join a local for the closures that read it."""
        if context.note_local(name, value):
            for reader in context.local_readers:
                self.mark(reader)

    def owner_cells(self, owner: Atom) -> dict[str, Cell]:
        return self.cells_of.get(owner, {})


def _places(arguments: dict[str, Value]) -> tuple[Any, ...]:
    """Which arguments lie on the host alone or name it: what is in host memory is never taken with what is not."""
    return tuple(name for name, value in arguments.items() if value and all(map(_is_host_place, value)))


def _is_host_place(atom: Atom) -> bool:
    return (isinstance(atom, Tensor) and atom.device == "cpu") or (isinstance(atom, Const) and atom.value == "cpu")


def carried(value: Value, cell: Cell) -> Value:
    """Give tensors and Warp arrays the identity of the cell they are read from, and host values its taint."""
    changed = False
    result: list[Atom] = []
    for atom in value:
        new = atom
        if isinstance(atom, (Items, Sequence)):
            new = _inside(atom, lambda inner: _stored_in(inner, cell))
        elif isinstance(atom, Tensor):
            new = like(atom, storage=cell)
        elif isinstance(atom, WarpArray):
            new = warp_array(atom.device, cell)
        elif (
            cell.varies and isinstance(atom, (Const, Host)) and atom.type_name in ("int", "float", "bool", "any", "str")
        ):
            taint = atom.taint if isinstance(atom, Host) and atom.taint else ("frozen", cell.label, cell)
            new = host(atom.type_name, taint)[0]
        changed = changed or new is not atom
        if new not in result:
            result.append(new)
    return tuple(result) if changed else value


def _inside(atom: Items | Sequence, change: Callable[[Value], Value]) -> Atom:
    """A tuple or sequence with its content changed."""
    if isinstance(atom, Items):
        new = tuple(change(item) for item in atom.items)
        return atom if all(a is b for a, b in zip(new, atom.items, strict=True)) else items(new)[0]
    held = change(atom.item)
    return atom if held is atom.item else sequence(atom.kind, held, atom.taint)[0]


def _stored_in(value: Value, storage: Any) -> Value:
    if not any(isinstance(atom, (Tensor, WarpArray)) for atom in value):
        return value
    return tuple(
        like(a, storage=storage)
        if isinstance(a, Tensor)
        else warp_array(a.device, storage)
        if isinstance(a, WarpArray)
        else a
        for a in value
    )


def _owned(value: Value) -> Value:
    """A cell remembers whether its content was made for it, not which other cell it came from."""
    return borrowed(value)


def borrowed(value: Value) -> Value:
    """What a cell or callee keeps of a value: whether storage is fresh, not which cell it came from."""
    return _mapped(value, False)


def argument(value: Value) -> Value:
    """What a callee sees of an argument: its caller's storage, and numbers by type, so that callees stay shared."""
    return _mapped(value, True)


def _mapped(value: Value, passed: bool) -> Value:
    for atom in value:
        if isinstance(atom, (Tensor, WarpArray)):
            if atom.storage != "other" and (passed or isinstance(atom.storage, Cell)):
                break
        elif isinstance(atom, (Items, Sequence)):
            if _inside(atom, _of_no_cell) is not atom:
                break
        elif passed and isinstance(atom, Const) and atom.type_name in ("int", "float") and atom.value not in _KEPT:
            break
    else:
        return value
    result: list[Atom] = []
    for atom in value:
        if isinstance(atom, (Items, Sequence)):
            atom = _inside(atom, _of_no_cell)
        elif isinstance(atom, Tensor) and (passed or isinstance(atom.storage, Cell)):
            atom = like(atom, storage="other")
        elif isinstance(atom, WarpArray) and (passed or isinstance(atom.storage, Cell)):
            atom = warp_array(atom.device, "other")
        elif passed and isinstance(atom, Const) and atom.type_name in ("int", "float") and atom.value not in _KEPT:
            atom = host(atom.type_name)[0]
        if atom not in result:
            result.append(atom)
    return tuple(result)


def _of_no_cell(value: Value) -> Value:
    if not any(isinstance(a, (Tensor, WarpArray)) and isinstance(a.storage, Cell) for a in value):
        return value
    return tuple(
        dict.fromkeys(
            _stored_in((a,), "other")[0] if isinstance(getattr(a, "storage", None), Cell) else a for a in value
        )
    )


_KEPT = (0, 1, -1, 2, 3, 4)
"""Small numbers are loop counts, axes and flags: they decide paths. Others only size things."""


def _label(owner: Atom, name: str) -> str:
    if isinstance(owner, Instance):
        return f"{owner.cls.name}.{name}"
    if isinstance(owner, Box):
        return f"{owner.kind} at line {owner.site[1]}"
    return name
