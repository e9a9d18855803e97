"""Reading and writing names and attributes."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from capaudit.audit import calls, emptiness, guards, hints, instances, stores
from capaudit.audit.names import External, GlobalValue, Symbol
from capaudit.audit.values import (
    NONE,
    NOTHING,
    UNKNOWN,
    Array,
    Atom,
    Bound,
    Box,
    ClassRef,
    Const,
    Function,
    Host,
    Instance,
    Items,
    Kernel,
    Library,
    Mapping,
    ModuleRef,
    Object,
    Partial,
    Record,
    Sequence,
    Super,
    Tensor,
    Value,
    WarpArray,
    bound,
    class_ref,
    const,
    host,
    items,
    join,
    kernel,
    library,
    library_object,
    like,
    mapping,
    module_ref,
    sequence,
    tensor,
    unknown,
    warp_array,
)
from capaudit.model import Confidence
from capaudit.program import ClassInfo, FunctionInfo, Module, walk
from capaudit.program.index import absolute_source

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame
    from capaudit.audit.machine import Machine

_KERNEL_DECORATORS = {"warp.kernel", "warp.func", "warp.func_grad", "triton.jit", "numba.cuda.jit", "warp.struct"}


def symbol_value(frame: Frame, symbol: Symbol | None) -> Value:
    """The value of a resolved global symbol."""
    match symbol:
        case None:
            return unknown
        case FunctionInfo():
            return calls.decorated(frame.machine, symbol)
        case ClassInfo():
            return class_value(frame.machine, symbol)
        case Module():
            return module_ref(symbol)
        case External():
            return (library(symbol.path),)
        case GlobalValue():
            return module_value(frame, symbol)
    return unknown


def class_value(machine: Machine, cls: ClassInfo) -> Value:
    for decorator in cls.node.decorator_list:
        target = machine.names.expression(cls.module, decorator)
        if isinstance(target, External) and target.path == "warp.struct":
            return (library(f"{cls.owner}"),)
    return (class_ref(cls),)


def module_value(frame: Frame, symbol: GlobalValue) -> Value:
    """Evaluate a module-level binding once, outside any boundary; later writes through ``global`` join it."""
    machine = frame.machine
    owner = module_ref(symbol.module)[0]
    cell = machine.cell(owner, symbol.name)
    key = ("module-value", symbol.module.name, symbol.name)
    if key not in machine.memo:
        machine.memo[key] = True
        annotated = hints.annotation_value(machine, symbol.module, symbol.module.annotations.get(symbol.name), None)
        value = calls.detached_value(machine, symbol.module, None, symbol.node)
        machine.join_cell(cell, hints.refine(value, annotated) or unknown)
        cell.node = (symbol.module, symbol.node)
        _run_registrations(machine, symbol)
    return stores.read_cell(frame, cell, symbol.node)


def _run_registrations(machine: Machine, symbol: GlobalValue) -> None:
    """A module-level container may be filled by decorators: apply those whose body mentions it."""
    if not isinstance(symbol.node, (ast.Dict, ast.List, ast.Call, ast.Set)):
        return
    for decorator in symbol.module.all_functions:
        if decorator.cls is not None or symbol.name not in decorator.text:
            continue
        for module, applied in _decorated_with(machine, decorator):
            if isinstance(applied, FunctionInfo):
                calls.decorated(machine, applied)
            else:
                calls.decorate_class(machine, module, applied)


def _decorated_with(machine: Machine, decorator: FunctionInfo) -> list[tuple[Module, FunctionInfo | ClassInfo]]:
    found: list[tuple[Module, FunctionInfo | ClassInfo]] = []
    for module in machine.program.modules.values():
        if decorator.name not in module.source:
            continue
        items: list[FunctionInfo | ClassInfo] = [*module.all_functions, *module.all_classes]
        for item in items:
            if not any(text.rpartition(".")[2] == decorator.name for text in item.decorators):
                continue
            for node in getattr(item.node, "decorator_list", ()):
                target = node.func if isinstance(node, ast.Call) else node
                if machine.names.expression(module, target) is decorator:
                    found.append((module, item))
    return found


def global_value(frame: Frame, module: Module, name: str) -> Value:
    """A name that is not local: module level, then builtins."""
    symbol = frame.machine.names.lookup(module, name)
    if symbol is not None:
        return symbol_value(frame, symbol)
    owner = module_ref(module)[0]
    cell = frame.machine.existing_cell(owner, name)
    if cell is not None:
        return stores.read_cell(frame, cell, None)
    if name in module.annotations:
        return hints.annotation_value(frame.machine, module, module.annotations[name], None)
    if name in ("__name__", "__file__", "__doc__"):
        return host("str")
    if name in _BUILTINS:
        return (library(f"builtins.{name}"),)
    imported = _imported_elsewhere(frame, module, name)
    return imported if imported is not None else calls.detached_name(frame, name)


def _imported_elsewhere(frame: Frame, module: Module, name: str) -> Value | None:
    """A name that only another function of the module imports: bound when that one ran with ``global``, or injected."""
    if frame.context.items.get("detached") is not None:
        return None
    key = ("imported-elsewhere", module.name, name)
    machine = frame.machine
    if key not in machine.memo:
        machine.memo[key] = None
        for node in walk(module.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if (alias.asname or alias.name.partition(".")[0]) == name:
                        target = alias.name if alias.asname else name
                        machine.memo[key] = symbol_value(frame, machine.names.module_or_external(target))
    return machine.memo[key]  # type: ignore[no-any-return]


_BUILTINS = frozenset(dir(builtins))


def write_global(frame: Frame, name: str, value: Value, node: ast.expr | None) -> None:
    owner = module_ref(frame.module)[0]
    changes = node is None or any(isinstance(inner, ast.Name) and inner.id == name for inner in walk(node))
    cell = frame.machine.cell(owner, name)
    stores.write_cell(frame, cell, value, frame.place or node, name, augmented=changes, source=node)


def return_annotation(machine: Machine, info: FunctionInfo) -> Value:
    if isinstance(info.node, ast.Lambda):
        return NOTHING
    return hints.annotation_value(machine, info.module, info.node.returns, info)


def local_import(frame: Frame, node: ast.Import | ast.ImportFrom) -> None:
    """Bind names imported inside a function."""
    machine = frame.machine
    names = machine.names
    if isinstance(node, ast.Import):
        for alias in node.names:
            bound_name = alias.asname or alias.name.partition(".")[0]
            target = names.module_or_external(alias.name if alias.asname else bound_name)
            frame.bind(bound_name, symbol_value(frame, target))
        return
    source = absolute_source(frame.module, node)
    for alias in node.names:
        symbol = names.attribute(names.module_or_external(source), alias.name)
        frame.bind(alias.asname or alias.name, symbol_value(frame, symbol))


# -- reading ------------------------------------------------------------------------------------------


def read(frame: Frame, value: Value, name: str, node: ast.expr) -> Value:
    """Return ``value.name`` over all alternatives."""
    result: Value = NOTHING
    for atom in value:
        if name.startswith("_") or name in _UNMARKED:
            note_private(frame, atom, name, node)
        result = join(result, read_atom(frame, atom, name, node))
    return result


_TENSOR_VIEWS = {"T", "mT", "H", "mH", "data", "real", "imag"}
_TENSOR_HOST = {
    "ndim": "int",
    "dtype": "any",
    "layout": "any",
    "requires_grad": "bool",
    "is_leaf": "bool",
    "is_sparse": "bool",
    "names": "any",
    "itemsize": "int",
    "nbytes": "int",
    "grad_fn": "any",
    "is_quantized": "bool",
    "is_meta": "bool",
    "retains_grad": "bool",
    "output_nr": "int",
    "__class__": "any",
    "__cuda_array_interface__": "any",
}


def read_atom(frame: Frame, atom: Atom, name: str, node: ast.expr) -> Value:
    if name in ("is_cuda", "is_cpu") and not isinstance(atom, (Tensor, Object, Instance)) and atom is not NONE:
        return const(name == "is_cuda")  # a CUDA boundary runs on a CUDA device
    match atom:
        case Tensor():
            return _tensor_attribute(atom, name)
        case Instance():
            return instances.read(frame, atom, name, node)
        case ModuleRef():
            symbol = frame.machine.names.attribute(atom.module, name)
            if symbol is None:
                cell = frame.machine.existing_cell(atom, name)
                return stores.read_cell(frame, cell, node) if cell is not None else unknown
            return symbol_value(frame, symbol)
        case Library():
            return library_attribute(frame, atom, name)
        case ClassRef():
            return instances.read_class(frame, atom, name, node)
        case Super():
            return instances.read_super(frame, atom, name, node)
        case WarpArray():
            return _warp_attribute(atom, name)
        case Array():
            if name in ("T", "real", "imag", "flat"):
                return (atom,)
            if name in ("shape", "dtype", "size", "ndim", "nbytes", "itemsize", "strides"):
                return host("any")
            return (bound(f"numpy.ndarray.{name}", atom),)
        case Object():
            return object_attribute(frame, atom, name, node)
        case Box() | Record() | Mapping() | Sequence() | Items():
            return container_attribute(atom, name)
        case Const() if atom is NONE:
            return NOTHING
        case Const() | Host():
            if atom.type_name == "any":
                return (atom,)
            return (bound(f"{atom.type_name}.{name}", atom),)
        case Partial():
            return atom.callee if name == "func" else host("any")
        case Function():
            if name == "__self__" and atom.receiver is not None:
                return (atom.receiver,)
            cell = frame.machine.existing_cell(atom, name)
            return stores.read_cell(frame, cell, node) if cell is not None else host("any")
        case Kernel() if name == "module":
            return (library_object("warp.Module"),)
        case Kernel() | Bound():
            return host("any")
        case _ if atom is UNKNOWN:
            if name == "is_cuda":
                return const(True)
            if name == "is_cpu":
                return const(False)
            if name == "is_capturing":
                return guards.capture_state(frame)
            return unknown
    return unknown


def _tensor_attribute(atom: Tensor, name: str) -> Value:
    if name == "shape":
        return shape_of(atom)
    if name in _TENSOR_VIEWS:
        return (like(atom, rank=atom.rank),)
    if name == "device":
        return (library_object("torch.device", None, frozenset({atom.device})),)
    if name == "is_cuda":
        return const(atom.device == "cuda")
    if name == "is_cpu":
        return const(atom.device == "cpu")
    if name == "grad":
        return (like(atom, storage="other"), NONE)
    if name in _TENSOR_HOST:
        return host(_TENSOR_HOST[name])
    if name.startswith("_") and not name.startswith("__"):
        return NOTHING  # no tensor has it: the value is something else on the path that asks
    return (bound(f"torch.Tensor.{name}", atom),)


def shape_of(atom: Tensor) -> Value:
    taint = emptiness.size_taint(atom.filled) if atom.dynamic else None
    if atom.rank is not None and atom.rank <= 6:
        # Selections depend on data along the first axis only.
        return items(tuple(host("int", taint if axis == 0 else None) for axis in range(atom.rank)))
    return sequence("shape", host("int", taint))


def _warp_attribute(atom: WarpArray, name: str) -> Value:
    if name in ("shape", "strides"):
        return sequence("shape", host("int"))
    if name in ("size", "ndim", "ptr", "dtype", "capacity", "requires_grad", "is_contiguous", "pinned", "deleter"):
        return host("any")
    if name == "device":
        return (library_object("warp.Device", None, frozenset({atom.device})),)
    if name == "grad":
        return (warp_array(atom.device, "other"),)
    return (bound(f"warp.array.{name}", atom),)


def library_attribute(frame: Frame, atom: Library, name: str) -> Value:
    path = f"{atom.path}.{name}"
    symbol = frame.machine.names.attribute(External(atom.path), name)
    if not isinstance(symbol, External):
        return symbol_value(frame, symbol)
    if atom.path in ("builtins.float", "builtins.int") or path in (
        "math.pi",
        "math.inf",
        "math.tau",
        "math.e",
        "math.nan",
    ):
        return host("float")
    if path in ("numpy.pi", "numpy.inf", "torch.pi", "torch.inf", "numpy.nan", "torch.nan", "numpy.e", "numpy.newaxis"):
        return const(None) if name == "newaxis" else host("float")
    if path in ("sys.argv", "os.environ", "sys.platform", "sys.modules"):
        return host("any")
    return (library(path),)


def object_attribute(frame: Frame, atom: Object, name: str, node: ast.expr) -> Value:
    if atom.path in ("torch.device", "warp.Device"):
        if name == "type":
            flag = next((f for f in ("cuda", "cpu") if f in atom.flags), None)
            return const(flag) if flag else const("cuda")
        if name in ("is_cuda", "is_cpu"):
            return const(("cpu" in atom.flags) == (name == "is_cpu"))
        if name == "is_capturing":
            return guards.capture_state(frame)
        return host("any")
    if name == "is_capturing":
        return guards.capture_state(frame)
    cell = frame.machine.existing_cell(atom, name)
    if cell is not None:
        return stores.read_cell(frame, cell, None)
    path = f"{atom.path}.{name}"
    operation = frame.machine.knowledge.operation(path)
    if operation is not None and operation.kind == "attribute" and operation.hazard is not None:
        frame.reject(node, operation.hazard, path, f"{name}: {operation.why}", remedy=operation.remedy, subject=node)
        return host("any")
    if operation is not None and operation.kind == "attribute" and not name.startswith("_"):
        match operation.result.kind:
            case "host":
                return host(next(iter(operation.result.flags), "any"))
            case "object":
                return (library_object(operation.result.name),)
            case "warp":
                return (warp_array("cuda", "other"),)
    if operation is not None and operation.result.kind in ("tensor", "like", "factory") and not operation.params:
        return (tensor("cuda", sure=False, storage="other"),)
    if atom.path.startswith("torch.nn.") and name in (
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "in_proj_weight",
    ):
        return (tensor("cuda", element="float", storage="other"),)
    if atom.path.startswith("torch.distributions.") and name in (
        "mean",
        "stddev",
        "variance",
        "loc",
        "scale",
        "probs",
        "logits",
        "mode",
    ):
        return (tensor("cuda", element="float"),)
    if atom.path == "warp.ScopedCapture" and name == "graph":
        return (library_object("warp.Graph", atom.site),)
    if atom.path in ("types.SimpleNamespace", "argparse.Namespace"):
        created = frame.machine.cell(atom, name)
        return stores.read_cell(frame, created, None)
    return (bound(path, atom),)


def container_attribute(atom: Atom, name: str) -> Value:
    kind = getattr(atom, "kind", None) or ("tuple" if isinstance(atom, Items) else "dict")
    if isinstance(atom, Items) and atom.items and name not in ("count", "index"):
        # A named tuple of the library: its first field is the result, the rest are what it says about it.
        return (
            atom.items[1]
            if name in ("indices", "R", "info", "counts", "inverse_indices") and len(atom.items) > 1
            else atom.items[0]
        )
    if kind in ("shape", "range", "iterator"):
        kind = "tuple"
    return (bound(f"{kind}.{name}", atom),)


def instance_dictionary(frame: Frame, atom: Instance) -> Value:
    """``obj.__dict__``: field names to whatever the object holds."""
    held: Value = NOTHING
    machine = frame.machine
    found = False
    for name in instances.field_names(machine, atom.cls):
        held = join(held, instances.read(frame, atom, name, ast.Name(name)))
        found = True
    for cell in list(machine.owner_cells(atom).values()):
        held = join(held, stores.read_cell(frame, cell, None))
        found = True
    return mapping(host("str"), held if found and held else unknown)


_UNMARKED = {"runtime": ("warp.context",)}
"""Names without an underscore that no documentation of their package knows, each with the modules that hold it."""


def note_private(frame: Frame, atom: Atom, name: str, node: ast.AST) -> None:
    """Record a read of another package's private name (CAP601); the program's own packages are exempt."""
    if not frame.recording or name.startswith("__") or not (name.startswith("_") or name in _UNMARKED):
        return
    owner = ""
    if isinstance(atom, (Library, Object)):
        owner = atom.path
    elif isinstance(atom, WarpArray):
        owner = "warp.array"
    if not name.startswith("_") and owner not in _UNMARKED[name]:
        return
    if f"{owner}.{name}" in _described_prefixes(frame.machine):
        return
    if owner.partition(".")[0] in ("", "builtins", "types", "contextlib") or frame.machine.program.owns_package(owner):
        return
    frame.reject(
        node,
        "CAP601",
        "private-name",
        f"{owner}.{name} is private to {owner.partition('.')[0]}: what it says may change with any release, "
        "and capture cannot rely on it",
        confidence=Confidence.LIKELY,
        subject=node if isinstance(node, ast.expr) else None,
    )


def _described_prefixes(machine: Machine) -> frozenset[str]:
    """Names that the tables describe, and the modules and classes above them."""
    found = machine.memo.get("described-prefixes")
    if found is None:
        found = frozenset(prefix for name in machine.knowledge.operations for prefix in (name, name.rpartition(".")[0]))
        machine.memo["described-prefixes"] = found
    return found


def kernel_or_function(machine: Machine, info: FunctionInfo) -> Value | None:
    """Device kernels are values of their own; their bodies run on the device."""
    if isinstance(info.node, ast.Lambda):
        return None
    for decorator in info.node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        symbol = machine.names.expression(info.module, target)
        if isinstance(symbol, External) and symbol.path in _KERNEL_DECORATORS:
            return kernel(info.owner)
    return None
