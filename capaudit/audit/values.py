"""Abstract values: what the audit knows about a Python value without running anything.

A ``Value`` is an ordered union of atoms; the empty union is "no value yet" (unreached code), and
``UNKNOWN`` is an atom of its own, never safe. Atoms are interned, so identity is equality and a union
is a cheap key. Joins only move up and widen constants early, so every loop settles.
Source of the scheme: Cousot and Cousot, POPL 1977.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from capaudit.audit.contexts import Context
    from capaudit.program.symbols import ClassInfo, FunctionInfo, Module


class Atom:
    """One alternative of a value. Subclasses list their fields; instances are interned per class."""

    __slots__ = ("key",)
    group: ClassVar[int] = 0  # what merges with what: 1 tensors, 2 host scalars, 3 sequences
    fields: ClassVar[tuple[str, ...]] = ()
    _pool: ClassVar[dict[Any, Any]] = {}
    key: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.key[1:]!r}"


Value = tuple[Atom, ...]
NOTHING: Value = ()


def reset_pool() -> None:
    """Forget all interned atoms; an audit starts with this so that runs in one process cannot influence each other."""
    Atom._pool.clear()
    _joins.clear()
    Atom._pool[UNKNOWN.key] = UNKNOWN
    Atom._pool[NONE.key] = NONE


def _intern(cls: type[Any], *parts: Any) -> Any:
    key = (cls, *parts)
    atom = Atom._pool.get(key)
    if atom is None:
        atom = object.__new__(cls)
        atom.key = key
        for name, part in zip(cls.fields, parts, strict=True):
            object.__setattr__(atom, name, part)
        Atom._pool[key] = atom
    return atom


class Unknown(Atom):
    __slots__ = ()


class Const(Atom):
    """A known host constant. ``type_name`` keeps ``True`` and ``1`` apart."""

    __slots__ = ("type_name", "value")
    group = 2
    fields = ("type_name", "value")
    type_name: str
    value: Any


class Host(Atom):
    """A host value of known type. ``taint`` is ``None`` or ``(kind, label, place)``.

    ``kind``: ``device`` (read from the device), ``dynamic`` (from a data-dependent shape), ``frozen``
    (Python state that a replay does not advance), ``rng`` or ``clock`` (drawn on the host).
    """

    __slots__ = ("taint", "type_name")
    group = 2
    fields = ("type_name", "taint")
    type_name: str
    taint: tuple[Any, ...] | None


FILLED = "filled"
"""Label of a size that depends on data and is not 0."""
KEPT = "kept"
"""Storage of a buffer that a library's object keeps and shows again at every call."""


class Tensor(Atom):
    """A torch tensor.

    ``device``: ``cuda``, ``cpu``. ``sure`` is false where an annotation alone says that it is a device tensor.
    ``element``: ``bool``, ``int``, ``float`` or ``None``. ``rank``: number of axes or ``None``. ``dynamic``: the
    shape depends on device data. ``storage``: ``fresh``, ``other``, ``KEPT`` or the heap cell it was read from.
    ``pinned``: page-locked host memory. ``filled``: of a data-dependent shape, but not empty. ``frozen``: built
    from Python state that a replay does not advance.
    """

    __slots__ = ("device", "dynamic", "element", "filled", "pinned", "rank", "storage", "sure")
    group = 1
    fields = ("device", "sure", "element", "rank", "dynamic", "storage", "pinned", "filled")
    device: str
    sure: bool
    element: str | None
    rank: int | None
    dynamic: bool
    storage: Any
    pinned: bool
    filled: bool


class Array(Atom):
    """A NumPy array: host memory."""

    __slots__ = ("element",)
    fields = ("element",)
    element: str | None


class WarpArray(Atom):
    """A Warp array. ``storage`` as for tensors; ``device`` is ``cuda`` or ``cpu``."""

    __slots__ = ("device", "storage")
    fields = ("device", "storage")
    device: str
    storage: Any


class Sequence(Atom):
    """An immutable view of a list, tuple, set or iterator whose elements share one value.

    ``kind``: ``list``, ``tuple``, ``set``, ``range``, ``iterator``; ``taint`` as for ``Host`` (length).
    """

    __slots__ = ("item", "kind", "taint")
    group = 3
    fields = ("kind", "item", "taint")
    kind: str
    item: Value
    taint: tuple[Any, ...] | None


class Items(Atom):
    """A tuple with known items."""

    __slots__ = ("items",)
    group = 3
    fields = ("items",)
    items: tuple[Value, ...]


class Mapping(Atom):
    """A dictionary of unknown origin: keys and values each share one value."""

    __slots__ = ("item", "name")
    fields = ("name", "item")
    name: Value
    item: Value


class Record(Atom):
    """An immutable dictionary with known string keys, such as collected keyword arguments."""

    __slots__ = ("entries",)
    fields = ("entries",)
    entries: tuple[tuple[str, Value], ...]


class Box(Atom):
    """A mutable list, dict or set made at one place of the program; its content lives on the heap."""

    __slots__ = ("kind", "site", "tick")
    fields = ("kind", "site", "tick")
    kind: str
    site: tuple[Any, ...]
    tick: bool


class Slice(Atom):
    """A slice. ``bounds`` joins start, stop and step."""

    __slots__ = ("bounds",)
    fields = ("bounds",)
    bounds: Value


class Instance(Atom):
    """An object of a class of the program. ``site`` is where it is made, or ``None``: any object of the class."""

    __slots__ = ("cls", "site", "tick")
    fields = ("cls", "site", "tick")
    cls: ClassInfo
    site: tuple[Any, ...] | None
    tick: bool


class ClassRef(Atom):
    """A class of the program. ``open`` is true where an annotation ``type[C]`` also admits subclasses."""

    __slots__ = ("cls", "open")
    fields = ("cls", "open")
    cls: ClassInfo
    open: bool


class Function(Atom):
    """A function of the program, bound to ``receiver`` where it is a method, with the context it closes over."""

    __slots__ = ("closure", "function", "receiver")
    fields = ("function", "receiver", "closure")
    function: FunctionInfo
    receiver: Atom | None
    closure: Context | None


class ModuleRef(Atom):
    """A module of the program."""

    __slots__ = ("module",)
    fields = ("module",)
    module: Module


class Library(Atom):
    """A name of a third-party or standard library: module, function or class, by its dotted path."""

    __slots__ = ("path",)
    fields = ("path",)
    path: str


class Bound(Atom):
    """A method of a library value (``x.item``): ``path`` is its knowledge name, ``receiver`` the value."""

    __slots__ = ("path", "receiver")
    fields = ("path", "receiver")
    path: str
    receiver: Atom


class Object(Atom):
    """An object of a library class. ``flags`` are construction facts such as ``capturable`` or ``timing``."""

    __slots__ = ("content", "flags", "path", "site")
    fields = ("path", "site", "flags", "content")
    path: str
    site: Any
    flags: frozenset[str]
    content: Value


class Partial(Atom):
    """``functools.partial``: a callee with leading arguments and keywords."""

    __slots__ = ("arguments", "callee", "keywords")
    fields = ("callee", "arguments", "keywords")
    callee: Value
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]


class Returns(Atom):
    """A callable of unknown origin whose annotation says what it returns."""

    __slots__ = ("result",)
    fields = ("result",)
    result: Value


class Kernel(Atom):
    """A device kernel (Warp or Triton): its body runs on the device and is not audited."""

    __slots__ = ("name",)
    fields = ("name",)
    name: str


class Super(Atom):
    """``super()`` inside a method of ``cls``."""

    __slots__ = ("cls", "receiver")
    fields = ("cls", "receiver")
    cls: ClassInfo
    receiver: Atom


UNKNOWN: Unknown = _intern(Unknown)
NONE: Const = _intern(Const, "NoneType", None)
unknown: Value = (UNKNOWN,)
none: Value = (NONE,)


def const(value: Any) -> Value:
    return (_intern(Const, type(value).__name__, value),)


def host(type_name: str = "any", taint: tuple[Any, ...] | None = None) -> Value:
    return (_intern(Host, type_name, taint),)


def tensor(
    device: str = "cuda",
    *,
    sure: bool = True,
    element: str | None = None,
    rank: int | None = None,
    dynamic: bool = False,
    storage: Any = "fresh",
    pinned: bool = False,
) -> Tensor:
    result: Tensor = _intern(Tensor, device, sure, element, rank, dynamic, storage, pinned, False)
    return result


def like(base: Tensor, **changes: Any) -> Tensor:
    """Return ``base`` with some fields changed."""
    parts = list(base.key)
    for name, part in changes.items():
        parts[_TENSOR_PARTS[name]] = part
    result: Tensor = _intern(*parts)
    return result


_TENSOR_PARTS = {name: place for place, name in enumerate(Tensor.fields, start=1)}


def array(element: str | None = None) -> Value:
    return (_intern(Array, element),)


def warp_array(device: str = "cuda", storage: Any = "fresh") -> WarpArray:
    result: WarpArray = _intern(WarpArray, device, storage)
    return result


def sequence(kind: str, item: Value, taint: tuple[Any, ...] | None = None) -> Value:
    return (_intern(Sequence, kind, item, taint),)


def items(values: tuple[Value, ...]) -> Value:
    if len(values) > 16 or any(_depth(value) > 4 for value in values):
        return sequence("tuple", join_all(values))
    return (_intern(Items, values),)


def mapping(name: Value, item: Value) -> Value:
    return (_intern(Mapping, name, item),)


def record(entries: tuple[tuple[str, Value], ...]) -> Value:
    return (_intern(Record, entries),)


def box(kind: str, site: tuple[Any, ...], tick: bool) -> Box:
    result: Box = _intern(Box, kind, site, tick)
    return result


def slice_of(bounds: Value) -> Value:
    return (_intern(Slice, bounds),)


def instance(cls: ClassInfo, site: tuple[Any, ...] | None = None, tick: bool = False) -> Instance:
    result: Instance = _intern(Instance, cls, site, tick)
    return result


def class_ref(cls: ClassInfo, is_open: bool = False) -> ClassRef:
    result: ClassRef = _intern(ClassRef, cls, is_open)
    return result


def function(info: FunctionInfo, receiver: Atom | None = None, closure: Context | None = None) -> Function:
    result: Function = _intern(Function, info, receiver, closure)
    return result


def module_ref(module: Module) -> Value:
    return (_intern(ModuleRef, module),)


def library(path: str) -> Library:
    result: Library = _intern(Library, path)
    return result


def bound(path: str, receiver: Atom) -> Bound:
    result: Bound = _intern(Bound, path, receiver)
    return result


def library_object(
    path: str, site: Any = None, flags: frozenset[str] = frozenset(), content: Value = NOTHING
) -> Object:
    result: Object = _intern(Object, path, site, flags, content)
    return result


def partial(callee: Value, arguments: tuple[Value, ...], keywords: tuple[tuple[str, Value], ...]) -> Value:
    return (_intern(Partial, callee, arguments, keywords),)


def returns(result: Value) -> Value:
    return (_intern(Returns, result),)


def kernel(name: str) -> Value:
    return (_intern(Kernel, name),)


def super_of(cls: ClassInfo, receiver: Atom) -> Value:
    return (_intern(Super, cls, receiver),)


def _depth(value: Value, limit: int = 6) -> int:
    deepest = 0
    for atom in value:
        inner: tuple[Value, ...] = ()
        if isinstance(atom, Items):
            inner = atom.items
        elif isinstance(atom, (Sequence, Mapping)):
            inner = (atom.item,)
        elif isinstance(atom, Partial):
            inner = (*atom.arguments, atom.callee)
        elif isinstance(atom, Object):
            inner = (atom.content,)
        elif isinstance(atom, Returns):
            inner = (atom.result,)
        for item in inner:
            if limit <= 0:
                return 99
            deepest = max(deepest, 1 + _depth(item, limit - 1))
    return deepest


_WIDTH = 24
"""More alternatives than this are not kept apart."""
_MOST_CALLABLES = 160


def join(left: Value, right: Value) -> Value:
    """Return the least union that covers both, widened where it would grow without end."""
    if not right or left is right:
        return left
    if not left:
        return right
    if len(left) == 1 == len(right) and left[0] is right[0]:
        return left
    result = _joins.get((left, right))
    if result is None:
        result = _joins[left, right] = _joined(left, right)
    return result or left


_joins: dict[tuple[Value, Value], Value] = {}
"""Joins made so far; an empty one stands for the left side itself, whose identity says that nothing changed."""


def _joined(left: Value, right: Value) -> Value:
    known = left if len(left) < 9 else frozenset(left)
    missing = [atom for atom in right if atom not in known]
    if not missing:
        return NOTHING
    result = _normal((*left, *missing))
    # Widening may have absorbed what is new: then nothing changed, and whoever read it need not look again.
    return NOTHING if len(result) == len(left) and all(atom in known for atom in result) else result


def is_widened(before: Value, added: Value, joined: Value) -> bool:
    """Whether a join has given up telling its alternatives apart."""
    return UNKNOWN in joined and UNKNOWN not in before and UNKNOWN not in added


def widening(value: Value) -> Value:
    """What still counts of a value that joins a widened one; the rest is unknown there already."""
    return tuple(atom for atom in value if isinstance(atom, _KEPT_APART))


def join_all(values: Any) -> Value:
    result: Value = NOTHING
    for value in values:
        result = join(result, value)
    return result


def _normal(atoms: tuple[Atom, ...]) -> Value:
    if len(atoms) < 2:
        return atoms
    counts = [0, 0, 0, 0]
    for atom in atoms:
        counts[atom.group] += 1
    if counts[1] > 1:
        atoms = _merge_tensors(atoms)
    if counts[2] > 1:
        atoms = _merge_hosts(atoms)
    if counts[3] > 1:
        atoms = _merge_sequences(atoms)
    if len(atoms) > _WIDTH:
        # Callables and objects are who may be called; dropping one would leave its work unseen.
        kept = [atom for atom in atoms if isinstance(atom, _KEPT_APART)]
        if len(atoms) - len(kept) > _WIDTH or len(kept) > _MOST_CALLABLES:
            return tuple(kept[:_MOST_CALLABLES]) + unknown
    return atoms


_KEPT_APART = (Function, Instance, ClassRef, Partial, Kernel, Tensor, WarpArray)


def _merge_tensors(atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """Keep tensors apart by element kind: that decides verdicts.

    A value that is a device tensor on one path and a host tensor on another is taken as a device
    tensor of which nothing is sure: real programs keep such alternatives apart by a condition that
    the audit does not see, and pairing them freely would invent transfers.
    """
    if any(isinstance(a, Tensor) and a.device == "cuda" for a in atoms):
        atoms = tuple(a for a in atoms if not (isinstance(a, Tensor) and a.device == "cpu"))
    merged: dict[tuple[Any, ...], Tensor] = {}
    order: list[Any] = []
    for atom in atoms:
        if not isinstance(atom, Tensor):
            order.append(atom)
            continue
        slot = (atom.device, atom.element, atom.dynamic, atom.pinned)
        other = merged.get(slot)
        if other is None:
            merged[slot] = atom
            order.append(slot)
        elif other is not atom:
            merged[slot] = like(
                other,
                sure=other.sure and atom.sure,
                rank=other.rank if other.rank == atom.rank else None,
                storage=other.storage if other.storage == atom.storage else "other",
                filled=other.filled and atom.filled,
            )
    return tuple(merged[item] if isinstance(item, tuple) else item for item in order)


def _merge_hosts(atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
    hosts: dict[str, list[Atom]] = {}
    for atom in atoms:
        if isinstance(atom, (Const, Host)) and atom is not NONE:
            hosts.setdefault(atom.type_name, []).append(atom)
    replaced: dict[Atom, Atom] = {}
    for type_name, group in hosts.items():
        if len(group) < 2:
            continue
        tainted = [atom for atom in group if isinstance(atom, Host)]
        constants = len(group) - len(tainted)
        if not tainted and ((type_name == "bool" and constants == 2) or (type_name == "str" and constants <= 6)):
            continue
        taint = max((atom.taint for atom in tainted if atom.taint), key=_taint_rank, default=None)
        merged = host(type_name, taint)[0]
        for atom in group:
            replaced[atom] = merged
    if not replaced:
        return atoms
    result: list[Atom] = []
    for atom in atoms:
        atom = replaced.get(atom, atom)
        if atom not in result:
            result.append(atom)
    return tuple(result)


def settled(value: Value) -> Value:
    """What a value is once set-up is over: numbers read from the device and selected sizes are fixed by then."""
    if not any(_open(atom) for atom in value):
        return value
    result: Value = NOTHING
    for atom in value:
        if isinstance(atom, Tensor) and atom.dynamic:
            atom = like(atom, dynamic=False)
        elif isinstance(atom, Host) and _open(atom):
            atom = host(atom.type_name)[0]
        elif isinstance(atom, Sequence) and _open(atom):
            atom = sequence(atom.kind, settled(atom.item))[0]
        elif isinstance(atom, Items) and _open(atom):
            atom = items(tuple(settled(item) for item in atom.items))[0]
        result = join(result, (atom,))
    return result


def _open(atom: Atom) -> bool:
    match atom:
        case Tensor():
            return atom.dynamic
        case Host():
            return atom.taint is not None and atom.taint[0] in ("dynamic", "device")
        case Sequence():
            read = atom.taint is not None and atom.taint[0] in ("dynamic", "device")
            return read or any(_open(inner) for inner in atom.item)
        case Items():
            return any(_open(inner) for item in atom.items for inner in item)
        case _:
            return False


_TAINTS = {"dynamic": 5, "device": 4, "rng": 3, "clock": 2, "frozen": 1}


def _taint_rank(taint: tuple[Any, ...]) -> tuple[int, bool, str]:
    return (_TAINTS.get(taint[0], 0), taint[1] != FILLED, str(taint[1:]))


def stronger(left: tuple[Any, ...] | None, right: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """Return the taint that matters more where two host values meet."""
    if left is None or right is None:
        return left or right
    return max(left, right, key=_taint_rank)


def _merge_sequences(atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
    groups: dict[Any, list[Atom]] = {}
    for atom in atoms:
        if isinstance(atom, Items):
            groups.setdefault(("items", len(atom.items)), []).append(atom)
        elif isinstance(atom, Sequence):
            groups.setdefault(("sequence", atom.kind), []).append(atom)
    replaced: dict[Atom, Atom] = {}
    for (kind, _), group in groups.items():
        if len(group) < 2:
            continue
        if kind == "items":
            columns = zip(*(atom.items for atom in group if isinstance(atom, Items)), strict=True)
            merged = items(tuple(join_all(column) for column in columns))[0]
        else:
            sequences = [atom for atom in group if isinstance(atom, Sequence)]
            taint = None
            for atom in sequences:
                taint = stronger(taint, atom.taint)
            merged = sequence(sequences[0].kind, join_all(atom.item for atom in sequences), taint)[0]
        for atom in group:
            replaced[atom] = merged
    result: list[Atom] = []
    for atom in atoms:
        atom = replaced.get(atom, atom)
        if atom not in result:
            result.append(atom)
    return tuple(result)
