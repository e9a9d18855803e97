"""Square brackets: reads, writes and in-place operators through an index."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from capaudit.audit import calls, conditions, containers, emptiness, hazards, operators, results, stores
from capaudit.audit.conditions import Match
from capaudit.audit.values import (
    NONE,
    NOTHING,
    UNKNOWN,
    Array,
    Atom,
    Box,
    ClassRef,
    Const,
    Function,
    Host,
    Instance,
    Items,
    Library,
    Mapping,
    Object,
    Record,
    Sequence,
    Slice,
    Tensor,
    Value,
    WarpArray,
    host,
    items,
    join,
    join_all,
    like,
    sequence,
    unknown,
    warp_array,
)
from capaudit.knowledge import Case, Operation
from capaudit.model import Confidence, OwnershipClass

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame

_ID_WORDS = ("ids", "idx", "idxs", "index", "indices", "indexes", "id", "perm", "order", "rows", "slots")
_MASK_WORDS = (
    "mask",
    "done",
    "dones",
    "active",
    "valid",
    "invalid",
    "terminated",
    "truncated",
    "alive",
    "flag",
    "flags",
)


def read(frame: Frame, node: ast.Subscript) -> Value:
    """Evaluate ``target[index]``."""
    target = frame.evaluate(node.value)
    if _is_type_expression(target):
        return target
    index = frame.evaluate(node.slice)
    if not target or not index:
        return NOTHING
    if any(isinstance(atom, Tensor) for atom in target) and any(isinstance(atom, (Tensor, Items)) for atom in index):
        # What a tensor or several axes index is a tensor, not the host value of unknown type beside it.
        target = tuple(a for a in target if not (isinstance(a, Host) and a.type_name == "any"))
    picks_many = any(isinstance(atom, Tensor) and atom.rank != 0 for atom in index)
    if any(isinstance(atom, Tensor) for atom in target) and (picks_many or _takes_slices(node.slice)):
        target = tuple(a for a in target if not isinstance(a, (Box, Items, Sequence, Mapping, Record)))
    result: Value = NOTHING
    for atom in target:
        result = join(result, _read_atom(frame, atom, index, node))
    return result


def _takes_slices(node: ast.expr) -> bool:
    """Whether an index takes a slice of one axis beside others, which no container of Python's can be asked for."""
    return isinstance(node, ast.Tuple) and any(isinstance(part, ast.Slice) for part in node.elts)


def _is_type_expression(target: Value) -> bool:
    return len(target) == 1 and isinstance(target[0], (ClassRef, Library))


def _read_atom(frame: Frame, atom: Atom, index: Value, node: ast.Subscript) -> Value:
    match atom:
        case Tensor():
            return read_tensor(frame, atom, index, node)
        case Instance():
            found = calls.call_dunder(frame, atom, "__getitem__", [index], node)
            if found is not None:
                return found
            sub = _library_dictionary(frame, atom)
            return sub if sub is not None else unknown
        case Box() | Items() | Sequence() | Mapping() | Record():
            return _read_container(frame, atom, index, node)
        case Array():
            hazards.host_read(
                frame, _all_tensors(index), node, "a NumPy array is indexed by a tensor", node.slice, "python.index"
            )
            return (atom, *host("any")) if _is_scalar_index(index) else (atom,)
        case WarpArray():
            return (warp_array(atom.device, atom.storage),)
        case Object():
            if atom.content:
                return atom.content
            return unknown
        case Const() | Host():
            if atom is NONE:
                return NOTHING
            if atom.type_name != "any":
                hazards.host_read(
                    frame, _all_tensors(index), node, "a string is indexed by a tensor", node.slice, "python.index"
                )
            return host("str") if atom.type_name == "str" else host("any")
        case Function():
            return unknown
        case _:
            return unknown


def _library_dictionary(frame: Frame, atom: Instance) -> Value | None:
    bases = frame.machine.names.external_bases(atom.cls)
    if any(
        base.rpartition(".")[2] in ("dict", "OrderedDict", "UserDict", "ModuleDict", "ModuleList", "list")
        for base in bases
    ):
        return unknown
    return None


def _all_tensors(index: Value) -> Value:
    """Tensors that an index is or that bound a slice: a host sequence asks either for a Python number."""
    bounds = tuple(bound for atom in index if isinstance(atom, Slice) for bound in atom.bounds)
    return tuple(atom for atom in (*index, *bounds) if isinstance(atom, Tensor))


def note_position(frame: Frame, index: Value, node: ast.AST, subject: ast.expr) -> None:
    """Record what it costs to take a position of a Python sequence from a tensor."""
    found = _all_tensors(index)
    hazards.host_read(frame, found, node, "a Python list or tuple is indexed by a tensor", subject, "python.index")


def _is_scalar_index(index: Value) -> bool:
    return all(isinstance(atom, (Const, Host)) for atom in index)


def _read_container(frame: Frame, atom: Atom, index: Value, node: ast.Subscript) -> Value:
    if not isinstance(atom, (Mapping, Record)) and not (isinstance(atom, Box) and atom.kind == "dict"):
        note_position(frame, index, node, node.slice)
    if any(isinstance(i, Slice) for i in index):
        if isinstance(atom, Items):
            return _slice_items(atom, node)
        if isinstance(atom, Sequence) and atom.kind == "shape" and isinstance(node.slice, ast.Slice):
            lower = node.slice.lower
            if lower is not None and not (isinstance(lower, ast.Constant) and lower.value == 0):
                return sequence("shape", host("int"))
        return (atom,) if isinstance(atom, (Box, Sequence)) else unknown
    held: Value
    if isinstance(atom, Items):
        held = NOTHING
        for i in index:
            if isinstance(i, Const) and isinstance(i.value, int) and -len(atom.items) <= i.value < len(atom.items):
                held = join(held, atom.items[i.value])
            else:
                held = join(held, join_all(atom.items))
    elif isinstance(atom, Box) and atom.kind != "dict":
        held = _list_item(frame, atom, index)
    elif isinstance(atom, Sequence):
        held = atom.item
        if atom.kind == "shape" and not _first_axis(index):
            held = host("int")
    else:
        held = containers.entry(frame, atom, index)
    _note_frozen_pick(frame, atom, index, held, node)
    return held


def _first_axis(index: Value) -> bool:
    """Whether an index into a shape may mean the first axis, the only one that selections make data-dependent."""
    return any(not isinstance(atom, Const) or atom.value == 0 for atom in index)


def _slice_items(atom: Items, node: ast.Subscript) -> Value:
    part = node.slice
    if isinstance(part, ast.Slice):
        bounds: list[int | None] = []
        for bound in (part.lower, part.upper, part.step):
            if bound is None:
                bounds.append(None)
            else:
                try:
                    bounds.append(int(ast.literal_eval(bound)))
                except (ValueError, TypeError, SyntaxError):
                    return sequence("tuple", join_all(atom.items))
        return items(atom.items[slice(*bounds)])
    return sequence("tuple", join_all(atom.items))


def _list_item(frame: Frame, atom: Box, index: Value) -> Value:
    machine = frame.machine
    if len(index) == 1 and isinstance(index[0], Const) and isinstance(index[0].value, int) and index[0].value >= 0:
        order = machine.cell(atom, "#order")
        cell = machine.existing_cell(atom, f"[{index[0].value}]")
        if cell is not None and not order.varies:
            order.readers[frame.context] = None
            return stores.read_cell(frame, cell, None)
    return containers.held(frame, atom)


def _note_frozen_pick(frame: Frame, atom: Atom, index: Value, held: Value, node: ast.Subscript) -> None:
    """Choosing a buffer by host state that changes from tick to tick freezes the choice."""
    if not frame.recording or not stores.owns_buffers(frame.machine, held):
        return
    taint = operators.taint_of(index)
    if taint is not None and taint[0] in ("frozen", "clock", "rng"):
        hazards.frozen(frame, taint, node, "a buffer is chosen", node.slice)
        return
    if isinstance(atom, Box) and atom.kind != "dict":
        containers.note_stale_order(frame, atom, node)


# -- tensors --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Component:
    """One alternative of one component of an index; ``text`` is its source, for guesses by name."""

    atom: Atom
    text: str
    alternatives: int


def components(index: Value, node: ast.expr) -> list[list[Component]]:
    """Split an index into its components, each a list of alternatives."""
    parts: list[ast.expr] = list(node.elts) if isinstance(node, ast.Tuple) else [node]
    values: list[Value] = []
    if (
        isinstance(node, ast.Tuple)
        and len(index) == 1
        and isinstance(index[0], Items)
        and len(index[0].items) == len(parts)
    ):
        values = list(index[0].items)
    elif isinstance(node, ast.Tuple):
        values = [join_all(a.items) if isinstance(a, Items) else (a,) for a in index]
        parts = [node] * len(values)
    else:
        split: list[Value] = []
        for atom in index:
            if isinstance(atom, Items):
                split.extend(atom.items)
            else:
                split.append(atom.item if _is_tuple(atom) else (atom,))
        values = split if any(isinstance(a, Items) or _is_tuple(a) for a in index) else [index]
        parts = [node] * len(values)
    return [
        [Component(atom, _last_word(part), len(value)) for atom in value]
        for value, part in zip(values, parts, strict=True)
    ]


def _is_tuple(atom: Atom) -> TypeGuard[Sequence]:
    """Whether an index is a tuple of components of which one value is known, but not how many there are."""
    return isinstance(atom, Sequence) and atom.kind == "tuple" and bool(atom.item)


def _last_word(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr.lower()
    return node.id.lower() if isinstance(node, ast.Name) else ""


def guessed_element(component: Component) -> str | None:
    """Boolean or integer, by the table of values, else by what the index is called."""
    atom = component.atom
    if isinstance(atom, Tensor):
        if atom.element is not None:
            return atom.element
        words = component.text.strip("_").split("_")
        if any(word in _ID_WORDS for word in words):
            return "int"
        if any(word in _MASK_WORDS for word in words) or words[:1] in (["is"], ["has"], ["should"]):
            return "bool"
        return None
    return None


def _component_word(frame: Frame, component: Component, word: str) -> bool | None:
    atom = component.atom
    if word == "bool":
        return isinstance(atom, Tensor) and _tri(guessed_element(component), "bool")
    if word == "int-tensor":
        return isinstance(atom, Tensor) and atom.device == "cuda" and _tri(guessed_element(component), "int")
    if word == "0d-int":
        return isinstance(atom, Tensor) and atom.device == "cuda" and atom.rank == 0 and atom.element != "bool"
    if word == "tensor-slice":
        return isinstance(atom, Slice) and any(isinstance(b, Tensor) and b.device == "cuda" for b in atom.bounds)
    if word == "cpu-tensor":
        return isinstance(atom, Tensor) and atom.device == "cpu" and atom.rank != 0
    if word == "sequence":
        if isinstance(atom, (Box, Sequence)) and getattr(atom, "kind", "") in ("list", "tuple", "set"):
            return not stores.holds_buffers(containers.held(frame, atom))
        return False
    if word in ("number", "scalar"):
        return isinstance(atom, (Const, Host)) and atom.type_name in ("int", "bool")
    return conditions._word(frame, atom, word)


def _tri(found: str | None, wanted: str) -> bool | None:
    return None if found is None else found == wanted


def _index_match(frame: Frame, parts: list[list[Component]], words: tuple[tuple[str, bool], ...]) -> Match:
    """Each word has to hold for some component; certain when it holds for all alternatives of one."""
    result = Match.ALL
    for word, negated in words:
        best = Match.NO
        for alternatives in parts:
            verdicts = [_component_word(frame, c, word) for c in alternatives]
            yes = sum(v is True for v in verdicts)
            maybe = sum(v is None and c.atom is not UNKNOWN for v, c in zip(verdicts, alternatives, strict=True))
            if verdicts and yes == len(verdicts):
                best = Match.ALL
                break
            if yes or maybe:
                best = max(best, Match.SOME)
        if negated:
            best = Match(2 - best)
        result = min(result, best)
        if result is Match.NO:
            break
    return result


def _full_element(target: Tensor, parts: list[list[Component]]) -> Match:
    """Plain numbers on every axis: a single element."""
    numbers = all(
        all(isinstance(c.atom, (Const, Host)) and c.atom.type_name == "int" for c in alternatives)
        for alternatives in parts
    )
    if not numbers or not parts:
        return Match.NO
    if target.rank is None:
        return Match.NO
    return Match.ALL if target.rank == len(parts) else Match.NO


def judge(
    frame: Frame, form: str, target: Tensor, index: Value, value: Value | None, node: ast.Subscript, place: ast.AST
) -> None:
    """Record what an index form costs, by its operation table."""
    if not frame.recording:
        return
    operation = frame.machine.knowledge.operations.get(form)
    if operation is None:
        return
    parts = components(index, node.slice)
    for case in operation.cases:
        if not conditions.applies(frame, operation, case):
            continue
        match = _case_match(frame, case, target, parts, value)
        if match is Match.NO:
            continue
        if case.hazard is not None:
            open_value = case.hazard == "CAP201" and value is not None and _may_be_number(value)
            _reject(frame, operation, case, form, target, node, place, match, index, open_value)
        if match is Match.ALL:
            if case.hazard is None:
                _accept(frame, form, target, index, value, place)
            return
    _accept(frame, form, target, index, value, place)


def _case_match(frame: Frame, case: Case, target: Tensor, parts: list[list[Component]], value: Value | None) -> Match:
    result = Match.ALL
    for parameter, words in case.when:
        if parameter == "index":
            if words == (("full-element", False),):
                found = _full_element(target, parts)
            else:
                found = _index_match(frame, parts, words)
        elif parameter == "target":
            found = conditions.value_match(frame, (target,), words)
        else:
            found = conditions.value_match(frame, value, words)
        result = min(result, found)
        if result is Match.NO:
            break
    return result


def _may_be_number(value: Value) -> bool:
    """A value of which only numbers are known: what goes through the mask may well be one."""
    return not any(isinstance(atom, (Tensor, Array, Box, Items, Sequence)) for atom in value)


def _only_promised(atoms: list[Atom]) -> bool:
    """Whether a list among the alternatives is known from an annotation alone, beside a tensor that may be there."""
    lists = [atom for atom in atoms if isinstance(atom, (Sequence, Box, Items, Array))]
    beside = any(isinstance(atom, Tensor) for atom in atoms)
    return beside and bool(lists) and all(isinstance(atom, Sequence) for atom in lists)


def _reject(
    frame: Frame,
    operation: Operation,
    case: Case,
    form: str,
    target: Tensor,
    node: ast.Subscript,
    place: ast.AST,
    match: Match,
    index: Value,
    open_value: bool,
) -> None:
    sure = match is Match.ALL and target.sure
    parts = components(index, node.slice) if match is not Match.ALL else []
    blind = any(isinstance(c.atom, Tensor) and guessed_element(c) is None for part in parts for c in part)
    blind = blind or any(_only_promised([c.atom for c in part]) for part in parts)
    text = " ".join(ast.unparse(node).split())
    frame.reject(
        place,
        str(case.hazard),
        form,
        f"{text if len(text) <= 60 else text[:57] + '...'}: {case.why or operation.why}",
        remedy=case.remedy or operation.remedy,
        confidence=Confidence.POSSIBLE if blind or open_value else Confidence.CERTAIN if sure else Confidence.LIKELY,
        subject=node.slice if not isinstance(node.slice, (ast.Tuple, ast.Slice)) else node.value,
    )


def _accept(frame: Frame, form: str, target: Tensor, index: Value, value: Value | None, place: ast.AST) -> None:
    if target.device == "cuda":
        frame.record(place, form)
        frame.device_work(place)
    for atom in index:
        hazards.frozen_operand(frame, atom, place, "an index is taken")
    for atom in value or ():
        hazards.frozen_operand(frame, atom, place)


def read_tensor(frame: Frame, target: Tensor, index: Value, node: ast.Subscript) -> Value:
    judge(frame, "python.getitem", target, index, None, node, node)
    return (_indexed(frame, target, index, node),)


def _indexed(frame: Frame, target: Tensor, index: Value, node: ast.Subscript) -> Tensor:
    """The tensor that an index selects: its rank, whether it is a view, whether its shape depends on data."""
    parts = components(index, node.slice)
    rank = None if any(_is_tuple(atom) for atom in index) else target.rank
    view, dynamic, device = True, target.dynamic, target.device
    filled = False
    for alternatives in parts:
        drop = add = 0
        for component in alternatives:
            atom = component.atom
            if isinstance(atom, Tensor):
                if atom.rank == 0 and atom.element != "bool":
                    drop = 1
                    continue
                view = False
                dynamic = dynamic or guessed_element(component) == "bool" or atom.dynamic
                if len(parts) == len(alternatives) == 1:
                    mask = guessed_element(component) == "bool"
                    filled = emptiness.is_filled(frame.function, node, node.slice) if mask else atom.filled
                if guessed_element(component) == "bool" or atom.rank != 1:
                    rank = None
            elif isinstance(atom, (Const, Host)) and atom.type_name == "int":
                drop = 1
            elif atom is NONE:
                add = 1
            elif isinstance(atom, (Box, Sequence, Array)):
                view = False
            elif isinstance(atom, Slice):
                taint = operators.taint_of(atom.bounds)
                dynamic = dynamic or (taint is not None and taint[0] in ("dynamic", "device"))
            elif atom is UNKNOWN:
                rank = None
        if rank is not None:
            rank = max(rank - drop + add, 0)
    return like(
        target,
        rank=rank,
        dynamic=dynamic,
        device=device,
        storage=target.storage if view else "fresh",
        filled=dynamic and filled,
    )


# -- writes ---------------------------------------------------------------------------------------------------


def write(frame: Frame, node: ast.Subscript, value: Value, place: ast.AST) -> None:
    """Assign ``target[index] = value``."""
    target = frame.evaluate(node.value)
    index = frame.evaluate(node.slice)
    if not target or not index:
        return
    for atom in target:
        _write_atom(frame, atom, index, value, node, place)


def _write_atom(frame: Frame, atom: Atom, index: Value, value: Value, node: ast.Subscript, place: ast.AST) -> None:
    from capaudit.audit import expressions

    match atom:
        case Tensor():
            judge(frame, "python.setitem", atom, index, value, node, place)
            results.note_write(frame, (atom,))
        case Instance():
            if calls.call_dunder(frame, atom, "__setitem__", [index, value], place) is None:
                frame.record(
                    place,
                    "index-set",
                    ownership=OwnershipClass.UNRESOLVED,
                    message="the object's class has no __setitem__",
                )
        case Box(kind="dict") if any(isinstance(a, Slice) for a in index):
            pass  # no dictionary takes slices: the value is something else on the path that writes
        case Box(kind="dict"):
            guarded = _note_lazy_entry(frame, atom, index, value, node, place)
            expressions.set_entry(frame, atom, index, value, None if guarded else place)
        case Box():
            note_position(frame, index, place, node.slice)
            _write_slot(frame, atom, index, value, place)
        case WarpArray():
            frame.record(place, "warp.array.__setitem__")
        case _:
            pass


def _write_slot(frame: Frame, atom: Box, index: Value, value: Value, place: ast.AST) -> None:
    """``items[i] = value``: the slot where the position is known, else any of them."""
    from capaudit.audit import expressions

    machine = frame.machine
    rest = machine.cell(atom, "*")
    if any(isinstance(a, Slice) for a in index):
        stores.write_cell(frame, rest, expressions.iterate(frame, value, place), place, "")
        return
    position = index[0].value if len(index) == 1 and isinstance(index[0], Const) else None
    if not isinstance(position, int) or position < 0:
        stores.write_cell(frame, rest, value, place, "")
        return
    cell = machine.existing_cell(atom, f"[{position}]")
    if cell is None:
        cell = machine.cell(atom, f"[{position}]")
        machine.join_cell(cell, rest.value)
        for reader in rest.readers:  # they have taken the slot for one of all
            machine.mark(reader)
    machine.join_cell(rest, value)
    stores.write_cell(frame, cell, value, place, "")


def _note_lazy_entry(frame: Frame, atom: Box, index: Value, value: Value, node: ast.Subscript, place: ast.AST) -> bool:
    """A dictionary that is filled on first use inside the boundary keeps storage made while capturing.

    Returns whether this is a guarded first entry, which no later tick repeats.
    """
    from capaudit.audit.guards import _key

    key = _key(node.value)
    env = frame.env or {}
    if key is None or f".lazy {key}" not in env:
        return False
    if atom.tick or not frame.recording:
        return True
    confidence = containers.missing(frame, atom, index)
    if confidence is not None and stores.makes_buffers(frame.machine, value) and not stores.is_warm(frame):
        frame.reject(
            place,
            "CAP301",
            "lazy-storage",
            f"{key} is filled on first use; inside a capture the buffer lands in the graph's own memory and "
            "every replay creates it again",
            confidence=confidence,
            remedy="Fill the cache before capturing, for every key that the captured path uses.",
        )
    return True


def augment(frame: Frame, node: ast.AugAssign, target_node: ast.Subscript) -> None:
    """Evaluate ``target[index] op= value``."""
    target = frame.evaluate(target_node.value)
    index = frame.evaluate(target_node.slice)
    value = frame.evaluate(node.value)
    if not target or not index:
        return
    for atom in target:
        if isinstance(atom, Tensor):
            judge(frame, "python.augsetitem", atom, index, value, target_node, node)
            results.note_write(frame, (atom,))
            continue
        held = _read_atom(frame, atom, index, target_node)
        new = operators.binary(frame, node.op, held, value, node)
        in_place = any(isinstance(a, Tensor) for a in held)
        if isinstance(atom, Instance):
            calls.call_dunder(frame, atom, "__setitem__", [index, held if in_place else new], node)
        elif isinstance(atom, Box) and not in_place:
            _write_atom(frame, atom, index, new, target_node, node)
            _note_counter(frame, atom, index, node)


def _note_counter(frame: Frame, atom: Box, index: Value, node: ast.AST) -> None:
    """A counter kept in a lasting container varies like one kept in an attribute."""
    if not frame.recording or atom.tick or frame.failure:
        return
    constants = [a for a in index if isinstance(a, Const)]
    names = [f"[{a.value!r}]" for a in constants] if len(constants) == len(index) else ["*"]
    for name in names:
        cell = frame.machine.cell(atom, name)
        if any(isinstance(a, (Const, Host)) for a in cell.value):
            cell.label = f"{ast.unparse(node.target)}" if isinstance(node, ast.AugAssign) else cell.label
            cell.tick_write = cell.tick_write or (frame.module, node)
            frame.machine.set_varies(cell)
