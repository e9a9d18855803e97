"""Python's builtins and containers: calls whose results depend on more than an operation table can say."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from capaudit.audit import (
    attributes,
    conditions,
    containers,
    emptiness,
    hazards,
    hints,
    instances,
    models,
    once,
    operators,
    stores,
)
from capaudit.audit.contexts import Rebind
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
    Tensor,
    Value,
    box,
    class_ref,
    const,
    host,
    items,
    join,
    join_all,
    library,
    library_object,
    like,
    none,
    partial,
    sequence,
    slice_of,
    stronger,
    super_of,
    tensor,
    unknown,
)

if TYPE_CHECKING:
    from capaudit.audit.arguments import Arguments
    from capaudit.audit.frame import Frame


def special_form(frame: Frame, node: ast.Call) -> Value | None:
    """Calls that are read from syntax: ``super()`` and type tests."""
    if not isinstance(node.func, ast.Name):
        return None
    name = node.func.id
    if name == "super":
        return _super(frame, node)
    if name == "isinstance" and len(node.args) == 2:
        value = frame.evaluate(node.args[0])
        kinds = hints.isinstance_kinds(frame, node.args[1])
        frame.context.calls[node] = (True, "")
        verdicts = {hints.is_instance(frame, atom, kinds) for atom in value}
        if len(verdicts) == 1 and (verdict := verdicts.pop()) is not None:
            return const(verdict)
        return host("bool")
    if name == "cast" and len(node.args) == 2:
        value = frame.evaluate(node.args[1])
        frame.context.calls[node] = (True, "")
        promised = hints.annotation_value(frame.machine, frame.module, node.args[0], frame.function)
        return hints.refine(value, promised) if promised else value
    return None


def _super(frame: Frame, node: ast.Call) -> Value:
    frame.context.calls[node] = (True, "")
    function = frame.function
    owner = function.cls if function is not None else None
    if node.args:
        for atom in frame.evaluate(node.args[0]):
            if isinstance(atom, ClassRef):
                owner = atom.cls
    receiver: Atom | None = frame.context.receiver
    if receiver is None and function is not None and not isinstance(function.node, ast.Lambda):
        first = [*function.node.args.posonlyargs, *function.node.args.args][:1]
        for parameter in first:
            receiver = next(iter((frame.env or {}).get(parameter.arg, ())), None)
    if receiver is None and frame.closure is not None:
        receiver = frame.closure.receiver
    if owner is None or receiver is None:
        return unknown
    return super_of(owner, receiver)


_CONTAINER_KINDS = ("list", "dict", "set", "tuple", "frozenset", "deque")


def call(frame: Frame, path: str, receiver: Atom | None, arguments: Arguments, node: ast.expr) -> Value | None:
    """Evaluate a builtin or container method; ``None`` leaves the call to the operation tables."""
    if receiver is not None:
        kind, _, method = path.partition(".")
        if kind in _CONTAINER_KINDS and isinstance(receiver, (Box, Items, Sequence, Mapping, Record)):
            return containers.method(frame, receiver, method, arguments, node)
        if kind == "str":
            return _string_method(frame, receiver, method, arguments, node)
        if path == "object.__setattr__" and len(arguments.positional) == 2:
            from capaudit.audit.arguments import Arguments as Made

            return _plain_setattr(frame, Made([(receiver,), *arguments.positional]), node)
        if path.startswith(("contextlib.ExitStack.", "contextlib.AsyncExitStack.")):
            return _exit_stack(frame, path.rpartition(".")[2], arguments, node)
        if path in ("object.__init__", "object.__setattr__", "object.__post_init__"):
            return none
        if isinstance(receiver, Instance) and path == "typing.NamedTuple._replace":
            from capaudit.audit.arguments import Arguments as Made

            return _replace(frame, Made([(receiver,)], dict(arguments.keywords)), node)
        if isinstance(receiver, Instance) and path.startswith(("torch.nn.Module.", "torch.nn.modules.module.Module.")):
            return _module_method(frame, receiver, path.rpartition(".")[2], arguments, node)
        if isinstance(receiver, (Instance, ClassRef)) and path.endswith("Function.apply"):
            return _autograd_apply(frame, receiver, arguments, node)
        if isinstance(receiver, Instance) and path.startswith(("dict.", "list.")):
            return unknown
        if isinstance(receiver, Instance) and path.endswith(".__init__"):
            return none
        return None
    handler = _HANDLERS.get(path)
    return handler(frame, arguments, node) if handler is not None else None


def _exit_stack(frame: Frame, method: str, arguments: Arguments, node: ast.expr) -> Value | None:
    """What a stack is given runs in the block that the stack closes: at once, or when the block ends."""
    from capaudit.audit import regions
    from capaudit.audit.arguments import Arguments as Made

    first = _first(arguments)
    match method:
        case "enter_context" | "enter_async_context":
            return regions.enter(frame, first, node)
        case "callback" | "push_async_callback":
            frame.call(first, Made(arguments.positional[1:], dict(arguments.keywords)), node)
            return first
        case "push" | "push_async_exit":
            return first
        case _:
            return none


def _first(arguments: Arguments) -> Value:
    return arguments.positional[0] if arguments.positional else arguments.star


_FOLDED = ("startswith", "endswith", "lower", "upper", "strip", "removeprefix", "removesuffix", "isdigit")


def _string_method(frame: Frame, receiver: Atom, method: str, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import calls

    if isinstance(receiver, Const) and isinstance(receiver.value, str) and method in _FOLDED:
        given = [a for value in arguments.positional if len(value) == 1 for a in value if isinstance(a, Const)]
        texts = [a.value for a in given if isinstance(a.value, str)]
        if len(texts) == len(arguments.positional) <= 1 and not arguments.keywords:
            return const(getattr(receiver.value, method)(*texts))
    if method == "format":
        for value in arguments.values():
            calls.format_value(frame, value, node, node.args[0] if isinstance(node, ast.Call) and node.args else None)
        return host("str")
    if method in ("split", "rsplit", "splitlines", "partition"):
        return sequence("list", host("str"))
    if method in ("startswith", "endswith", "isdigit", "isidentifier", "isalpha"):
        return host("bool")
    return host("int") if method in ("index", "find", "count") else host("str")


# -- attributes by name ---------------------------------------------------------------------------------------


def _getattr(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    if len(arguments.positional) < 2:
        return unknown
    target, name = arguments.positional[0], arguments.positional[1]
    default = arguments.positional[2] if len(arguments.positional) > 2 else NOTHING
    result: Value = NOTHING
    for key in name:
        if isinstance(key, Const) and isinstance(key.value, str):
            _note_private(frame, target, key.value, node)
            found = attributes.read(frame, target, key.value, node)
            result = join(result, found)
        else:
            parts = _name_parts(node)
            for atom in target:
                result = join(result, _any_attribute(frame, atom, node, parts))
    if default and not _always_has(frame, target, name):
        result = (
            join(tuple(a for a in result if a is not UNKNOWN), default) if result != unknown else join(result, default)
        )
    return result


def _always_has(frame: Frame, target: Value, name: Value) -> bool:
    """Whether construction binds the attribute for certain, so that a default is never used."""
    names = frame.machine.names
    keys = [key.value for key in name if isinstance(key, Const) and isinstance(key.value, str)]
    if len(keys) != len(name) or not all(isinstance(atom, Instance) for atom in target):
        return False
    return all(
        any(
            key in owner.methods
            or key in owner.values
            or any(method.name in ("__init__", "__post_init__") for method in names.stores_of(owner).get(key, ()))
            for owner in names.mro(atom.cls)
        )
        for atom in target
        if isinstance(atom, Instance)
        for key in keys
    )


def _note_private(frame: Frame, target: Value, name: str, node: ast.expr) -> None:
    for atom in target:
        attributes.note_private(frame, atom, name, node)


def _name_parts(node: ast.expr) -> list[str | None]:
    """The parts of ``f"_{kind}_weight"`` in ``getattr`` and ``setattr``, ``None`` for what is filled in."""
    named = node.args[1] if isinstance(node, ast.Call) and len(node.args) > 1 else None
    if not isinstance(named, ast.JoinedStr):
        return []
    parts = [str(p.value) if isinstance(p, ast.Constant) else None for p in named.values]
    return parts if any(parts) else []


def _wildcard(parts: list[str | None]) -> str:
    """The name of the cell that stands for all attributes of one pattern."""
    return "".join("*" if part is None else part for part in parts)


def _any_attribute(frame: Frame, atom: Atom, node: ast.expr, parts: list[str | None]) -> Value:
    if isinstance(atom, Instance):
        result: Value = NOTHING
        instances.ensure_constructed(frame, atom)
        if parts:
            pattern = re.compile("".join(".+" if part is None else re.escape(part) for part in parts))
            known = dict.fromkeys([*frame.machine.names.members(atom.cls), *frame.machine.owner_cells(atom)])
            found = [name for name in known if pattern.fullmatch(name)]
            return join_all(
                attributes.read_atom(frame, atom, n, node) for n in {**dict.fromkeys(found), _wildcard(parts): None}
            )
        for cell in list(frame.machine.owner_cells(atom).values()):
            if not cell.name.startswith("_"):  # a computed name asks for what the class offers, not for its internals
                result = join(result, stores.read_cell(frame, cell, node))
        # Which attribute it is stays open, so nothing about one of them is sure.
        return tuple(like(a, dynamic=False, sure=False) if isinstance(a, Tensor) else a for a in result) or unknown
    return unknown


def _setattr(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import assignments

    if len(arguments.positional) < 3:
        return none
    target, name, value = arguments.positional[:3]
    for atom in target:
        for key in name:
            if isinstance(key, Const) and isinstance(key.value, str):
                assignments.write_attribute(frame, atom, key.value, value, node)
            elif isinstance(atom, Instance) and (parts := _name_parts(node)):
                assignments.write_attribute(frame, atom, _wildcard(parts), value, node)
            elif isinstance(atom, Instance) and not once.is_first_use(frame):
                instances.ensure_constructed(frame, atom)
                for cell in list(frame.machine.owner_cells(atom).values()):
                    if stores.holds_buffers(cell.value) and stores.holds_buffers(value):
                        frame.context.rebinds.append(Rebind(cell, frame.module, node, True))
            else:
                models.note_binding(frame, atom, "a field", value, node)
    return none


def _plain_setattr(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    """``object.__setattr__(x, "name", value)``: past the class's own hook and setters."""
    if len(arguments.positional) == 3:
        target, name, value = arguments.positional
        keys = [key.value for key in name if isinstance(key, Const) and isinstance(key.value, str)]
        for atom in target:
            for key in keys if isinstance(atom, Instance) else ():
                stores.write_cell(frame, frame.machine.cell(atom, key), value, node, key)
    return none


def _hasattr(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    if len(arguments.positional) == 2:
        target, name = arguments.positional
        key = name[0].value if len(name) == 1 and isinstance(name[0], Const) else None
        if isinstance(key, str):
            _note_private(frame, target, key, node)
            verdicts = {_has(frame, atom, key) for atom in target}
            if len(verdicts) == 1 and (verdict := verdicts.pop()) is not None:
                return const(verdict)
    return host("bool")


def _has(frame: Frame, atom: Atom, name: str) -> bool | None:
    if isinstance(atom, Instance):
        if frame.machine.names.method(atom.cls, name) is not None:
            return True
        cell = frame.machine.existing_cell(atom, name)
        if cell is not None and cell.value and cell.written_by:
            return True
        return None
    if isinstance(atom, Object) and f"{atom.path}.{name}" in frame.machine.knowledge.operations:
        return True
    return False if atom is NONE else None


# -- sizes, iteration -----------------------------------------------------------------------------------------


def _len(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import calls

    result: Value = NOTHING
    for atom in _first(arguments):
        match atom:
            case Tensor():
                result = join(result, host("int", emptiness.size_taint(atom.filled) if atom.dynamic else None))
            case Items():
                result = join(result, const(len(atom.items)))
            case Sequence():
                result = join(result, host("int", atom.taint))
            case Instance():
                found = calls.call_dunder(frame, atom, "__len__", [], node)
                result = join(result, found if found is not None else host("int"))
            case Box():
                result = join(result, host("int", containers.order_taint(frame, atom)))
            case _:
                result = join(result, host("int"))
    return result


def _range(frame: Frame, arguments: Arguments, node: ast.expr) -> Value | None:
    if any(isinstance(atom, Tensor) for value in arguments.positional for atom in value):
        return None  # the operation table knows what that costs
    taint: tuple[Any, ...] | None = None
    for value in arguments.positional:
        taint = stronger(taint, operators.taint_of(value))
    return sequence("range", host("int"), taint)


def _iterated(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import expressions

    return expressions.iterate(frame, _first(arguments), node)


def _listing(kind: str) -> Any:
    def make(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
        from capaudit.audit import expressions

        value = _first(arguments)
        if kind == "tuple" and len(value) == 1 and isinstance(value[0], Items):
            return value
        if kind == "tuple":
            return sequence(
                kind, _iterated(frame, arguments, node) if value else NOTHING, operators.length_taint(value)
            )
        target = box(kind, expressions.site(frame, node), frame.tick)
        cell = frame.machine.cell(target, "*")
        if value:
            frame.machine.join_cell(cell, _iterated(frame, arguments, node))
        return (target,)

    return make


def _dict(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import calls, expressions

    lasting = isinstance(node, ast.Call) and once.fills_later(frame, node)
    target = box("dict", expressions.site(frame, node), frame.tick and not lasting)
    frame.machine.cell(target, "*")
    for value in arguments.positional:
        calls.update_box(frame, target, value)
    for name, value in arguments.keywords.items():
        expressions.set_entry(frame, target, const(name), value)
    if arguments.keyword_star:
        frame.machine.join_cell(frame.machine.cell(target, "*"), arguments.keyword_star)
    return (target,)


def _default_dict(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit.arguments import Arguments as Made

    made = _dict(frame, Made(arguments.positional[1:], arguments.keywords), node)
    factory = _first(arguments)
    if factory and factory != none:
        entry = frame.call(factory, Made(), node)
        for atom in made:
            frame.machine.join_cell(frame.machine.cell(atom, "*"), entry)
    return made


def _enumerate(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    taint = operators.length_taint(_first(arguments))
    item = _iterated(frame, arguments, node)
    return sequence("iterator", items((host("int"), item)), taint) if item else sequence("iterator", NOTHING)


def _zip(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import expressions

    parts = tuple(expressions.iterate(frame, value, node) for value in arguments.positional)
    if arguments.star:
        return sequence("iterator", sequence("tuple", arguments.star))
    if any(not part for part in parts):
        return sequence("iterator", NOTHING)
    return sequence("iterator", items(parts))


def _map(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import expressions
    from capaudit.audit.arguments import Arguments as Made

    if len(arguments.positional) < 2:
        return sequence("iterator", unknown)
    parts = [expressions.iterate(frame, value, node) for value in arguments.positional[1:]]
    if any(not part for part in parts):
        return sequence("iterator", NOTHING)
    return sequence("iterator", frame.call(arguments.positional[0], Made(parts), node))


def _filter(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import expressions, guards
    from capaudit.audit.arguments import Arguments as Made

    if len(arguments.positional) < 2:
        return sequence("iterator", unknown)
    part = expressions.iterate(frame, arguments.positional[1], node)
    if part and arguments.positional[0] != none:
        verdict = frame.call(arguments.positional[0], Made([part]), node)
        guards.truth(frame, verdict, node, node, "a filter asks whether it is true")
    elif part:
        guards.truth(frame, part, node, node, "a filter asks whether it is true")
    return sequence("iterator", part)


def _compress(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import expressions, guards

    if len(arguments.positional) < 2:
        return sequence("iterator", unknown)
    data, chosen = (expressions.iterate(frame, value, node) for value in arguments.positional[:2])
    guards.truth(frame, chosen, node, node, "compress asks whether it is true")
    return sequence("iterator", data)


def _group_by(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit.arguments import Arguments as Made

    item = _iterated(frame, arguments, node)
    key = arguments.keywords.get("key") or (arguments.positional[1] if len(arguments.positional) > 1 else none)
    label = frame.call(key, Made([item]), node) if item and key != none else item
    hazards.compared(frame, label, label, node, "groupby compares neighbouring keys")
    return sequence("iterator", items((label or unknown, sequence("iterator", item))))


def _accumulate(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit.arguments import Arguments as Made

    item = _iterated(frame, arguments, node)
    function = arguments.keywords.get("func") or (arguments.positional[1] if len(arguments.positional) > 1 else none)
    if not item:
        return sequence("iterator", NOTHING)
    if function == none:
        return sequence("iterator", operators.binary(frame, ast.Add(), item, item, node))
    return sequence("iterator", join(item, frame.call(function, Made([item, item]), node)))


def _sum(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    item = _iterated(frame, arguments, node)
    tensors = [atom for atom in item if isinstance(atom, Tensor)]
    if tensors:
        result = operators.combine_tensors(tensors)
        operators.note_device_work(frame, result, "python.sum", node)
        return (like(result, rank=tensors[0].rank),)
    arrays = [atom for atom in item if isinstance(atom, Array)]
    if arrays:
        return tuple(arrays)
    numbers = tuple(atom for atom in item if isinstance(atom, (Const, Host)))
    if numbers:
        return join_all(host(a.type_name, getattr(a, "taint", None)) for a in numbers)
    return host("any") if item != unknown else unknown


def _next(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import calls, expressions

    value = _first(arguments)
    result: Value = NOTHING
    for atom in value:
        if isinstance(atom, Instance):
            found = calls.call_dunder(frame, atom, "__next__", [], node)
            result = join(result, found if found is not None else unknown)
        else:
            result = join(result, expressions.iterate(frame, (atom,), node))
    if len(arguments.positional) > 1:
        result = join(result, arguments.positional[1])
    place = node.args[0] if isinstance(node, ast.Call) and node.args else node
    if frame.recording and _outlives(frame, place) and not any(isinstance(a, Instance) for a in value):
        taint = ("frozen", f"next({ast.unparse(place)})", None)
        if stores.holds_buffers(result):
            hazards.frozen(frame, taint, node, "a host iterator picks a buffer", place)
        return operators.with_taint(result, taint)
    return result


def _outlives(frame: Frame, node: ast.expr) -> bool:
    """Whether what an expression names exists before and after the tick."""
    if isinstance(node, ast.Attribute):
        return True
    if isinstance(node, ast.Name):
        return node.id not in (frame.env or {}) or node.id in frame.context.arguments
    return False


def _iter(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    return sequence("iterator", _iterated(frame, arguments, node), operators.length_taint(_first(arguments)))


def _reversed(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    return sequence("list", _iterated(frame, arguments, node))


def _abs(frame: Frame, arguments: Arguments, node: ast.expr) -> Value | None:
    value = _first(arguments)
    if any(isinstance(atom, Tensor) for atom in value):
        return operators.unary(frame, ast.UAdd(), value, node)
    return tuple(host(a.type_name, getattr(a, "taint", None))[0] if isinstance(a, (Const, Host)) else a for a in value)


def _type(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    result: Value = NOTHING
    for atom in _first(arguments):
        if isinstance(atom, Instance):
            result = join(result, (class_ref(atom.cls, atom.site is None),))
        else:
            result = join(result, host("any"))
    return result


def _slice(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    return slice_of(join_all(arguments.positional))


def _extreme(frame: Frame, arguments: Arguments, node: ast.expr) -> Value | None:
    values = arguments.positional if len(arguments.positional) > 1 else [_iterated(frame, arguments, node)]
    found = join_all(values)
    key = arguments.keywords.get("key", NOTHING)
    if key and key != none and found:
        from capaudit.audit.arguments import Arguments as Made

        compared = frame.call(key, Made([found]), node)
        hazards.host_read(frame, compared, node, "min and max ask which key is smaller", node, "python.max")
        return found
    if hazards.device_tensors(found):
        hazards.host_read(
            frame, found, node, "comparing elements with min or max asks which is larger", node, "python.max"
        )
        return host("any", ("device", "", None))
    if any(isinstance(atom, (Instance, Function, Tensor, Items)) for atom in found):
        return found
    result: Value = NOTHING
    for atom in found:
        if isinstance(atom, (Const, Host)):
            result = join(result, host(atom.type_name, getattr(atom, "taint", None)))
        elif atom is not NONE:
            result = join(result, (atom,))
    return result


def _sorted(frame: Frame, arguments: Arguments, node: ast.expr) -> Value | None:
    item = _iterated(frame, arguments, node)
    note_sorting(frame, item, arguments, node)
    return sequence("list", item, operators.length_taint(_first(arguments)))


def note_sorting(frame: Frame, item: Value, arguments: Arguments, node: ast.expr) -> None:
    """Record the comparisons that sorting ``item`` makes, of the elements or of their keys."""
    from capaudit.audit.arguments import Arguments as Made

    key = arguments.keywords.get("key", NOTHING)
    if item and key and key != none:
        compared = frame.call(key, Made([item]), node)
        hazards.host_read(frame, compared, node, "sorting asks which key is smaller", node, "python.sorted")
    elif hazards.device_tensors(item):
        hazards.host_read(frame, item, node, "sorting asks which element is smaller", node, "python.sorted")


def _every(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import guards

    item = _iterated(frame, arguments, node)
    if isinstance(node, ast.Call) and not any(isinstance(a, Tensor) for a in _first(arguments)):
        place = node.args[0] if node.args else node
        guards.truth(frame, item, place, node, f"{ast.unparse(node.func)}() asks each element whether it is true")
    elif hazards.device_tensors(_first(arguments)):
        hazards.host_read(frame, _first(arguments), node, "any() and all() ask each element whether it is true", node)
    read = ("device", "", None) if hazards.device_tensors(item) else None
    return host("bool", emptiness.open_taint(stronger(operators.taint_of(item), read)))


# -- functools and friends --------------------------------------------------------------------------------------


def _partial(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    return partial(_first(arguments), tuple(arguments.positional[1:]), tuple(arguments.keywords.items()))


def _identity(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    return _first(arguments) or unknown


def _wraps(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    return host("any")


def _reduce(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import expressions
    from capaudit.audit.arguments import Arguments as Made

    if len(arguments.positional) < 2:
        return unknown
    item = expressions.iterate(frame, arguments.positional[1], node)
    start = arguments.positional[2] if len(arguments.positional) > 2 else item
    return frame.call(arguments.positional[0], Made([join(start, item), item]), node) if item else NOTHING


def _copy(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    value = _first(arguments)
    result: Value = NOTHING
    for atom in value:
        if isinstance(atom, Tensor):
            operators.note_device_work(frame, atom, "copy.deepcopy", node)
            atom = like(atom, storage="fresh")
        result = join(result, (atom,))
    return result


def _replace(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import expressions
    from capaudit.audit.values import instance

    result: Value = NOTHING
    for atom in _first(arguments):
        if not isinstance(atom, Instance):
            result = join(result, (atom,))
            continue
        made = instance(atom.cls, expressions.site(frame, node), frame.tick)
        for name in instances.field_names(frame.machine, atom.cls):
            value = arguments.keywords.get(name) or instances.read(frame, atom, name, ast.Name(name))
            frame.machine.join_cell(frame.machine.cell(made, name), value)
        result = join(result, (made,))
    return result


def _namespace(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import expressions

    made = library_object("types.SimpleNamespace", expressions.site(frame, node))
    for name, value in arguments.keywords.items():
        frame.machine.join_cell(frame.machine.cell(made, name), value)
    return (made,)


def _chain(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import expressions

    return sequence("iterator", join_all(expressions.iterate(frame, value, node) for value in arguments.positional))


def _nullcontext(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    return (library_object("contextlib.manager", None, frozenset(), _first(arguments) or none),)


def _parameter(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    value = _first(arguments) if frame.tick else _following(_first(arguments))
    return tuple(
        like(a, element="float" if a.element is None else a.element) if isinstance(a, Tensor) else a for a in value
    ) or (tensor("cuda", element="float"),)


def _following(value: Value) -> Value:
    """What a module registers goes where the module goes, and that is the device before anything is captured."""
    return tuple(
        like(a, device="cuda", sure=False, pinned=False) if isinstance(a, Tensor) and a.device == "cpu" else a
        for a in value
    )


def _compiled(frame: Frame, arguments: Arguments, node: ast.expr) -> Value | None:
    from capaudit.audit import expressions

    callees = _vmapped(frame, arguments, node)
    if arguments.keywords.get("backend") == const("eager"):
        return callees
    return (library_object("torch.compile", expressions.site(frame, node), frozenset(), callees),) if callees else None


def _vmapped(frame: Frame, arguments: Arguments, node: ast.expr) -> Value | None:
    callees = tuple(a for a in _first(arguments) if isinstance(a, (Function, Instance, Object)))
    return callees or None


# -- modules, autograd -------------------------------------------------------------------------------------------


_HOOKS = {"register_forward_pre_hook": "#pre-hooks", "register_forward_hook": "#hooks"}
"""Where a module keeps what it runs around ``forward``."""


def _module_method(frame: Frame, receiver: Instance, name: str, arguments: Arguments, node: ast.expr) -> Value | None:
    from capaudit.audit import calls

    if name in ("register_buffer", "register_parameter", "add_module", "register_module"):
        key = _first(arguments)
        value = arguments.positional[1] if len(arguments.positional) > 1 else arguments.keywords.get("tensor", none)
        if not frame.tick:
            value = _following(value)
        for named in key:
            if isinstance(named, Const):
                cell = frame.machine.cell(receiver, str(named.value))
                stores.write_cell(frame, cell, value, node, str(named.value))
        return none
    if name in _HOOKS:
        frame.machine.join_cell(frame.machine.cell(receiver, _HOOKS[name]), _first(arguments))
        return unknown
    if name in ("to", "cuda", "train", "eval", "requires_grad_", "half", "float", "double", "apply", "compile"):
        return (receiver,)
    if name in ("parameters", "buffers"):
        return sequence("iterator", (tensor("cuda", element="float", storage="other"),))
    if name in ("named_parameters", "named_buffers"):
        return sequence("iterator", items((host("str"), (tensor("cuda", element="float", storage="other"),))))
    if name == "state_dict":
        from capaudit.audit.values import mapping

        return mapping(host("str"), (tensor("cuda", storage="other"),))
    if name == "__call__":
        return calls.call_instance(frame, receiver, arguments, node)
    if name == "training":
        return host("bool")
    if name in ("__init__", "__setattr__", "load_state_dict"):
        return none
    return None


def _autograd_apply(frame: Frame, receiver: Instance | ClassRef, arguments: Arguments, node: ast.expr) -> Value | None:
    from capaudit.audit import calls
    from capaudit.audit.arguments import Arguments as Made

    method = frame.machine.names.method(receiver.cls, "forward")
    if method is None:
        return None
    context = (library_object("torch.autograd.function.FunctionCtx"),)
    made = Made([context, *arguments.positional], dict(arguments.keywords), arguments.star, arguments.keyword_star)
    return calls.call_function(frame, method, None, made, node)


def contains(frame: Frame, left: Value, right: Value, node: ast.Compare) -> Value:
    """Evaluate a membership test: tensors are compared and asked for the truth of each answer."""
    from capaudit.audit import calls

    result: Value = NOTHING
    for atom in right:
        if isinstance(atom, Instance):
            found = calls.call_dunder(frame, atom, "__contains__", [left], node)
            result = join(result, found if found is not None else host("bool"))
            continue
        if isinstance(atom, (Record, Mapping)) or (isinstance(atom, Box) and atom.kind in ("dict", "set")):
            continue
        if isinstance(atom, Tensor) and atom.device == "cuda":
            hazards.host_read(
                frame,
                (atom,),
                node,
                "membership in a tensor asks for the truth of a comparison",
                node.comparators[0],
                "python.contains",
            )
        if isinstance(atom, (Items, Sequence, Box)):
            hazards.host_read(
                frame,
                tuple(a for a in left if isinstance(a, Tensor)),
                node,
                "membership compares the tensor with each element and asks whether it is true",
                node.left,
                "python.contains",
            )
            if not any(isinstance(a, (Const, Host)) and a.type_name == "str" for a in left):
                held = containers.held(frame, atom)
                if not any(isinstance(a, Tensor) for a in left):
                    hazards.host_read(
                        frame,
                        tuple(a for a in held if isinstance(a, Tensor)),
                        node,
                        "membership compares with each tensor and asks whether it is true",
                        node.comparators[0],
                        "python.contains",
                    )
    taint = operators.taint_of(left)
    if any(isinstance(a, Tensor) and a.device == "cuda" for a in (*left, *right)):
        taint = ("device", "", None)
    return join(result, host("bool", emptiness.open_taint(taint))) if left and right else NOTHING


def _default_device(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    given = _first(arguments)
    if any(conditions.named_device(atom) == "cuda" for atom in given) or given == unknown:
        frame.machine.memo["default-device"] = True
    return none


def _torch_device(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    """``torch.device(...)``: where a choice is open, a boundary on CUDA takes the CUDA side."""
    named = {conditions.named_device(atom) for atom in _first(arguments)}
    kind = "cpu" if named == {"cpu"} else "cuda"
    return (library_object("torch.device", None, frozenset({kind})),)


def _cuda_available(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    return const(True)  # a CUDA boundary runs on a CUDA device


def _capturing(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    from capaudit.audit import guards

    return guards.capture_state(frame)


_HANDLERS: dict[str, Any] = {
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.object.__setattr__": _plain_setattr,
    "builtins.hasattr": _hasattr,
    "builtins.len": _len,
    "builtins.range": _range,
    "builtins.list": _listing("list"),
    "builtins.tuple": _listing("tuple"),
    "builtins.set": _listing("set"),
    "builtins.frozenset": _listing("set"),
    "collections.deque": _listing("list"),
    "collections.OrderedDict": _dict,
    "collections.defaultdict": _default_dict,
    "builtins.dict": _dict,
    "builtins.enumerate": _enumerate,
    "builtins.zip": _zip,
    "builtins.map": _map,
    "builtins.filter": _filter,
    "builtins.sum": _sum,
    "builtins.next": _next,
    "builtins.iter": _iter,
    "builtins.reversed": _reversed,
    "builtins.sorted": _sorted,
    "builtins.abs": _abs,
    "builtins.type": _type,
    "builtins.slice": _slice,
    "builtins.min": _extreme,
    "builtins.max": _extreme,
    "builtins.any": _every,
    "builtins.all": _every,
    "builtins.callable": lambda f, a, n: host("bool"),
    "builtins.id": lambda f, a, n: host("int"),
    "builtins.vars": lambda f, a, n: _getattr_dict(f, a, n),
    "functools.partial": _partial,
    "functools.wraps": _wraps,
    "functools.reduce": _reduce,
    "functools.lru_cache": _identity,
    "functools.cache": _identity,
    "itertools.cycle": _iter,
    "itertools.count": lambda f, a, n: sequence("iterator", host("int")),
    "itertools.chain": _chain,
    "itertools.repeat": lambda f, a, n: sequence("iterator", _first(a)),
    "itertools.takewhile": _filter,
    "itertools.dropwhile": _filter,
    "itertools.filterfalse": _filter,
    "itertools.compress": _compress,
    "itertools.groupby": _group_by,
    "itertools.accumulate": _accumulate,
    "itertools.product": lambda f, a, n: sequence("iterator", sequence("tuple", join_all(_each(f, a, n)))),
    "copy.copy": _copy,
    "copy.deepcopy": _copy,
    "dataclasses.replace": _replace,
    "types.SimpleNamespace": _namespace,
    "contextlib.nullcontext": _nullcontext,
    "weakref.proxy": _identity,
    "weakref.ref": lambda f, a, n: partial((library("weakref.proxy"),), (_first(a),), ()),
    "torch.nn.Parameter": _parameter,
    "torch.nn.parameter.Parameter": _parameter,
    "torch.vmap": _vmapped,
    "torch.func.vmap": _vmapped,
    "torch.compile": _compiled,
    "torch.jit.script": _vmapped,
    "torch.set_default_device": _default_device,
    "torch.cuda.is_current_stream_capturing": _capturing,
    "torch.cuda.is_available": _cuda_available,
    "torch.device": _torch_device,
    "warp.is_cuda_available": _cuda_available,
}


def _each(frame: Frame, arguments: Arguments, node: ast.expr) -> list[Value]:
    from capaudit.audit import expressions

    return [expressions.iterate(frame, value, node) for value in arguments.positional]


def _getattr_dict(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    return attributes.read(frame, _first(arguments), "__dict__", node)
