"""Heap reads and writes inside a frame, with what they mean for a replay.

Three facts are gathered per tick: which cells are read before they are written (state carried from
tick to tick), which are certainly written, and which are bound to new storage. A cell that is both
carried and rebound is a stale carrier.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from capaudit.audit import asking, once, stamps, unread
from capaudit.audit.contexts import Cell, Context, Rebind
from capaudit.audit.values import (
    KEPT,
    NONE,
    NOTHING,
    UNKNOWN,
    Atom,
    Box,
    Const,
    Host,
    Instance,
    Items,
    Object,
    Sequence,
    Tensor,
    Value,
    WarpArray,
    const,
    join,
    settled,
)
from capaudit.model import Confidence
from capaudit.program import Module, walk

if TYPE_CHECKING:
    from capaudit.audit.frame import Environment, Frame
    from capaudit.audit.machine import Machine


def read_cell(frame: Frame, cell: Cell, node: ast.AST | None) -> Value:
    """Read a cell and note when a tick reads it before writing it."""
    value = frame.machine.read_cell(cell, frame.context)
    if frame.recording and not is_written(frame, cell):
        if cell.persistent and _may_carry(value) and not once.is_first_use(frame):
            if asking.uses_nothing(frame, node, value):
                asking.note(frame, node, cell)
            else:
                _note_read(frame, cell, node)
        if cell in frame.machine.watched:
            frame.context.items.setdefault("host-reads", {})[cell] = None
    return value


def _note_read(frame: Frame, cell: Cell, node: ast.AST | None) -> None:
    if not unread.is_unread(frame):
        stamps.note_read(frame.context, cell, (frame.module, node or ast.Pass()), stamps.since(frame, cell))


def read_narrowed(frame: Frame, key: str, node: ast.AST) -> Value:
    """Read what a test has found out about a name; the storage that the test only asked for is used here."""
    value = (frame.env or {})[key]
    if frame.recording and not once.is_first_use(frame):
        for cell in asking.asked_before(frame, key):
            if not is_written(frame, cell) and not asking.uses_nothing(frame, node, value):
                _note_read(frame, cell, node)
    return value


def is_written(frame: Frame, cell: Cell) -> bool:
    """Whether the function has bound the cell on its way here, so that no earlier value counts."""
    return _written_key(cell) in (frame.env or {})


def _may_carry(value: Value) -> bool:
    return any(isinstance(atom, (Tensor, WarpArray, Items, Sequence, Box, Instance, Object)) for atom in value)


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
    return False


def makes_buffers(machine: Machine, value: Value) -> bool:
    """True when a value holds device buffers that were made for it, not only views of what existed before."""
    return owns_buffers(machine, value, 2, fresh=True)


def owns_buffers(machine: Machine, value: Value, depth: int = 2, *, fresh: bool = False) -> bool:
    """True when a value holds device buffers, those inside its containers and objects included."""
    if fresh:
        if any(isinstance(a, (Tensor, WarpArray)) and a.device == "cuda" and a.storage == "fresh" for a in value):
            return True
    elif holds_buffers(value):
        return True
    if depth <= 0:
        return False
    for atom in value:
        if isinstance(atom, (Box, Instance)):
            if fresh and atom.site is not None and not atom.tick:
                continue  # set-up made it
            if any(
                owns_buffers(machine, cell.value, depth - 1, fresh=fresh)
                for cell in list(machine.owner_cells(atom).values())
            ):
                return True
            if isinstance(atom, Instance) and machine.names.is_subclass_of_library(atom.cls, *_MODULES):
                return True
        elif (isinstance(atom, Object) and atom.path.startswith("torch.nn.")) or (
            isinstance(atom, Items) and any(owns_buffers(machine, item, depth - 1, fresh=fresh) for item in atom.items)
        ):
            return True
    return False


_MODULES = ("torch.nn.Module", "torch.nn.modules.module.Module")


def write_cell(
    frame: Frame,
    cell: Cell,
    value: Value,
    node: ast.AST | None,
    name: str,
    augmented: bool = False,
    source: ast.expr | None = None,
    swap: bool = False,
) -> None:
    """Join a value into a cell and note rebinding and varying host state inside a boundary."""
    machine = frame.machine
    if cell.node is None and node is not None:
        cell.node = (frame.module, node)
    if frame.env is None:
        return
    if frame.context.phase == "after":
        if cell.persistent and not frame.failure:
            _note_rebind(frame, cell, value, node or ast.Pass(), swap)
        return
    before = cell.value
    machine.join_cell(cell, value if frame.tick else settled(value))
    if not frame.tick:
        cell.first = join(cell.first, value)
        if frame.function is not None and value != (NONE,) and not frame.context.items.get("speculative"):
            cell.written_by[frame.function] = None
        return
    if frame.failure or not cell.persistent:
        return
    place = node or ast.Pass()
    _note_dropped_graph(frame, cell, before, value, place)
    lazy = _note_lazy(frame, cell, value, place, name, swap)
    _note_varying(frame, cell, value, place, name, augmented, source)
    if augmented:
        stamps.advance(frame, cell)
    if not lazy and not _is_settled_conversion(frame, cell, place):
        _note_last(frame, cell, place, own=True)
        _note_rebind(frame, cell, value, place, swap)
    note_written(frame, cell)


def note_written(frame: Frame, cell: Cell) -> None:
    """Remember that a tick has bound a lasting name on its way here."""
    if frame.env is not None:
        frame.env[_written_key(cell)] = ()
        frame.writes += 1
        register(frame, cell)


def _note_dropped_graph(frame: Frame, cell: Cell, before: Value, value: Value, node: ast.AST) -> None:
    """Binding something else over a graph destroys it, here while the stream is capturing."""
    held = [a for a in before if isinstance(a, Object) and a.path in _GRAPHS]
    if held and not any(atom in held for atom in value) and value:
        frame.reject(
            node,
            "CAP305",
            "graph dropped",
            f"{cell.label} held a graph, which is destroyed while the stream is capturing",
            confidence=Confidence.LIKELY,
        )


_GRAPHS = ("torch.cuda.CUDAGraph", "torch.cuda.graphs.CUDAGraph", "warp.Graph")


def _note_varying(
    frame: Frame, cell: Cell, value: Value, node: ast.AST, name: str, augmented: bool, source: ast.expr | None
) -> None:
    scalars = [atom for atom in value if isinstance(atom, (Const, Host)) and atom is not NONE]
    if not scalars:
        if value == (NONE,):
            cell.constants[None] = None
        return
    _note_host_away(frame, cell, node)
    if once.ONCE in frame.mode and once.GROWTH not in frame.mode:
        note_final(frame, cell, value)
        return  # settled on first use, so every later tick finds the same
    frame.host_writes.append((cell, (frame.module, node)))
    note_final(frame, cell, value)
    varying = augmented or _reads_itself(node, name) or (source is not None and _reads_itself(source, name))
    for atom in scalars:
        if isinstance(atom, Const):
            if atom.type_name != "str":  # names of modes are corrected once, not toggled
                cell.constants[(atom.type_name, atom.value)] = None
        elif atom.taint is not None and atom.taint[0] in ("frozen", "rng", "clock"):
            varying = True
    if len([key for key in cell.constants if key is not None]) > 1:
        varying = True
    if varying:
        if cell.tick_write is None:
            cell.tick_write = (frame.module, node)
        frame.machine.set_varies(cell)


FINAL = ".c"
"""Begins the environment keys that hold what a lasting host value was last set to."""


def note_final(frame: Frame, cell: Cell, value: Value) -> None:
    """Remember the value that a lasting name has at this point of the tick."""
    if frame.env is not None:
        key = f"{FINAL}{id(cell)}"
        frame.env[key] = value
        frame.context.items.setdefault("final-cells", {})[key] = cell


def note_back(frame: Frame, target: ast.Attribute) -> None:
    """Note that a lasting number is 0 here on every way."""
    from capaudit.audit import expressions

    for atom in expressions.quietly(frame, target.value):
        cell = frame.machine.existing_cell(atom, target.attr)
        if cell is not None and frame.env is not None and f"{FINAL}{id(cell)}" in frame.env:
            note_final(frame, cell, const(0))
            note_written(frame, cell)


def is_restored(machine: Machine, cell: Cell, root: Context, contexts: Iterable[Context]) -> bool:
    """Whether every tick leaves a host value as it found it.

    Either it is the same constant at construction and at each end, or every function that changes it
    gives it back what it kept.
    """
    final = root.items.get("finals", {}).get(cell)
    end = final[0] if final and len(final) == 1 else None
    if isinstance(end, Const) and (cell.first == final or _starts_as(machine, cell, end)):
        return True
    changing = [context for context in contexts if cell in context.items.get("rebound", ())]
    return bool(changing) and all(keeps(context, cell) for context in changing)


def _starts_as(machine: Machine, cell: Cell, value: Const) -> bool:
    """Whether the constructor binds a name to a constant."""
    owner = cell.owner
    init = machine.names.method(owner.cls, "__init__") if isinstance(owner, Instance) else None
    for node in walk(init.node) if init is not None else ():
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Constant(value=start)):
                pass
            case ast.AnnAssign(target=ast.Attribute(attr=name), value=ast.Constant(value=start)):
                pass
            case _:
                continue
        if name == cell.name and start == value.value and type(start) is type(value.value):
            return True
    return False


def _note_host_away(frame: Frame, cell: Cell, node: ast.AST) -> None:
    """Note whether a host value is set aside here, or gets back what a local kept of it."""
    from capaudit.audit import expressions

    target, source = getattr(node, "target", None), getattr(node, "source", None)
    first = frame.context.items.setdefault("first-writes", {}).setdefault(cell, getattr(node, "lineno", 0))
    origin = frame.stories.get(source.id) if isinstance(source, ast.Name) else None
    back = (
        isinstance(target, ast.Attribute)
        and isinstance(origin, ast.Attribute)
        and origin.lineno < first
        and (key := expressions.dotted_key(origin)) is not None
        and key == expressions.dotted_key(target)
    )
    if frame.env is not None:
        frame.env[_away_key(cell)] = const(not back)
        frame.context.items.setdefault("rebound", {}).setdefault(cell, {})


def _reads_itself(node: ast.AST, name: str) -> bool:
    target, source = getattr(node, "target", None), getattr(node, "source", None)
    if isinstance(target, ast.Subscript) and source is not None:
        container = ast.dump(target.value).replace("Store()", "Load()")
        return any(isinstance(inner, ast.Subscript) and ast.dump(inner.value) == container for inner in walk(source))
    node = source or node
    return any(
        isinstance(inner, ast.Attribute) and inner.attr == name and isinstance(inner.ctx, ast.Load)
        for inner in walk(node)
    )


def _note_rebind(frame: Frame, cell: Cell, value: Value, node: ast.AST, swap: bool) -> None:
    """Note that a lasting name is bound to storage other than its own."""
    late = frame.context.phase == "after"
    if not late and _is_put_back(frame, cell, value, node):
        return
    for atom in value:
        storage = getattr(atom, "storage", None)
        if isinstance(atom, WarpArray) or (isinstance(atom, Tensor) and atom.device == "cuda"):
            if storage is cell or storage == KEPT:
                continue
            exchanged = swap or isinstance(storage, Cell)
            source = storage if isinstance(storage, Cell) and not swap else None
            _add_rebind(frame, cell, node, _reads_itself(node, cell.name) or exchanged, exchanged, source)
            return
        moved = _is_moved(frame, atom, cell, node)
        if swap or moved or _is_new_holder(frame, atom, cell, late, node):
            _add_rebind(frame, cell, node, not late and _reads_itself(node, cell.name), swap or moved)
            return


_CONVERSIONS = ("to", "cuda", "contiguous")


def _is_settled_conversion(frame: Frame, cell: Cell, node: ast.AST) -> bool:
    """``x.a = x.a.to(device)``: from the second time on it gets back what it had, or what this tick has just bound."""
    target, source = getattr(node, "target", None), getattr(node, "source", None)
    if not isinstance(target, ast.Attribute) or not isinstance(source, ast.Call) or frame.function is None:
        return False
    func, text = source.func, ast.unparse(target)
    if not isinstance(func, ast.Attribute) or func.attr not in _CONVERSIONS or ast.unparse(func.value) != text:
        return False
    if any(keyword.arg == "copy" for keyword in source.keywords):
        return False
    last = (frame.env or {}).get(f"{FINAL}l{id(cell)}", NOTHING)
    if last and not any(isinstance(a, Const) and str(a.value).startswith("own ") for a in last):
        return True
    bound = [n for n in walk(frame.function.node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
    return sum(ast.unparse(n) == text for n in bound) == 1


def _is_moved(frame: Frame, atom: Atom, cell: Cell, node: ast.AST) -> bool:
    """Whether a lasting object that holds buffers comes from one lasting name to another that held a different one."""
    if not isinstance(atom, (Instance, Box)) or atom.tick or atom in cell.first:
        return False
    source = getattr(node, "source", None)
    origin = frame.stories.get(source.id) if isinstance(source, ast.Name) else source
    held = tuple(a for a in cell.first if isinstance(a, type(atom)))
    return isinstance(origin, ast.Attribute) and all(owns_buffers(frame.machine, value, 1) for value in ((atom,), held))


def _is_put_back(frame: Frame, cell: Cell, value: Value, node: ast.AST) -> bool:
    """Whether a name gets back what a local kept of it before the function bound it to something else."""
    env, source = frame.env, getattr(node, "source", None)
    earlier = [r.node for r in frame.context.rebinds if r.cell is cell]
    if env is None or not earlier or not isinstance(source, ast.Name) or not holds_buffers(value):
        return False
    if any(isinstance(a, (Tensor, WarpArray)) and a.storage is not cell for a in value):
        return False
    origin = frame.stories.get(source.id)
    if origin is None or any(origin.lineno >= getattr(place, "lineno", 0) for place in earlier):
        return False
    env[_away_key(cell)] = const(False)
    return True


def _away_key(cell: Cell) -> str:
    return f"{FINAL}a{id(cell)}"


def _passed_through(frame: Frame, atom: Atom, node: ast.AST) -> bool:
    """Whether the call that an object comes from was given the object itself."""
    from capaudit.audit import expressions

    source = getattr(node, "source", None)
    return isinstance(source, ast.Call) and any(
        atom in expressions.quietly(frame, argument)
        for argument in source.args
        if isinstance(argument, (ast.Name, ast.Attribute))
    )


def _holds_other_buffers(atom: Items | Sequence, cell: Cell) -> bool:
    """Whether a tuple holds buffers beside those that the cell itself held."""
    for value in atom.items if isinstance(atom, Items) else (atom.item,):
        for inner in value:
            if isinstance(inner, (Tensor, WarpArray)):
                if inner.device == "cuda" and inner.storage is not cell:
                    return True
            elif holds_buffers((inner,)):
                return True
    return False


def _is_new_holder(frame: Frame, atom: Atom, cell: Cell, late: bool, node: ast.AST) -> bool:
    """Containers and objects made here that hold buffers stand for new storage as well."""
    if isinstance(atom, (Items, Sequence)):
        return _holds_other_buffers(atom, cell) or (late and not holds_buffers((atom,)) and holds_buffers(cell.value))
    if late and isinstance(atom, Instance) and atom in cell.value and _passed_through(frame, atom, node):
        return False
    if isinstance(atom, (Box, Instance)):
        made_here = atom.tick or (
            late and (atom not in cell.value or isinstance(getattr(node, "source", None), ast.Call))
        )
        return made_here and (
            owns_buffers(frame.machine, (atom,)) or (late and owns_buffers(frame.machine, cell.value))
        )
    if isinstance(atom, Object) and atom.path == "torch.compile" and atom.content:
        # A compiled module works on the parameters of the module that it wraps.
        return any(_is_new_holder(frame, inner, cell, False, node) for inner in atom.content)
    if isinstance(atom, Object):
        made_late = late and (atom not in cell.value or isinstance(getattr(node, "source", None), ast.Call))
        return made_late and owns_buffers(frame.machine, (atom,))
    return late and atom is UNKNOWN and owns_buffers(frame.machine, cell.value)


def _add_rebind(
    frame: Frame, cell: Cell, node: ast.AST, definite: bool, swap: bool, source: Cell | None = None
) -> None:
    if frame.env is not None:
        frame.env[_away_key(cell)] = const(True)
        frame.context.items.setdefault("rebound", {}).setdefault(cell, {})
    _note_last(frame, cell, node)
    line = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
    if any(
        r.cell is cell and (r.node is node or (getattr(r.node, "lineno", 0), getattr(r.node, "col_offset", 0)) == line)
        for r in frame.context.rebinds
    ):
        return  # a loop's further rounds
    made = getattr(node, "source", None)
    frame.context.rebinds.append(
        Rebind(
            cell,
            frame.module,
            node,
            definite,
            swap,
            times(frame),
            source,
            grows=once.GROWTH in frame.mode,
            empties=isinstance(made, ast.List) and not made.elts,
            followed=frame.context.phase == "tick",
        )
    )


def _note_last(frame: Frame, cell: Cell, node: ast.AST, *, own: bool = False) -> None:
    """Note which binding a lasting name has last seen here; ``own``: one that leaves it its own storage."""
    if frame.env is not None and frame.context.phase == "tick":
        key = f"{FINAL}l{id(cell)}"
        place = "own " * own + _line_of(frame.module, node, frame.context)
        frame.env[key] = const(place)
        frame.context.items.setdefault("last-cells", {})[key] = cell
        if frame.function is not None:
            frame.machine.memo["binding", place] = frame.function.cls


def _line_of(module: Module, node: ast.AST, context: Context) -> str:
    """A binding: what it binds may differ from call to call."""
    return f"{module.name}:{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)} in {context.serial}"


def is_superseded(machine: Machine, rebind: Rebind, context: Context, root: Context) -> bool:
    """Whether the same tick binds the name again in any case, so that no later tick meets this storage.

    Only bindings of related classes follow each other: others are what a call may do instead.
    """
    last = root.items.get("lasts", {}).get(rebind.cell, NOTHING) if rebind.followed else NOTHING
    places = [atom.value for atom in last if isinstance(atom, Const)]
    own = _line_of(rebind.module, rebind.node, context)
    if not places or own in places:
        return False
    cls = machine.memo.get(("binding", own))
    others = [machine.memo.get(("binding", place)) for place in places]
    return cls is not None and all(other is not None and machine.names.are_related(cls, other) for other in others)


def times(frame: Frame) -> int | None:
    """How often the statement at hand runs in one call of its function; ``None`` where loops have no constant count."""
    product = 1
    for count in frame.loop_parity:
        if count is None:
            return None
        product *= count
    return product


def _note_lazy(frame: Frame, cell: Cell, value: Value, node: ast.AST, name: str, swap: bool = False) -> bool:
    """Storage that is created on first use would be created while capturing, unless a warm-up came first.

    Returns whether this is a guarded first binding, which no later tick repeats.
    """
    env = frame.env or {}
    marks = [key for key in env if key.startswith(".lazy ")]
    marked = any(key.endswith(f".{name}") for key in marks) or _made_along(frame, marks, value, node)
    if not marked and not once.is_first_binding(frame, cell):
        return False
    if None in cell.constants:
        return True  # emptied again in every tick: a per-tick memo, not lasting storage
    if swap or frame.flag(once.REFUSED):
        return True  # names exchanged once; or what raises in a capture before it gets here
    if not makes_buffers(frame.machine, value) or is_warm(frame, cell):
        return True
    frame.reject(
        node,
        "CAP301",
        "lazy-storage",
        f"{cell.label} is created on first use; inside a capture it lands in the graph's own memory and every "
        "replay creates it again",
        confidence=Confidence.POSSIBLE if cell.written_by else Confidence.LIKELY,
        remedy="Create the buffer at construction, or run the captured path once before capturing.",
    )
    return True


def _made_along(frame: Frame, marks: list[str], value: Value, node: ast.AST) -> bool:
    """Whether fresh storage is bound beside the one that a guard found missing: one guard stands for both."""
    target, source = getattr(node, "target", None), getattr(node, "source", None)
    if not marks or not isinstance(target, ast.Attribute) or not isinstance(source, ast.Call):
        return False
    from capaudit.audit import expressions

    owner = expressions.dotted_key(target.value) or getattr(target.value, "id", None)
    beside = any(mark.removeprefix(".lazy ").rpartition(".")[0] == owner for mark in marks)
    return (
        beside and makes_buffers(frame.machine, value) and not any(_reads_itself(a, target.attr) for a in source.args)
    )


def is_warm(frame: Frame, cell: Cell | None = None) -> bool:
    """Whether the code at hand is seen to run before the capture."""
    if frame.machine.warm or frame.context.function in frame.machine.warmed:
        return True
    return cell is not None and (frame.function in cell.written_by or once.is_filled_by_setup(frame.machine, cell))


_MOST_WRITES = 40


def absorb_callee(frame: Frame, callee: Context) -> None:
    """Take over what a called context reads, writes and does to streams, in program order."""
    if frame.env is None or not frame.tick:
        return
    context = frame.context
    if callee not in frame.absorbed:
        frame.absorbed.add(callee)
        stamped = callee.items.get("stamped", {})
        for cell, place in callee.entry_reads.items():
            if _written_key(cell) not in frame.env:
                stamps.note_read(context, cell, place, stamped.get(cell))
    for cell in callee.items.get("host-reads", ()):
        if _written_key(cell) not in frame.env:
            context.items.setdefault("host-reads", {})[cell] = None
    if advanced := callee.items.get("advanced"):
        context.items.setdefault("advanced", {}).update(advanced)
    frame.writes += len(callee.must_write)
    for cell in callee.must_write:
        frame.env[_written_key(cell)] = ()
        context.items.setdefault("cells", {})[_written_key(cell)] = cell
    if callee.items.get("refuses-capture") and frame.flag(once.ONCE):
        frame.mode = frame.mode | {once.REFUSED}
    work, opaque, written = callee.items.get("work", (0, 0, ()))
    frame.work += bool(work)
    frame.opaque += bool(opaque)
    frame.host_writes.extend(written[:_MOST_WRITES])
    for cell, value in callee.items.get("finals", {}).items():
        key = f"{FINAL}{id(cell)}"
        before = frame.env.get(key, NOTHING) if cell not in callee.must_write else NOTHING
        note_final(frame, cell, join(before, value))
    for cell, value in callee.items.get("lasts", {}).items():
        key = f"{FINAL}l{id(cell)}"
        frame.env[key] = value if cell in callee.must_write else join(frame.env.get(key, NOTHING), value)
        context.items.setdefault("last-cells", {})[key] = cell
    if callee.items.get("device-writes"):
        context.items["device-writes"] = context.items.get("device-writes", 0) + 1
    if len(context.streams) < 400:
        context.streams.extend(callee.streams[:200])


def keeps(context: Context, cell: Cell) -> bool:
    """Whether every way out of a function leaves a name bound as the function found it."""
    ends = context.items.get("rebound", {}).get(cell)
    return bool(ends) and all(isinstance(atom, Const) and not atom.value for atom in ends)


ABSENT = ".none "
"""Begins the environment keys that hold what a name is not: the objects that it names elsewhere."""


def absent_objects(env: Environment) -> frozenset[Atom]:
    """Objects that do not exist where an environment holds, because the name that leads to them is ``None``."""
    return frozenset(atom for key, value in env.items() if key.startswith(ABSENT) for atom in value)


def is_fallback(frame: Frame) -> bool:
    """Whether the code at hand only runs where something that callers may provide is missing."""
    return frame.flag("fallback") or bool(absent_objects(frame.env or {}))


def is_absent(machine: Machine, cell: Cell, missing: frozenset[Atom]) -> bool:
    """Whether a cell belongs to one of the missing objects, or to one that they may stand for."""
    owner = cell.owner
    if owner in missing:
        return True
    if not isinstance(owner, Instance):
        return False
    mro = machine.names.mro(owner.cls)
    return any(isinstance(atom, Instance) and atom.site is None and atom.cls in mro for atom in missing)


def note_exit(frame: Frame) -> None:
    """At a return: only cells written on every way out are certainly written."""
    if not frame.tick or frame.env is None:
        return
    context = frame.context
    table = context.items.setdefault("cells", {})
    finals = context.items.setdefault("finals", {})
    for key, cell in context.items.get("final-cells", {}).items():
        if key in frame.env:
            finals[cell] = join(finals.get(cell, NOTHING), frame.env[key])
    lasts = context.items.setdefault("lasts", {})
    for key, cell in context.items.get("last-cells", {}).items():
        if key in frame.env:
            lasts[cell] = join(lasts.get(cell, NOTHING), frame.env[key])
    for cell, ends in context.items.get("rebound", {}).items():
        ends.update(dict.fromkeys(frame.env.get(_away_key(cell), NOTHING)))
    written = frozenset(key for key in frame.env if key.startswith(".w"))
    missing = absent_objects(frame.env)
    exits = context.items.setdefault("exit", {})
    exits[written, missing] = None
    context.must_write = {
        cell: None
        for key, cell in table.items()
        if all(key in ours or (gone and is_absent(frame.machine, cell, gone)) for ours, gone in exits)
        and any(key in ours for ours, _ in exits)
    }


def register(frame: Frame, cell: Cell) -> None:
    frame.context.items.setdefault("cells", {})[_written_key(cell)] = cell
