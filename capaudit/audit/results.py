"""Results and effects of library calls, as the tables spell them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from capaudit.audit import conditions, emptiness, hazards, operators, regions, stores
from capaudit.audit.contexts import Cell, Rebind
from capaudit.audit.values import (
    KEPT,
    NONE,
    NOTHING,
    UNKNOWN,
    Array,
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
    array,
    host,
    items,
    join,
    library_object,
    like,
    none,
    sequence,
    settled,
    stronger,
    tensor,
    unknown,
    warp_array,
)
from capaudit.knowledge import ResultSpec
from capaudit.model import Confidence

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame
    from capaudit.audit.libraries import Call


def site(frame: Frame, node: ast.AST) -> tuple[Any, ...]:
    return (frame.module.file, getattr(node, "lineno", 0), getattr(node, "col_offset", 0))


def gather(frame: Frame, values: list[Value], depth: int = 3) -> list[Tensor]:
    """All tensors among values, those inside containers included."""
    found: list[Tensor] = []
    for value in values:
        for atom in value:
            if isinstance(atom, Tensor):
                found.append(atom)
            elif depth:
                found.extend(gather(frame, conditions.content(frame, atom), depth - 1))
    return found


_ELEMENTS = ("bool", "int", "float")


def value(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    """The value that a result specification describes for one call."""
    if (
        made.path in _CONVERSIONS
        and isinstance(made.receiver, Tensor)
        and (made.everything[1:] or made.path.endswith(".cuda"))
    ):
        return _converted(frame, made, made.receiver)
    handler = _KINDS.get(spec.kind)
    found: Value = handler(frame, spec, made) if handler is not None else unknown
    return found if frame.tick else settled(found)


_CONVERSIONS = ("torch.Tensor.to", "torch.Tensor.cuda", "torch.Tensor.type")


def _converted(frame: Frame, made: Call, own: Tensor) -> Value:
    """Moves and dtype changes: the same tensor elsewhere, or the tensor itself where nothing changes."""
    device = "cuda" if made.path.endswith(".cuda") else own.device
    element, sure = own.element, own.sure
    for given in made.everything[1:]:
        named = conditions.dtype_element(given)
        if named is not None:
            element = named
            continue
        for atom in given:
            if isinstance(atom, Tensor):
                device, sure = atom.device, atom.sure
                element = atom.element or element
        options = [a for a in given if not (isinstance(a, (Const, Host)) and a.type_name == "bool")]
        places = {conditions.named_device(atom) for atom in options}
        if "cuda" in places:
            device = "cuda"
        elif "cpu" in places and UNKNOWN not in given:
            device = "cpu"
    if device == own.device and element == own.element:
        return (own,)
    return (
        like(own, device=device, element=element, sure=sure or device != own.device, storage="fresh", pinned=False),
    )


def _flag_element(spec: ResultSpec) -> str | None:
    return next((name for name in _ELEMENTS if name in spec.flags), None)


def _target_element(spec: ResultSpec, made: Call, default: str | None) -> str | None:
    dtype = made.lookup("dtype")
    if dtype and (named := conditions.dtype_element(dtype)):
        return named
    return _flag_element(spec) or default


def _tensor(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    tensors = gather(frame, made.everything)
    arrays = [atom for v in made.everything for atom in v if isinstance(atom, WarpArray)]
    if tensors:
        base = operators.combine_tensors(tensors)
    elif arrays:
        base = tensor(arrays[0].device, storage=arrays[0].storage)
    elif (
        made.receiver is None
        and made.everything
        and all(isinstance(a, (Array, Const)) or _is_number(a) for a in made.everything[0])
    ):
        base = tensor(_device(frame, made, "cpu"))
    else:
        # A view of no tensor shows a buffer that the receiver keeps: the same one at every call.
        base = tensor("cuda", sure=False, storage=KEPT if "view" in spec.flags else "fresh")
    first = tensors[0] if tensors else base
    rank = first.rank if "keep-rank" in spec.flags else None
    if "0d" in spec.flags:
        rank = 0
    elif "reduce" in spec.flags:
        reduced = any(made.lookup(name) not in (None, none) for name in ("dim", "axis", "dims"))
        rank = None if reduced else 0
        if reduced and first.rank is not None and made.lookup("keepdim") is not None:
            rank = first.rank
        elif reduced and first.rank is not None and _single_axis(made):
            rank = first.rank - 1
    dynamic = (base.dynamic and not ("reduce" in spec.flags and rank == 0)) or "dynamic" in spec.flags
    element = _target_element(
        spec, made, first.element if "keep-rank" in spec.flags or len(tensors) == 1 else base.element
    )
    if (
        base.element == "bool"
        and "reduce" in spec.flags
        and _flag_element(spec) is None
        and made.lookup("dtype") is None
    ):
        element = "int"
    if made.path.rpartition(".")[2] in _PROMOTING:
        element = _promoted(element, made)
    counts = first.filled and not first.dynamic and made.path.rpartition(".")[2] in ("any", "sum", "count_nonzero")
    filled = (dynamic and first.filled) or (counts and rank == 0)
    if "dynamic" in spec.flags:
        filled = made.subject is not None and emptiness.is_filled(frame.function, made.node, made.subject)
    result = like(
        base,
        element=element,
        rank=rank,
        dynamic=dynamic,
        storage="fresh",
        pinned="pinned" in spec.flags,
        filled=filled,
    )
    if arrays and made.path.endswith("to_torch"):
        result = like(result, device=arrays[0].device, storage=arrays[0].storage)
    if "view" in spec.flags and first.storage != "fresh":
        result = like(result, storage=first.storage)
    return _with_out(made, result)


def _is_number(atom: object) -> bool:
    return isinstance(atom, Host) and atom.type_name in ("int", "float", "bool", "complex")


_PROMOTING = {"add", "sub", "mul", "where", "clamp", "maximum", "minimum", "div"}


def _promoted(element: str | None, made: Call) -> str | None:
    for v in made.everything:
        for atom in v:
            if isinstance(atom, (Const, Host)) and atom.type_name == "float" and element in ("int", "bool"):
                return "float"
    return element


def _single_axis(made: Call) -> bool:
    dim = made.lookup("dim") or made.lookup("axis") or NOTHING
    return all(isinstance(atom, (Const, Host)) and atom.type_name == "int" for atom in dim)


def _with_out(made: Call, result: Tensor) -> Value:
    out = made.lookup("out")
    if out and any(isinstance(atom, Tensor) for atom in out):
        return out
    return (result,)


def _device(frame: Frame, made: Call, default: str) -> str:
    given = made.lookup("device")
    if given is None or given == none:
        return default
    named = {conditions.named_device(atom) for atom in given}
    if "cuda" in named or UNKNOWN in given:
        return "cuda"  # a boundary on CUDA takes the CUDA side of a choice
    return "cpu" if "cpu" in named else default


def _factory(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    default = "cuda" if frame.machine.memo.get("default-device") else "cpu"
    tensors = gather(frame, made.everything)
    if any(t.device == "cuda" for t in tensors) and not made.lookup("device"):
        default = "cuda"
    device = _device(frame, made, default)
    name = made.path.rpartition(".")[2]
    element = _target_element(spec, made, None)
    if element is None and tensors:
        element = tensors[0].element
    if element is None:
        element = _data_element(frame, made, name)
    pinned = made.lookup("pin_memory")
    dynamic = any(_dynamic_size(v) for v in made.everything) or "dynamic" in spec.flags
    return _with_out(
        made,
        tensor(
            device,
            element=element,
            rank=_factory_rank(frame, made, name),
            dynamic=dynamic,
            pinned=device == "cpu"
            and pinned is not None
            and any((isinstance(a, Const) and a.value is True) or isinstance(a, Host) for a in pinned),
        ),
    )


def _dynamic_size(v: Value) -> bool:
    taint = operators.taint_of(v)
    return taint is not None and taint[0] == "dynamic"


def _data_element(frame: Frame, made: Call, name: str) -> str | None:
    if name in ("zeros", "ones", "empty", "rand", "randn", "linspace", "eye", "logspace", "zeros_like"):
        return "float"
    position = 1 if name in ("full", "new_full") else 0
    data = (
        made.lookup("fill_value")
        or made.lookup("data")
        or (made.arguments.positional[position] if len(made.arguments.positional) > position else NOTHING)
    )
    return _element_of(frame, data, 4)


def _element_of(frame: Frame, data: Value, depth: int) -> str | None:
    for atom in data:
        if isinstance(atom, (Const, Host)) and atom.type_name in _ELEMENTS:
            return atom.type_name
        if isinstance(atom, Tensor):
            return atom.element
        if depth:
            found = {_element_of(frame, inner, depth - 1) for inner in conditions.content(frame, atom) if inner}
            if "float" in found:
                return "float"
            if len(found) == 1:
                return found.pop()
    return None


def _factory_rank(frame: Frame, made: Call, name: str) -> int | None:
    if name in ("arange", "linspace", "randperm", "logspace", "range", "hann_window"):
        return 1
    if name in ("tensor", "as_tensor", "scalar_tensor", "asarray", "new_tensor"):
        data = made.arguments.positional[0] if made.arguments.positional else made.lookup("data") or NOTHING
        if name == "scalar_tensor" or (
            data and all(isinstance(a, (Const, Host)) and a is not NONE and a.type_name != "any" for a in data)
        ):
            return 0
        if len(data) == 1 and isinstance(data[0], Tensor):
            return data[0].rank
        return None
    if name not in (
        "zeros",
        "ones",
        "empty",
        "rand",
        "randn",
        "full",
        "new_zeros",
        "new_ones",
        "new_empty",
        "new_full",
        "randint",
    ):
        return None
    positional = list(made.arguments.positional)
    if name == "randint":
        positional = positional[-1:]
    if name in ("full", "new_full"):
        positional = positional[:1]
    size = made.lookup("size")
    if size and not positional:
        positional = [size]
    if len(positional) == 1 and len(positional[0]) == 1:
        only = positional[0][0]
        if isinstance(only, Items):
            return len(only.items)
        if isinstance(only, Box):
            return None
        if isinstance(only, Sequence):
            return None
    if len(positional) > 1 or (len(positional) == 1 and positional[0] == unknown and _counts(made)):
        return len(positional)  # several sizes are numbers, whatever is known of them
    if positional and all(
        len(v) == 1 and isinstance(v[0], (Const, Host)) and v[0].type_name == "int" for v in positional
    ):
        return len(positional)
    return None


def _counts(made: Call) -> bool:
    """Whether the only size is named like a number, where nothing else is known of it."""
    node = made.arguments.nodes[0] if made.arguments.nodes else None
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.lower() in ("n", "count", "length", "width", "batch", "dim") or name.lower().startswith(("num_", "n_"))


def _like(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    first = made.lookup("self") or next((v for v in made.everything if any(isinstance(a, Tensor) for a in v)), None)
    tensors = [atom for atom in first or () if isinstance(atom, Tensor)]
    if not tensors:
        arrays = [atom for atom in first or () if isinstance(atom, (Array, WarpArray))]
        if arrays:
            return tuple(arrays)
        storage = KEPT if "view" in spec.flags else "fresh"  # what is seen through an unknown object was there before
        return (tensor("cuda", sure=False, element=_flag_element(spec), storage=storage),)
    rest = gather(frame, [v for v in made.everything if v is not first])
    result: Value = NOTHING
    for atom in tensors:
        device = _device(frame, made, atom.device)
        if device == "cpu" and any(t.device == "cuda" for t in rest):
            device = "cuda"
        result = join(
            result,
            (
                like(
                    atom,
                    device=device,
                    element=_target_element(spec, made, atom.element),
                    storage=atom.storage if "view" in spec.flags else "fresh",
                    dynamic=atom.dynamic or "dynamic" in spec.flags,
                    rank=0 if "0d" in spec.flags else None if "unranked" in spec.flags else atom.rank,
                    pinned="pinned" in spec.flags,
                ),
            ),
        )
    return result


def _self(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    own = made.lookup("self")
    if own is not None:
        return own
    if made.receiver is not None:
        return (made.receiver,)
    return made.everything[0] if made.everything else unknown


def _argument(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    return made.lookup(spec.name) or none


def _host_type(spec: ResultSpec) -> str:
    return next((name for name in ("bool", "int", "float", "str", "complex") if name in spec.flags), "any")


def _host(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    taint: tuple[Any, ...] | None = None
    for v in made.everything:
        taint = stronger(taint, operators.taint_of(v))
    if isinstance(made.receiver, Tensor) and made.receiver.dynamic and not _trailing_axis(made):
        taint = stronger(taint, emptiness.size_taint(made.receiver.filled))
    effects = made.operation.effects
    if "host-rng" in effects:
        taint = ("rng", made.path, (frame.module, made.node))
    elif "clock" in effects:
        taint = ("clock", made.path, None)
    fed = frame.machine.memo.get(_FED)
    if fed and made.path in _READS and any(t.storage in fed for t in gather(frame, made.everything)):
        taint = stronger(taint, ("device", "", None))
    kind = _host_type(spec)
    if kind == "bool" and made.path.rpartition(".")[2] != "bool":
        taint = emptiness.open_taint(taint)
    return host(kind, taint)


_READS = ("torch.Tensor.item", "torch.Tensor.tolist", "bool", "int", "float")


def _trailing_axis(made: Call) -> bool:
    """``x.size(1)``, ``x.size(-1)``: sizes that a selection does not make data-dependent."""
    dim = made.lookup("dim") if made.path.endswith(".size") else None
    return bool(dim) and all(isinstance(a, Const) and a.value not in (0, None) for a in dim or ())


def _device_read(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    tensors = gather(frame, made.everything)
    told = bool(tensors) and all(t.filled and not t.dynamic and t.rank == 0 for t in tensors)
    return host(_host_type(spec), emptiness.size_taint(True) if told else ("device", "", None))


def _array(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    if "host-rng" in made.operation.effects:
        # A drawn array reaches device work as numbers; keep the draw's origin on a host value beside it.
        return (*array(_flag_element(spec)), *host("any", ("rng", made.path, (frame.module, made.node))))
    if made.path.rpartition(".")[2] in _ELEMENTWISE and made.everything and all(_plain(v) for v in made.everything):
        taint: tuple[Any, ...] | None = None
        for v in made.everything:
            taint = stronger(taint, operators.taint_of(v))
        return host("float", taint)
    if made.path.rpartition(".")[2] in _ELEMENTWISE and made.everything and all(map(_may_be_number, made.everything)):
        return host("any")
    return array(_flag_element(spec))


def _may_be_number(v: Value) -> bool:
    """Whether nothing says that a value is an array: a number gives a number."""
    return bool(v) and all(atom is UNKNOWN or isinstance(atom, (Const, Host)) for atom in v)


def _plain(v: Value) -> bool:
    return bool(v) and all(isinstance(atom, (Const, Host)) and atom.type_name in ("int", "float", "bool") for atom in v)


_NAMES = (
    "deg2rad rad2deg radians degrees sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh sqrt cbrt exp exp2 expm1 "
    "log log2 log10 log1p abs absolute fabs floor ceil round rint trunc sign square power maximum minimum clip hypot "
    "add subtract multiply divide true_divide floor_divide mod remainder negative reciprocal"
)
_ELEMENTWISE = frozenset(_NAMES.split())
"""NumPy functions that give a number for numbers."""


def _warp(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    device = _device(frame, made, "cuda")
    for v in made.everything:
        for atom in v:
            if isinstance(atom, (WarpArray, Tensor)) and made.lookup("device") is None:
                device = atom.device
                if "view" in spec.flags or made.path.endswith("from_torch"):
                    return (warp_array(atom.device, atom.storage),)
    return (warp_array(device),)


def _list(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    inner = value(frame, spec.items[0], made) if spec.items else unknown
    taint = operators.taint_of(inner)
    return sequence("list", inner, taint if made.path == "builtins.range" else None)


def _tuple(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    return items(tuple(value(frame, inner, made) for inner in spec.items))


def _object(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    flags = frozenset(
        name
        for name, given in made.bound.items()
        if any(not (isinstance(a, Const) and not a.value) for a in given) and name.isidentifier()
    )
    if spec.name.startswith("torch.distributions.") and "validate_args" not in made.bound:
        flags |= {"validate_args"}
    memo = frame.machine.memo
    if spec.name == "torch.Generator" and memo.get("registered-generator"):
        flags |= frozenset() if made.node in memo["unregistered-generators"] else {"registered"}
    held: Value = NOTHING
    if spec.name == "warp.ScopedStream":
        held = made.lookup("stream") or NOTHING
    if spec.name in ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"):
        for v in gather_instances(frame, made.everything):
            held = join(held, v)
    return (library_object(spec.name, site(frame, made.node), flags, held),)


def gather_instances(frame: Frame, values: list[Value]) -> list[Value]:
    """Modules among arguments, those inside containers included."""
    found: list[Value] = []
    for v in values:
        for atom in v:
            if isinstance(atom, (Instance, Object)):
                found.append((atom,))
            else:
                found.extend(gather_instances(frame, conditions.content(frame, atom)))
    return found


def _cpu(frame: Frame, spec: ResultSpec, made: Call) -> Value:
    tensors = gather(frame, made.everything)
    if not tensors:
        name = made.path.rpartition(".")[2]
        base = tensor("cpu", element=_data_element(frame, made, name), rank=_factory_rank(frame, made, name))
    else:
        base = tensors[0]
    return (
        like(
            base,
            device="cpu",
            sure=True,
            storage="fresh",
            element=_target_element(spec, made, base.element),
            pinned="pinned" in spec.flags,
            rank=0 if "0d" in spec.flags else base.rank,
        ),
    )


_KINDS: dict[str, Any] = {
    "tensor": _tensor,
    "factory": _factory,
    "like": _like,
    "self": _self,
    "arg": _argument,
    "host": _host,
    "device-read": _device_read,
    "none": lambda f, s, m: none,
    "ndarray": _array,
    "warp": _warp,
    "list": _list,
    "tuple": _tuple,
    "object": _object,
    "cpu": _cpu,
    "unknown": lambda f, s, m: unknown,
}


# -- effects ----------------------------------------------------------------------------------------------


def effects(frame: Frame, made: Call) -> None:
    """Take the effects of one call: writes, launches, work on a side stream, lost carriers."""
    for effect in made.operation.effects:
        if effect.startswith("writes:"):
            note_write(frame, made.lookup(effect[7:]) or NOTHING)
            _note_fed(frame, made)
        elif effect == "launch":
            _launch(frame, made)
        elif effect == "allocates-warp" and frame.flag("conditional-body"):
            frame.reject(
                made.node,
                "CAP303",
                made.path,
                "the body of a conditional node cannot hold allocations, so the capture is refused here",
                confidence=Confidence.POSSIBLE if stores.is_fallback(frame) else Confidence.CERTAIN,
            )
    out = made.lookup("out")
    if out:
        note_write(frame, out)
    if made.path == "torch.Tensor.resize_" or made.path == "torch.Tensor.set_":
        _storage_change(frame, made)


def note_write(frame: Frame, target: Value) -> None:
    """Count in-place changes of device buffers that outlive the call."""
    if any(isinstance(a, (Tensor, WarpArray)) and a.device == "cuda" and a.storage != "fresh" for a in target):
        frame.context.items["device-writes"] = frame.context.items.get("device-writes", 0) + 1


_FED = "fed from the device"


def _note_fed(frame: Frame, made: Call) -> None:
    """Note a lasting host tensor that device values are copied into: what the host reads from it comes from there."""
    if made.path.endswith(".copy_") and any(a.device == "cuda" for a in gather(frame, made.everything[1:])):
        for atom in made.lookup("self") or NOTHING:
            if isinstance(atom, Tensor) and atom.device == "cpu" and isinstance(atom.storage, Cell):
                frame.machine.memo.setdefault(_FED, {})[atom.storage] = None


def _launch(frame: Frame, made: Call) -> None:
    frame.context.items["device-writes"] = frame.context.items.get("device-writes", 0) + 1
    if not frame.recording:
        return
    for name in ("inputs", "outputs", "dim"):
        for atom in made.lookup(name) or NOTHING:
            hazards.frozen_operand(frame, atom, made.node, "a kernel is launched")
    if isinstance(made.receiver, WarpArray) and made.receiver.device == "cpu":
        return
    key = regions.stream_key(frame, made.lookup("stream") or NOTHING)
    if made.lookup("stream") in (None, none):
        key = regions.scoped_stream(frame)
    if key not in (None, "capture"):
        frame.stream_event("work", key, made.node)
    kind = conditions.capture_kind(frame)
    stream = made.lookup("stream")
    if kind == "torch" and not frame.flag("warp-stream") and (stream is None or stream == none):
        device = made.lookup("device")
        if device and all(conditions.named_device(atom) == "cpu" for atom in device):
            return
        frame.reject(
            made.node,
            "CAP402",
            made.path,
            "the kernel is queued on Warp's own stream, which a Torch capture does not record: the capture "
            "succeeds and every replay leaves the launch out",
            remedy=(
                "Launch on the capturing stream: pass stream=wp.stream_from_torch(...), made once before "
                "capture, or open wp.ScopedStream(stream, sync_enter=False)."
            ),
        )


def _storage_change(frame: Frame, made: Call) -> None:
    own = made.lookup("self") or NOTHING
    for atom in own:
        if isinstance(atom, Tensor) and isinstance(atom.storage, Cell) and frame.context.phase == "after":
            frame.context.rebinds.append(Rebind(atom.storage, frame.module, made.node, True))
        elif isinstance(atom, Tensor) and isinstance(atom.storage, Cell):
            frame.reject(
                made.node,
                "CAP304",
                made.path,
                f"{atom.storage.label} moves to other storage when it grows, while a captured graph keeps the "
                "old address",
                confidence=Confidence.LIKELY,
                subject=made.subject,
            )
