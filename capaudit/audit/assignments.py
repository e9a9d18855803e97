"""Binding targets: names, attributes, subscripts, unpacking, patterns; in-place operators; ``del``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from capaudit.audit import (
    attributes,
    calls,
    containers,
    exchanges,
    expressions,
    hazards,
    indexing,
    models,
    operators,
    results,
    stores,
)
from capaudit.audit.values import (
    NONE,
    NOTHING,
    Atom,
    Bound,
    Box,
    ClassRef,
    Const,
    Function,
    Host,
    Instance,
    Items,
    Mapping,
    ModuleRef,
    Object,
    Record,
    Sequence,
    Tensor,
    Unknown,
    Value,
    WarpArray,
    class_ref,
    const,
    host,
    instance,
    join,
    like,
    sequence,
    unknown,
)
from capaudit.model import Confidence
from capaudit.program import ClassInfo, FunctionInfo

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame


def assign(frame: Frame, target: ast.expr, value: Value, node: ast.expr) -> None:
    """Bind ``target`` to ``value``; ``node`` is the expression that the value comes from."""
    if frame.env is None:
        return
    match target:
        case ast.Name():
            frame.bind(target.id, value, node)
        case ast.Attribute():
            _assign_attribute(frame, target, value, node)
        case ast.Subscript():
            if value:
                indexing.write(frame, target, value, _Span(target, node))
        case ast.Tuple() | ast.List():
            _unpack(frame, target, value, node)
        case ast.Starred():
            assign(frame, target.value, sequence("list", value), node)
        case _:
            pass


class _Span(ast.stmt):
    """The place of a whole assignment, from the target to the end of the value."""

    _fields = ()

    def __init__(self, target: ast.expr, value: ast.expr) -> None:
        self.target, self.source = target, value
        self.lineno, self.col_offset = target.lineno, target.col_offset
        self.end_lineno, self.end_col_offset = value.end_lineno, value.end_col_offset
        if (self.end_lineno or 0, self.end_col_offset or 0) < (target.end_lineno or 0, target.end_col_offset or 0):
            self.end_lineno, self.end_col_offset = target.end_lineno, target.end_col_offset


def span(target: ast.expr, value: ast.expr) -> ast.stmt:
    return _Span(target, value)


def _assign_attribute(frame: Frame, target: ast.Attribute, value: Value, node: ast.expr, swap: bool = False) -> None:
    owner = frame.evaluate(target.value)
    place = _Span(target, node)
    if not value:
        return
    swap = swap or (stores.owns_buffers(frame.machine, value) and exchanges.permutes(frame, target, node, value))
    for atom in owner:
        write_attribute(frame, atom, target.attr, value, place, node, swap=swap)
    key = expressions.dotted_key(target)
    if key is not None and frame.env is not None:
        root = key.partition(".")[0]
        if root in frame.dotted_roots:
            known = (f"{key}.", f"{stores.ABSENT}{key}")
            for name in [name for name in frame.env if name == key or name.startswith(known)]:
                del frame.env[name]
        if any(atom is not NONE for atom in value) and not _varying_scalar(value):
            frame.env[key] = value
            frame.dotted_roots.add(root)


def _varying_scalar(value: Value) -> bool:
    # A host number is read through its cell, so that what varies from tick to tick is seen.
    return any(isinstance(atom, (Const, Host)) for atom in value)


def write_attribute(
    frame: Frame,
    atom: Atom,
    name: str,
    value: Value,
    place: ast.AST,
    node: ast.expr | None = None,
    augmented: bool = False,
    swap: bool = False,
) -> None:
    """Bind ``atom.name``: setters first, then the heap."""
    machine = frame.machine
    match atom:
        case Instance():
            setter = _setter(machine.names.mro(atom.cls), name)
            if setter is not None:
                calls.call_function(frame, setter, atom, [value], place)
                return
            hook = machine.names.method(atom.cls, "__setattr__")
            if hook is not None and not _plain_hook(hook.owner):
                calls.call_function(frame, hook, atom, [const(name), value], place)
            cell = machine.cell(atom, name)
            _remember(cell, frame, node)
            stores.write_cell(frame, cell, value, place, name, augmented, node, swap)
            for base in machine.names.mro(atom.cls) if atom.site is not None else ():
                watched = machine.existing_cell(instance(base), name)
                if watched is not None:
                    for reader in watched.readers:
                        if cell not in reader.items.setdefault("seen", {}):
                            reader.items["seen"][cell] = None
                            machine.mark(reader)
        case ModuleRef() | ClassRef() | Function():
            owner: Atom = atom
            if isinstance(atom, ClassRef):
                owner = class_ref(atom.cls)
            cell = machine.cell(owner, name)
            stores.write_cell(frame, cell, value, place, name, augmented)
        case Object():
            if atom.path == "types.SimpleNamespace":
                stores.write_cell(frame, machine.cell(atom, name), value, place, name, augmented)
            else:
                models.note_binding(frame, atom, name, value, place)
        case Bound():
            models.note_binding(frame, atom, name, value, place)
        case Tensor() if name in ("data", "grad"):
            _rebind_data(frame, atom, name, place)
        case _:
            pass


def _remember(cell: object, frame: Frame, node: ast.expr | None) -> None:
    if node is not None and getattr(cell, "node", 1) is None:
        cell.node = (frame.module, node)  # type: ignore[attr-defined]


def _rebind_data(frame: Frame, atom: Tensor, name: str, place: ast.AST) -> None:
    """``x.data = new``: the tensor stays, its storage does not."""
    from capaudit.audit.contexts import Cell

    if name != "data" or atom.device != "cuda" or not frame.recording:
        return
    label = atom.storage.label if isinstance(atom.storage, Cell) else ""
    target = getattr(place, "target", None)
    if not label and atom.storage == "other" and isinstance(target, ast.Attribute):
        label = ast.unparse(target.value)
    if label:
        frame.reject(
            place,
            "CAP304",
            "torch.Tensor.data",
            f"{label} gets other storage through .data, while a captured graph keeps the old address",
            confidence=Confidence.LIKELY,
        )


def _setter(mro: tuple[ClassInfo, ...], name: str) -> FunctionInfo | None:
    for cls in mro:
        for overload in cls.overloads.get(name, ()):
            if overload.has_decorator("setter"):
                return overload
        if name in cls.methods:
            return None
    return None


def _plain_hook(owner: str) -> bool:
    return owner.startswith("torch.")


def _unpack(frame: Frame, target: ast.Tuple | ast.List, value: Value, node: ast.expr) -> None:
    count = len(target.elts)
    exchanges.note_unpacked(target, node)
    starred = next((i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)), None)
    columns: list[Value] = [NOTHING] * count
    for atom in value:
        if isinstance(atom, Items) and starred is None and len(atom.items) == count:
            columns = [join(c, item) for c, item in zip(columns, atom.items, strict=True)]
        elif isinstance(atom, Items) and starred is None:
            continue
        elif isinstance(atom, Box) and starred is None and atom.kind != "dict":
            if frame.recording and not atom.tick and stores.owns_buffers(frame.machine, (atom,), 3):
                containers.note_stale_order(frame, atom, node)
            columns = [join(c, indexing._list_item(frame, atom, const(i))) for i, c in enumerate(columns)]
        else:
            # Unpacking asks for a fixed count, so the first axis is no data-dependent one.
            steady = like(atom, dynamic=False) if isinstance(atom, Tensor) else atom
            item = expressions.iterate(frame, (steady,), node)
            if isinstance(atom, Tensor) and atom.dynamic:
                item = tuple(like(a, dynamic=True) if isinstance(a, Tensor) else a for a in item)
            columns = [join(c, item) for c in columns]
    if isinstance(node, ast.Attribute) and node.attr == "shape":  # what a tensor has by that name are its sizes
        columns = [tuple(a for a in c if isinstance(a, (Const, Host))) or c for c in columns]
    sources = node.elts if isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) == count else [node] * count
    swap = exchanges.crossed(target, node)
    for element, column, source in zip(target.elts, columns, sources, strict=True):
        new = column or (NOTHING if not value else unknown)
        if swap and isinstance(element, ast.Attribute):
            _assign_attribute(frame, element, new, source, swap=stores.owns_buffers(frame.machine, new))
        else:
            assign(frame, element, new, source)


def augment(frame: Frame, node: ast.AugAssign) -> None:
    """Evaluate ``target op= value``: tensors change in place, host values are rebound."""
    target = node.target
    if isinstance(target, ast.Subscript):
        indexing.augment(frame, node, target)
        return
    loaded: ast.expr
    if isinstance(target, ast.Name):
        loaded = ast.copy_location(ast.Name(target.id, ast.Load()), target)
    else:
        loaded = ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    old = frame.evaluate(loaded)
    value = frame.evaluate(node.value)
    kept: Value = NOTHING  # changed in place: the name stands for the same object afterwards
    bound: Value = NOTHING
    for atom in old:
        if isinstance(atom, Tensor):
            kept = join(kept, (_in_place(frame, atom, value, node),))
        elif isinstance(atom, Box) and isinstance(node.op, ast.Add):
            frame.machine.join_cell(frame.machine.cell(atom, "*"), expressions.iterate(frame, value, node))
            kept = join(kept, (atom,))
        elif isinstance(atom, Box) and isinstance(node.op, ast.BitOr):
            calls.update_box(frame, atom, value)
            kept = join(kept, (atom,))
        elif isinstance(atom, WarpArray):
            frame.record(node, "warp.array operator")
            results.note_write(frame, (atom,))
            kept = join(kept, (atom,))
        elif isinstance(atom, Instance) and (found := _in_place_dunder(frame, atom, node, value)) is not None:
            bound = join(bound, found)
        elif isinstance(atom, (Unknown, Items, Sequence, Mapping, Record)) and any(
            isinstance(other, Tensor) for other in old
        ):
            kept = join(kept, (atom,))  # what else it may be is taken for a tensor as well
        else:
            bound = join(bound, _widened(operators.binary(frame, node.op, (atom,), value, node)))
    result = join(kept, bound)
    if isinstance(target, ast.Name):
        if frame.env is not None:
            frame.bind(target.id, result, None)
        return
    for atom in frame.evaluate(target.value):  # properties with setters see the same object again
        if kept and isinstance(atom, Instance) and _setter(frame.machine.names.mro(atom.cls), target.attr) is not None:
            write_attribute(frame, atom, target.attr, result, node)
        elif bound or not kept:
            write_attribute(frame, atom, target.attr, bound, node, None, True)
    if kept and not bound:
        return
    key = expressions.dotted_key(target)
    if key is not None and frame.env is not None:
        frame.env.pop(key, None)


def _widened(value: Value) -> Value:
    """An accumulated number is not a constant."""
    return tuple(
        host(a.type_name)[0] if isinstance(a, Const) and a.type_name in ("int", "float", "str") else a for a in value
    )


def _in_place(frame: Frame, atom: Tensor, value: Value, node: ast.AugAssign) -> Tensor:
    for other in value:
        hazards.frozen_operand(frame, other, node)
    others = [a for a in value if isinstance(a, Tensor)]
    if atom.device == "cuda" and any(o.device == "cpu" and o.rank != 0 for o in others):
        return atom
    operators.note_device_work(frame, atom, "torch.Tensor.in-place operator", node)
    results.note_write(frame, (atom,))
    return like(atom, dynamic=atom.dynamic or any(o.dynamic for o in others))


def _in_place_dunder(frame: Frame, atom: Instance, node: ast.AugAssign, value: Value) -> Value | None:
    name = operators._METHODS.get(type(node.op), "")
    return calls.call_dunder(frame, atom, f"__i{name}__", [value], node)


def delete(frame: Frame, target: ast.expr, node: ast.Delete) -> None:
    """``del`` drops a name; dropping the last reference to a device buffer frees it while capturing."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            delete(frame, element, node)
        return
    if isinstance(target, ast.Name):
        value = (frame.env or {}).get(target.id, NOTHING)
        if frame.env is not None:
            frame.env.pop(target.id, None)
        _note_free(frame, value, node, target, lasting=False)
        return
    if isinstance(target, ast.Attribute):
        _note_free(frame, expressions.quietly(frame, target), node, target, lasting=True)
    elif isinstance(target, ast.Subscript):
        held = expressions.quietly(frame, target.value)
        index = frame.evaluate(target.slice)
        for atom in held:
            if isinstance(atom, Box):
                if atom.kind != "dict":
                    indexing.note_position(frame, index, node, target.slice)
                _note_free(frame, containers.held(frame, atom), node, target, lasting=not atom.tick)


def _note_free(frame: Frame, value: Value, node: ast.Delete, target: ast.expr, lasting: bool) -> None:
    """Freeing what existed before the capture calls into the driver; fresh tensors go back to the graph's pool."""
    if not frame.recording or not lasting:
        return
    graph = any(
        isinstance(a, Object) and a.path in ("torch.cuda.CUDAGraph", "torch.cuda.graphs.CUDAGraph", "warp.Graph")
        for a in value
    )
    if graph or any(isinstance(a, WarpArray) for a in value) or hazards.device_tensors(value):
        frame.reject(
            node,
            "CAP305",
            "del",
            f"del {ast.unparse(target)} frees a buffer or graph from before the capture while the stream is capturing",
            confidence=Confidence.LIKELY,
            subject=target,
        )


def bind_pattern(frame: Frame, pattern: ast.pattern, subject: Value) -> None:
    """Bind the names of a ``match`` pattern."""
    match pattern:
        case ast.MatchAs():
            if pattern.pattern is not None:
                bind_pattern(frame, pattern.pattern, subject)
            if pattern.name is not None:
                frame.bind(pattern.name, subject)
        case ast.MatchStar() if pattern.name is not None:
            frame.bind(pattern.name, sequence("list", unknown))
        case ast.MatchSequence():
            item = expressions.iterate(frame, subject, ast.Pass())
            for inner in pattern.patterns:
                bind_pattern(frame, inner, item or unknown)
        case ast.MatchMapping():
            for inner in pattern.patterns:
                bind_pattern(frame, inner, unknown)
            if pattern.rest is not None:
                frame.bind(pattern.rest, subject)
        case ast.MatchClass():
            for name, inner in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
                bind_pattern(frame, inner, attributes.read(frame, subject, name, ast.Name(name)))
            for inner in pattern.patterns:
                bind_pattern(frame, inner, unknown)
        case ast.MatchOr():
            for inner in pattern.patterns:
                bind_pattern(frame, inner, subject)
        case _:
            pass
