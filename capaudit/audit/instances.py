"""Objects of program classes: attributes, construction, fields of configuration objects, dispatch."""

from __future__ import annotations

import ast
from itertools import takewhile
from typing import TYPE_CHECKING

from capaudit.audit import attributes, calls, hints, late, stores
from capaudit.audit.values import (
    NONE,
    NOTHING,
    UNKNOWN,
    Atom,
    Box,
    ClassRef,
    Const,
    Function,
    Instance,
    Object,
    Returns,
    Super,
    Value,
    bound,
    class_ref,
    const,
    function,
    host,
    instance,
    join,
    join_all,
    library,
    mapping,
    unknown,
)
from capaudit.program import ClassInfo, FunctionInfo
from capaudit.program.symbols import dotted_text

if TYPE_CHECKING:
    from capaudit.audit.contexts import Cell
    from capaudit.audit.frame import Frame
    from capaudit.audit.machine import Machine

_PROPERTIES = ("property", "cached_property", "abstractproperty", "getter", "lazy_property")
_MOST_OVERRIDES = 160


def read(frame: Frame, atom: Instance, name: str, node: ast.expr) -> Value:
    """Return ``atom.name``: properties, own attributes, methods, fields, then what the class only promises."""
    machine = frame.machine
    method = machine.names.method(atom.cls, name)
    if method is not None:
        return _member(frame, atom, method, name, node)
    if name == "__dict__":
        return attributes.instance_dictionary(frame, atom)
    if name == "__class__":
        return (class_ref(atom.cls, atom.site is None),)
    if name == "__name__":
        return host("str")
    if machine.existing_cell(atom, name) is None and (member := _library_member(machine, atom, name)):
        return member
    if machine.existing_cell(atom, name) is None and (hook := _attribute_hook(machine, atom, name)) is not None:
        return calls.call_function(frame, hook, atom, [const(name)], node)
    context = frame.context
    cell = machine.cell(atom, name)
    value = stores.read_cell(frame, cell, node)
    if len(value) == 1 and isinstance(value[0], Box) and not value[0].tick:
        fill_empty(frame, atom, name, value[0])
        if all(cell.value in (NOTHING, unknown) for cell in machine.owner_cells(value[0]).values()):
            value = join(value, machine.memo.get(("declared", atom, name), NOTHING))
    if atom.site is None:
        held = [value]
        for inner in _cells_held(machine, atom.cls, name):
            held.append(stores.read_cell(frame, inner, node) if frame.recording else machine.read_cell(inner, context))
        value = _joined(machine, atom, name, tuple(held))
        if value and not cell.value:
            machine.hollow.pop(cell, None)  # what objects of the class hold is known: their name for all is not hollow
        if not value:
            value = _declared(frame, atom, name, node)
        elif is_data_class(machine, atom.cls):
            # Objects seen in set-up code are some of those that the field may come from, not all.
            value = join(value, field_value(frame, atom, name))
        if value == (NONE,):  # what only a method binds that nobody is seen to call
            promised = machine.memo.get(("declared", atom, name), NOTHING)
            value = join(value, tuple(a for a in promised if isinstance(a, Object)))
    elif not value or value == (NONE,):
        value = join(value, _declared(frame, atom, name, node))
    if len(value) == 1 and isinstance(value[0], Const) and _is_open(frame, atom, name, cell):
        value = host(value[0].type_name)
    if value == unknown and cell.node is None:
        # Nothing binds it: what subclasses and mixins offer under that name is what such an object can have.
        value = _inherited(frame, atom, name, node) or value
    return value


def _is_open(frame: Frame, atom: Instance, name: str, cell: Cell) -> bool:
    """Whether a constant from construction may have been replaced by code that was not evaluated."""
    return not stores.is_written(frame, cell) and late.is_set_by_others(frame.machine, atom.cls, name)


def _cells_held(machine: Machine, cls: ClassInfo, name: str) -> list[Cell]:
    """The cells that constructed objects of a class hold under one name, looked up anew where one was added since."""
    key = ("cells-held", cls, name)
    made = (machine.instance_count, machine.cells_named.get(name))
    known = machine.memo.get(key)
    if known is None or known[0] != made:
        cells = (machine.existing_cell(other, name) for other in _constructed(machine, cls))
        known = machine.memo[key] = (made, [cell for cell in cells if cell is not None])
    found: list[Cell] = known[1]
    return found


def _constructed(machine: Machine, cls: ClassInfo) -> list[Instance]:
    classes = (cls, *machine.subclasses(cls)[:_MOST_OVERRIDES])
    found: list[Instance] = []
    for one in classes:
        made = machine.instances.get(one)
        if made:
            found.extend(made)
    return found[:_MOST_OVERRIDES]


def _joined(machine: Machine, atom: Instance, name: str, held: tuple[Value, ...]) -> Value:
    """Join what the objects of a class hold under one name; most reads find what the one before them found."""
    key = ("held", atom, name)
    known = machine.memo.get(key)
    if known is None or known[0] != held:
        known = machine.memo[key] = (held, join_all(held))
    joined: Value = known[1]
    return joined


def _declared(frame: Frame, atom: Instance, name: str, node: ast.expr) -> Value:
    """What an attribute holds that no evaluated code has bound yet."""
    machine = frame.machine
    cell = machine.cell(atom, name)
    value: Value = NOTHING
    if atom.site is None:
        ensure_constructed(frame, atom)
        value = stores.read_cell(frame, cell, node)
        if value and value != (NONE,):
            return value
    field = field_value(frame, atom, name)
    if field:
        machine.join_cell(cell, field)
        return stores.read_cell(frame, cell, node)
    if not value or value == (NONE,):
        evaluate_stores(frame, atom, name)
        value = stores.read_cell(frame, cell, node)
    if value == (NONE,):
        value = join(value, machine.memo.get(("declared", atom, name), NOTHING))
    if not value or value == (NONE,):
        value = join(value, _inherited(frame, atom, name, node))
    return value


def _inherited(frame: Frame, atom: Instance, name: str, node: ast.expr) -> Value:
    machine = frame.machine
    external = machine.names.external_bases(atom.cls)
    hook = machine.names.method(atom.cls, "__getattr__") or machine.names.method(atom.cls, "__getattribute__")
    if hook is not None:
        return calls.call_function(frame, hook, atom, [const(name)], node)
    if atom.site is None:
        for sub in machine.subclasses(atom.cls)[:_MOST_OVERRIDES]:
            method = machine.names.method(sub, name)
            if method is not None:
                return read(frame, instance(sub), name, node)
            if name in machine.names.stores_of(sub):
                return read(frame, instance(sub), name, node)
    if atom.site is None and not name.startswith("__"):
        offered: Value = NOTHING
        for mixin in _nearest_mixins(machine, atom.cls, name):
            offered = join(offered, read(frame, instance(mixin), name, node))
        if offered:
            return offered
    if external and any(
        not base.startswith(("abc.", "typing.", "builtins.")) and base not in _PLAIN_BASES for base in external
    ):
        return unknown
    return NOTHING


def _mixins(machine: Machine) -> list[ClassInfo]:
    """Classes that are made to be combined with others by whoever uses them: any object may carry their methods."""
    found: list[ClassInfo] | None = machine.memo.get("mixins")
    if found is None:
        modules = [module for module in machine.program.modules.values() if "Mixin" in module.source]
        found = [cls for module in modules for cls in module.all_classes if cls.name.endswith("Mixin")]
        machine.memo["mixins"] = found
    return found


def _nearest_mixins(machine: Machine, cls: ClassInfo, name: str) -> list[ClassInfo]:
    """Mixins with a method of that name, those of the same part of the package where there are several."""
    offering = [mixin for mixin in _mixins(machine) if machine.names.method(mixin, name) is not None]

    def shared(mixin: ClassInfo) -> int:
        pairs = zip(mixin.module.name.split("."), cls.module.name.split("."), strict=False)
        return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))

    nearest = max(map(shared, offering), default=0)
    return [mixin for mixin in offering if shared(mixin) == nearest]


def _attribute_hook(machine: Machine, atom: Instance, name: str) -> FunctionInfo | None:
    """``__getattr__`` of the class, where nothing in the class binds or declares the attribute."""
    hook = machine.names.method(atom.cls, "__getattr__")
    if hook is None or name.startswith("__"):
        return None
    for owner in machine.names.mro(atom.cls):
        if (
            name in owner.annotations
            or name in owner.values
            or name in owner.nested
            or name in machine.names.stores_of(owner)
        ):
            return None
    return hook


def _library_member(machine: Machine, atom: Instance, name: str) -> Value:
    """What an object inherits from a library class that the knowledge describes."""
    external = machine.names.external_bases(atom.cls)
    if not external:
        return NOTHING
    for base in external:
        if machine.knowledge.operations.get(f"{base}.{name}") is not None:
            return (bound(f"{base}.{name}", atom),)
    last = [base.rpartition(".")[2] for base in external]
    if name in ("_replace", "_asdict", "_fields") and "NamedTuple" in last:
        return (bound(f"typing.NamedTuple.{name}", atom),)
    if name in _MODULE_METHODS and any(base.startswith("torch.nn.") for base in external):
        return (bound(f"torch.nn.Module.{name}", atom),)
    if name in ("value", "name") and any(base in ("Enum", "IntEnum", "StrEnum") for base in last):
        return host("any")
    if name in _DICTIONARY_METHODS and any(base in ("dict", "OrderedDict", "UserDict") for base in last):
        return (bound(f"dict.{name}", atom),)
    return NOTHING


def enum_member(machine: Machine, cls: ClassInfo) -> Value:
    """A member of an enumeration: an object where the class has methods that may be called on it."""
    plain = all(base.rpartition(".")[2] in ("Enum", "object") for base in machine.names.external_bases(cls))
    own = any(not name.startswith("__") for owner in machine.names.mro(cls) for name in owner.methods)
    return (instance(cls),) if plain and own else host("any")


_DICTIONARY_METHODS = ("get", "items", "keys", "values", "pop", "update", "setdefault", "copy", "clear")
_PLAIN_BASES = {"object", "ABC", "Protocol", "Generic", "NamedTuple", "torch.nn.Module", "Enum"}
_MODULE_METHODS = {
    "parameters",
    "named_parameters",
    "buffers",
    "named_buffers",
    "modules",
    "children",
    "named_children",
    "named_modules",
    "state_dict",
    "load_state_dict",
    "register_buffer",
    "register_parameter",
    "add_module",
    "register_module",
    "to",
    "cuda",
    "cpu",
    "train",
    "eval",
    "zero_grad",
    "requires_grad_",
    "apply",
    "half",
    "float",
    "double",
    "type",
    "__call__",
    "training",
    "compile",
    "register_forward_hook",
    "get_parameter",
    "get_buffer",
}


def _member(frame: Frame, atom: Instance, method: FunctionInfo, name: str, node: ast.expr) -> Value:
    """A method or property of an object, with the overrides of subclasses where the object's class is open."""
    result: Value = NOTHING
    for target, receiver in dispatch(frame.machine, atom, name, method):
        result = join(result, _bind(frame, target, receiver, node))
    return result


def dispatch(machine: Machine, atom: Instance, name: str, method: FunctionInfo) -> list[tuple[FunctionInfo, Instance]]:
    """The functions that ``atom.name`` may run, each with the receiver it runs on."""
    if atom.site is not None:
        return [(method, atom)]
    targets: dict[FunctionInfo, Instance] = {}
    if not calls.is_stub(method.node) or not machine.subclasses(atom.cls):
        targets[method] = atom
    for sub in machine.subclasses(atom.cls):
        override = machine.names.method(sub, name)
        if override is not None and override not in targets and override is not method:
            owner = override.cls
            receiver = owner if owner is not None and atom.cls in machine.names.mro(owner) else sub
            targets[override] = instance(receiver)
            if len(targets) >= _MOST_OVERRIDES:
                break
    if not targets:
        targets[method] = atom
    return list(targets.items())


def _bind(frame: Frame, method: FunctionInfo, receiver: Atom, node: ast.expr) -> Value:
    if method.has_decorator(*_PROPERTIES) or _is_property(frame, method):
        return calls.call_function(frame, method, receiver, [], node)
    kernel = attributes.kernel_or_function(frame.machine, method)
    if kernel is not None:
        return kernel
    if method.has_decorator("staticmethod"):
        return calls.decorated(frame.machine, method)
    if method.has_decorator("classmethod"):
        cls = receiver.cls if isinstance(receiver, (Instance, ClassRef)) else None
        return (function(method, class_ref(cls) if cls is not None else None, None),)
    return calls.bind_decorated(frame.machine, method, receiver)


def _is_property(frame: Frame, method: FunctionInfo) -> bool:
    """A decorator class or function of the program whose name says that it makes a property."""
    return any(text.rpartition(".")[2].endswith(("property", "_property")) for text in method.decorators)


def read_class(frame: Frame, atom: ClassRef, name: str, node: ast.expr) -> Value:
    """Return ``Class.name``."""
    machine = frame.machine
    cls = atom.cls
    method = machine.names.method(cls, name)
    if method is not None:
        if method.has_decorator("classmethod"):
            return (function(method, atom, None),)
        return calls.decorated(machine, method)
    if name in ("__name__", "__qualname__", "__doc__", "__module__"):
        return host("str")
    if name in ("__dict__", "__annotations__", "__dataclass_fields__"):
        return mapping(host("str"), host("any"))
    for owner in machine.names.mro(cls):
        if name in owner.nested:
            return (class_ref(owner.nested[name]),)
        if name in owner.values:
            if any(
                b.rpartition(".")[2] in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")
                for b in machine.names.external_bases(cls)
            ):
                return enum_member(machine, cls)
            return class_level(frame, owner, name)
    cell = machine.existing_cell(atom, name)
    if cell is not None:
        return stores.read_cell(frame, cell, node)
    for base in machine.names.external_bases(cls):
        return attributes.library_attribute(frame, library(base), name)
    return unknown


def class_level(frame: Frame, owner: ClassInfo, name: str) -> Value:
    """A binding in a class body, evaluated once; writes through the class join it."""
    machine = frame.machine
    atom = class_ref(owner)
    cell = machine.cell(atom, name)
    key = ("class-value", owner, name)
    if key not in machine.memo:
        machine.memo[key] = True
        value = calls.detached_value(machine, owner.module, None, owner.values[name], owner)
        machine.join_cell(cell, value or unknown)
        cell.node = (owner.module, owner.values[name])
    return stores.read_cell(frame, cell, owner.values[name])


def read_super(frame: Frame, atom: Super, name: str, node: ast.expr) -> Value:
    machine = frame.machine
    receiver = atom.receiver
    cls = receiver.cls if isinstance(receiver, (Instance, ClassRef)) else atom.cls
    mro = machine.names.mro(cls)
    if atom.cls not in mro:
        mro = machine.names.mro(atom.cls)
    after = mro[mro.index(atom.cls) + 1 :]
    for owner in after:
        if name in owner.methods:
            return _bind(frame, owner.methods[name], receiver, node)
    for base in machine.names.external_bases(cls):
        return (bound(f"{base}.{name}", receiver),)
    if name in ("__init__", "__post_init__", "__init_subclass__", "__setattr__", "__enter__", "__exit__", "close"):
        return (bound(f"object.{name}", receiver),)
    return unknown


# -- construction -----------------------------------------------------------------------------------------


def is_data_class(machine: Machine, cls: ClassInfo) -> bool:
    """Dataclass-like: fields come from annotations, and the constructor takes them."""
    key = ("data-class", cls)
    if key not in machine.memo:
        machine.memo[key] = _is_data_class(machine, cls)
    return bool(machine.memo[key])


def _is_data_class(machine: Machine, cls: ClassInfo) -> bool:
    for owner in machine.names.mro(cls):
        if any(
            text.rpartition(".")[2] in ("dataclass", "configclass", "define", "frozen", "attrs", "struct")
            for text in owner.decorators
        ):
            return True
    return any(
        base.rpartition(".")[2] in ("NamedTuple", "BaseModel", "Struct") for base in machine.names.external_bases(cls)
    )


def field_names(machine: Machine, cls: ClassInfo) -> list[str]:
    """Names of the constructor's fields, base classes first."""
    names: dict[str, None] = {}
    for owner in reversed(machine.names.mro(cls)):
        for name in owner.annotations:
            names[name] = None
        if any(text.rpartition(".")[2] == "configclass" for text in owner.decorators):
            for name in owner.values:
                names[name] = None
    return list(names)


def ensure_constructed(frame: Frame, atom: Instance) -> None:
    """Evaluate ``__init__`` of an object that nobody was seen to construct, with what its parameters promise."""
    machine = frame.machine
    if atom in machine.constructed:
        return
    machine.constructed[atom] = None
    init = machine.names.method(atom.cls, "__init__")
    if init is None:
        init = machine.names.method(atom.cls, "__post_init__")
    if init is None:
        return
    arguments = calls.promised_arguments(machine, init, atom)
    machine.enter(init, atom, arguments, frozenset(), "cold", None, None)


def evaluate_stores(frame: Frame, atom: Instance, name: str) -> None:
    """Evaluate the methods that bind ``self.name``, so that the attribute has a value."""
    machine = frame.machine
    for owner in machine.names.mro(atom.cls):
        for method in machine.names.stores_of(owner).get(name, ()):
            key = ("stores", atom, method)
            if key in machine.memo:
                continue
            machine.memo[key] = True
            machine.speculative += 1
            try:
                machine.enter(
                    method, atom, calls.promised_arguments(machine, method, atom), frozenset(), "cold", None, None
                )
            finally:
                machine.speculative -= 1


def fill_empty(frame: Frame, atom: Instance, name: str, box: Box) -> None:
    """A container that construction leaves empty is filled by methods that others call: look for them once."""
    machine = frame.machine
    key = ("filled", atom, name)
    if key in machine.memo or any(cell.value for cell in machine.owner_cells(box).values()):
        return
    machine.memo[key] = True
    for owner in machine.names.mro(atom.cls):
        for method in machine.names.fillers_of(owner).get(name, ()):
            if method.name == "__init__":
                continue
            machine.speculative += 1
            try:
                arguments = calls.promised_arguments(machine, method, atom)
                machine.enter(method, atom, arguments, frozenset(), "cold", None, None)
            finally:
                machine.speculative -= 1


# -- fields of configuration objects ----------------------------------------------------------------------


def field_value(frame: Frame, atom: Instance, name: str) -> Value:
    """What a declared field holds: its annotation, its default, and what the program passes for it."""
    machine = frame.machine
    key = ("field", atom.cls, name, atom.site is None)
    if key in machine.memo:
        return machine.memo[key]  # type: ignore[no-any-return]
    machine.memo[key] = NOTHING
    value: Value = NOTHING
    for owner in machine.names.mro(atom.cls):
        if name in owner.annotations:
            value = hints.annotation_value(machine, owner.module, owner.annotations[name], _any_method(owner))
            break
    data = is_data_class(machine, atom.cls)
    default = _default(frame, atom.cls, name)
    if not value or UNKNOWN in value or any(isinstance(a, (Returns, ClassRef)) for a in value):
        flows = field_flow(frame, atom.cls, name) if data or value else NOTHING
        known = tuple(a for a in join(flows, default) if a is not UNKNOWN)
        if known and any(isinstance(a, (Function, ClassRef)) or a is not NONE for a in known):
            kept = tuple(a for a in value if a is not UNKNOWN and not isinstance(a, (Returns, ClassRef)))
            value = join(kept, known) if not data or atom.site is None or flows else known
            if any(isinstance(a, ClassRef) for a in known):
                value = tuple(a for a in value if not (isinstance(a, ClassRef) and a.open))
    elif not data or default == (NONE,):
        value = join(value, default)
    if not value:
        value = default
    machine.memo[key] = value
    return value


def _any_method(owner: ClassInfo) -> FunctionInfo | None:
    return next(iter(owner.methods.values()), None)


def _default(frame: Frame, cls: ClassInfo, name: str) -> Value:
    machine = frame.machine
    for owner in machine.names.mro(cls):
        if name in owner.values:
            node = owner.values[name]
            if isinstance(node, ast.Call) and dotted_text(node.func).rpartition(".")[2] in (
                "field",
                "Field",
                "ib",
                "attrib",
            ):
                return _factory_default(frame, owner, node)
            text = dotted_text(node)
            if text.rpartition(".")[2] == "MISSING":
                return NOTHING
            return class_level(frame, owner, name)
    return NOTHING


def _factory_default(frame: Frame, owner: ClassInfo, node: ast.Call) -> Value:
    machine = frame.machine
    for keyword in node.keywords:
        if keyword.arg == "default":
            return calls.detached_value(machine, owner.module, None, keyword.value, owner)
        if keyword.arg in ("default_factory", "factory"):
            call = ast.copy_location(ast.Call(keyword.value, [], []), keyword.value)
            return calls.detached_value(machine, owner.module, None, call, owner)
    return NOTHING


def field_flow(frame: Frame, cls: ClassInfo, name: str) -> Value:
    """Join of what the program passes for a field, over all constructor calls of the class and its subclasses."""
    machine = frame.machine
    key = ("flow", cls, name)
    if key in machine.memo:
        return machine.memo[key]  # type: ignore[no-any-return]
    machine.memo[key] = NOTHING
    result: Value = NOTHING
    classes = [cls, *machine.subclasses(cls)]
    registered = machine.registrations
    for candidate in classes:
        order = field_names(machine, candidate)
        for module, call, owner in machine.program.calls_to(candidate.name):
            target = machine.names.expression(module, call.func)
            if target is not candidate and not (target is None and isinstance(call.func, ast.Name)):
                continue
            argument = next((k.value for k in call.keywords if k.arg == name), None)
            if argument is None and name in order and order.index(name) < len(call.args):
                argument = call.args[order.index(name)]
            if argument is not None and not (registered and registered.are_elsewhere(module, call, owner)):
                result = join(result, calls.detached_value(machine, module, owner, argument))
        if candidate is not cls and name in candidate.values:
            result = join(result, _default(frame, candidate, name))
    machine.memo[key] = result
    return result
