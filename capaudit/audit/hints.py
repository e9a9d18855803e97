"""What annotations promise, and ``isinstance`` tests against values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from capaudit.audit.names import External, GlobalValue
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
    Mapping,
    Object,
    Record,
    Sequence,
    Slice,
    Tensor,
    Value,
    WarpArray,
    array,
    class_ref,
    const,
    host,
    instance,
    items,
    join,
    join_all,
    library,
    library_object,
    mapping,
    none,
    returns,
    sequence,
    slice_of,
    tensor,
    unknown,
    warp_array,
)
from capaudit.program import ClassInfo, FunctionInfo, Module

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame
    from capaudit.audit.machine import Machine

_SCALARS = {"int", "float", "bool", "str", "bytes", "complex"}
_TENSORS = {
    "torch.Tensor",
    "torch.FloatTensor",
    "torch.LongTensor",
    "torch.BoolTensor",
    "torch.IntTensor",
    "torch.nn.Parameter",
    "torch.nn.parameter.Parameter",
    "torch.cuda.FloatTensor",
}
_LISTS = {"list", "List", "Sequence", "MutableSequence", "Collection", "deque", "Deque", "tuple", "Tuple"}
_SETS = {"set", "frozenset", "Set", "FrozenSet", "AbstractSet"}
_ITERATORS = {"Iterator", "Iterable", "Generator", "AsyncIterator", "Reversible", "KeysView", "ValuesView"}
_MAPPINGS = {"dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict", "DefaultDict", "ItemsView"}
_WRAPPERS = {"Optional", "Final", "ClassVar", "Annotated", "Required", "NotRequired", "ReadOnly", "Concatenate"}
_OPAQUE = {"Any", "object", "Hashable", "Never", "NoReturn"}
_MANAGERS = {"contextmanager", "AbstractContextManager", "ContextManager"}
_WARP_SCALARS = {"warp.int32", "warp.float32", "warp.uint32", "warp.bool", "warp.int64", "warp.float64", "warp.uint64"}


def annotation_value(machine: Machine, module: Module, node: ast.expr | None, function: FunctionInfo | None) -> Value:
    """Return the value that an annotation promises; the empty union where it says nothing."""
    if node is None:
        return NOTHING
    key = ("annotation", module.name, node, function.cls if function else None)  # kept alive: ids are used again
    cached = machine.memo.get(key)
    if cached is None:
        machine.memo[key] = NOTHING
        cached = _read(machine, module, node, function.cls if function else None, 0)
        machine.memo[key] = cached
    return cached


def _read(machine: Machine, module: Module, node: ast.expr, cls: ClassInfo | None, depth: int) -> Value:
    if depth > 8:
        return unknown
    match node:
        case ast.Constant(value=None):
            return none
        case ast.Constant(value=str() as text):
            try:
                return _read(machine, module, ast.parse(text, mode="eval").body, cls, depth + 1)
            except (SyntaxError, ValueError):
                return unknown
        case ast.Constant():
            return unknown
        case ast.BinOp(op=ast.BitOr()):
            return join(
                _read(machine, module, node.left, cls, depth + 1), _read(machine, module, node.right, cls, depth + 1)
            )
        case ast.Subscript():
            return _subscript(machine, module, node, cls, depth)
        case ast.Name() | ast.Attribute():
            return _plain(machine, module, node, cls, depth)
        case _:
            return unknown


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _subscript(machine: Machine, module: Module, node: ast.Subscript, cls: ClassInfo | None, depth: int) -> Value:
    name = _last(node.value)
    inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]

    def read(part: ast.expr) -> Value:
        return _read(machine, module, part, cls, depth + 1)

    symbol = machine.names.expression(module, node.value)
    if isinstance(symbol, ClassInfo):
        return (instance(symbol),)
    if name == "Optional":
        return join(read(inner[0]), none)
    if name == "Union":
        return join_all(read(part) for part in inner)
    if name in _WRAPPERS:
        return read(inner[0])
    if name == "Literal":
        return join_all(const(part.value) for part in inner if isinstance(part, ast.Constant)) or host("any")
    if name in ("tuple", "Tuple"):
        if len(inner) == 2 and isinstance(inner[1], ast.Constant) and inner[1].value is Ellipsis:
            return sequence("tuple", read(inner[0]))
        return items(tuple(read(part) for part in inner))
    if name in _LISTS:
        return sequence("list", read(inner[0]))
    if name in _SETS:
        return sequence("set", read(inner[0]))
    if name in _ITERATORS:
        return sequence("iterator", read(inner[0]))
    if name in _MAPPINGS:
        return mapping(read(inner[0]), read(inner[-1]))
    if name in ("type", "Type"):
        target = read(inner[0])
        found = tuple(
            class_ref(atom.cls, True) if isinstance(atom, Instance) else library(atom.path)
            for atom in target
            if isinstance(atom, (Instance, Object))
        )
        return found or unknown
    if name in ("Callable", "Coroutine", "Awaitable"):
        return returns(read(inner[-1])) if name == "Callable" else read(inner[-1])
    if name in _MANAGERS:
        return unknown
    return _plain(machine, module, node.value, cls, depth)


def _plain(machine: Machine, module: Module, node: ast.expr, cls: ClassInfo | None, depth: int) -> Value:
    name = _last(node)
    if name == "Self" and cls is not None:
        return (instance(cls),)
    symbol = machine.names.expression(module, node)
    if isinstance(symbol, ClassInfo):
        return class_value(machine, symbol)
    if isinstance(symbol, GlobalValue):
        value = symbol.node
        if isinstance(value, ast.Call) and _last(value.func) in ("TypeVar", "ParamSpec"):
            for keyword in value.keywords:
                if keyword.arg == "bound":
                    return _read(machine, symbol.module, keyword.value, cls, depth + 1)
            constraints = value.args[1:]
            return join_all(_read(machine, symbol.module, a, cls, depth + 1) for a in constraints) or unknown
        if isinstance(value, ast.Call) and _last(value.func) == "NewType" and len(value.args) == 2:
            return _read(machine, symbol.module, value.args[1], cls, depth + 1)
        return _read(machine, symbol.module, value, cls, depth + 1)
    if isinstance(symbol, External):
        return _external(machine, symbol.path, name)
    return _external(machine, name, name)


def class_value(machine: Machine, cls: ClassInfo) -> Value:
    """Any object of a program class; typed dictionaries are mappings and protocols stand for what implements them."""
    external = machine.names.external_bases(cls)
    if any(path.rpartition(".")[2] == "TypedDict" for path in external):
        return mapping(host("str"), unknown)
    if any(path.rpartition(".")[2] in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag") for path in external):
        from capaudit.audit import instances

        return instances.enum_member(machine, cls)
    return (instance(cls),)


def _external(machine: Machine, path: str, name: str) -> Value:
    if path in _SCALARS or (name in _SCALARS and "." not in path):
        return host(name)
    if path in _TENSORS:
        return (tensor("cuda", sure=False, element=_element(name)),)
    if path in ("numpy.ndarray", "numpy.typing.NDArray", "numpy.typing.ArrayLike"):
        return array(None)
    if path.startswith("numpy.") or path in _WARP_SCALARS:
        return host("any")
    if path in ("warp.array", "warp.types.array") or path.startswith("warp.array"):
        return (warp_array("cuda"),)
    if name in _OPAQUE:
        return unknown
    if path == "slice":
        return slice_of(NOTHING)
    if name in ("list", "List", "deque", "Sequence", "tuple", "Tuple"):
        return sequence("list" if name != "tuple" else "tuple", unknown)
    if name in _SETS:
        return sequence("set", unknown)
    if name in _MAPPINGS:
        return mapping(host("str"), unknown)
    if name in _ITERATORS:
        return sequence("iterator", unknown)
    if name in ("Callable", "FunctionType"):
        return unknown
    if path in ("torch.device", "torch.dtype", "torch.Size", "torch.layout", "pathlib.Path", "None"):
        return none if path == "None" else host("str" if path == "torch.device" else "any")
    if path.startswith(("typing.", "typing_extensions.", "collections.abc.")):
        return unknown
    made = machine.knowledge.operations.get(path)
    if made is not None and made.result.kind == "object":
        return (library_object(made.result.name),)
    if path in _described_classes(machine):
        return (library_object(path),)
    if "." in path and _pure_host(machine, path):
        return host("any")
    return (library_object(path),) if "." in path else unknown


def _described_classes(machine: Machine) -> frozenset[str]:
    """Dotted paths of library classes with a described method."""
    found = machine.memo.get("described-classes")
    if found is None:
        found = frozenset(
            owner
            for name in machine.knowledge.operations
            if (owner := name.rpartition(".")[0]).rpartition(".")[2][:1].isupper()
        )
        machine.memo["described-classes"] = found
    return found


def _element(name: str) -> str | None:
    return {"FloatTensor": "float", "LongTensor": "int", "IntTensor": "int", "BoolTensor": "bool"}.get(name)


def _pure_host(machine: Machine, path: str) -> bool:
    """True for classes of libraries that the knowledge describes as host-only."""
    operation = machine.knowledge.operation(f"{path}.") or machine.knowledge.operation(path)
    return operation is not None and operation.kind == "host"


def refine(value: Value, promised: Value) -> Value:
    """Use an annotation where the value itself is not known."""
    if not value:
        return value
    if UNKNOWN in value and promised and UNKNOWN not in promised:
        return join(tuple(atom for atom in value if atom is not UNKNOWN), promised)
    if any(isinstance(atom, Host) and atom.type_name == "any" for atom in value) and promised:
        scalars = [atom for atom in promised if isinstance(atom, Host)]
        if len(scalars) == len(promised) and all(isinstance(a, Host) for a in value):
            taint = next((a.taint for a in value if isinstance(a, Host) and a.taint), None)
            return tuple(host(a.type_name, taint)[0] for a in scalars)
    return value


# -- isinstance ---------------------------------------------------------------------------------------


def isinstance_kinds(frame: Frame, node: ast.expr) -> list[Any]:
    """The classes that the second argument of ``isinstance`` names: program classes or dotted paths."""
    if isinstance(node, ast.Tuple):
        return [kind for element in node.elts for kind in isinstance_kinds(frame, element)]
    if isinstance(node, ast.BinOp):
        return isinstance_kinds(frame, node.left) + isinstance_kinds(frame, node.right)
    found: list[Any] = []
    for atom in frame.evaluate(node):
        if isinstance(atom, ClassRef):
            found.append(atom.cls)
        elif isinstance(atom, Items):
            found.extend(a.cls for item in atom.items for a in item if isinstance(a, ClassRef))
            found.extend(getattr(a, "path", "?") for item in atom.items for a in item if not isinstance(a, ClassRef))
        elif hasattr(atom, "path"):
            found.append(atom.path)
        else:
            found.append("?")
    return found


def is_instance(frame: Frame, atom: Atom, kinds: list[Any]) -> bool | None:
    """Whether an alternative passes an ``isinstance`` test; ``None`` when that is not known."""
    if atom is UNKNOWN or "?" in kinds or not kinds or "object" in kinds:
        return None
    names = {kind.removeprefix("builtins.") for kind in kinds if isinstance(kind, str)}
    classes = [kind for kind in kinds if isinstance(kind, ClassInfo)]
    match atom:
        case Tensor():
            return bool(names & _TENSORS)
        case WarpArray():
            return any(name.startswith("warp.array") or name == "warp.types.array" for name in names)
        case Array():
            return "numpy.ndarray" in names
        case Const() if atom is NONE:
            return "types.NoneType" in names
        case Const() | Host():
            if isinstance(atom, Host) and atom.type_name == "any":
                return None
            if atom.type_name == "bool" and names & {"int", "numbers.Number", "numbers.Integral"}:
                return True
            if atom.type_name in ("int", "float") and names & {"numbers.Number", "numbers.Real"}:
                return True
            return atom.type_name in names
        case Slice():
            return "slice" in names
        case Items():
            return bool(names & {"tuple", "collections.abc.Sequence", "collections.abc.Iterable", "typing.Sequence"})
        case Sequence():
            abstract = {"collections.abc.Sequence", "collections.abc.Iterable", "typing.Sequence", "typing.Iterable"}
            return None if names & abstract else atom.kind in names
        case Box():
            abstract = {"collections.abc.Sequence", "collections.abc.Iterable", "typing.Sequence"}
            maps = {"collections.abc.Mapping", "collections.abc.MutableMapping", "typing.Mapping"}
            if atom.kind == "dict":
                return bool(names & ({"dict"} | maps)) or (None if names & {"collections.OrderedDict"} else False)
            return bool(names & ({atom.kind} | abstract))
        case Mapping() | Record():
            return bool(names & {"dict", "collections.abc.Mapping", "typing.Mapping"}) or None
        case Function():
            return bool(
                names & {"types.FunctionType", "types.MethodType", "collections.abc.Callable", "typing.Callable"}
            )
        case ClassRef():
            return "type" in names
        case Instance():
            return _instance_of(frame, atom, classes, names)
        case Object():
            return True if atom.path in names else None
        case _:
            return None


def _instance_of(frame: Frame, atom: Instance, classes: list[ClassInfo], names: set[str]) -> bool | None:
    known = frame.machine.names
    mro = known.mro(atom.cls)
    if any(cls in mro for cls in classes):
        return True
    if names & set(known.external_bases(atom.cls)):
        return True
    if atom.site is None and any(atom.cls in known.mro(cls) for cls in classes):
        return None
    if any(known.external_bases(cls) for cls in classes) and any(
        "Protocol" in p for c in classes for p in known.external_bases(c)
    ):
        return None
    if names and known.external_bases(atom.cls):
        return None
    return False


def narrowed(frame: Frame, atom: Atom, kinds: list[Any]) -> list[Atom]:
    """What an alternative becomes where an undecided ``isinstance`` test held."""
    if atom is UNKNOWN or isinstance(atom, Host) or (isinstance(atom, Instance) and atom.site is None):
        found: list[Atom] = []
        for kind in kinds:
            if isinstance(kind, ClassInfo):
                found.append(instance(kind))
            elif kind == "?":
                found.append(atom)
            else:
                name = kind.removeprefix("builtins.")
                found.extend(_external(frame.machine, name, name.rpartition(".")[2]))
        return found or [atom]
    return [atom]
