"""Calls: who is called, with what, and what comes back."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from capaudit.audit import (
    attributes,
    builtin_calls,
    conditions,
    expressions,
    hazards,
    hints,
    instances,
    libraries,
    parameters,
    setup,
    stores,
)
from capaudit.audit.arguments import Arguments
from capaudit.audit.contexts import Context
from capaudit.audit.names import External
from capaudit.audit.values import (
    NONE,
    NOTHING,
    UNKNOWN,
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
    Object,
    Partial,
    Record,
    Returns,
    Sequence,
    Super,
    Tensor,
    Value,
    WarpArray,
    class_ref,
    const,
    function,
    host,
    instance,
    items,
    join,
    join_all,
    library_object,
    sequence,
    unknown,
)
from capaudit.model import Confidence, OwnershipClass
from capaudit.program import BodyFacts, ClassInfo, FunctionInfo, Module, body_facts
from capaudit.program.symbols import dotted_text

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame
    from capaudit.audit.machine import Machine


def arguments_of(frame: Frame, node: ast.Call) -> Arguments:
    """Evaluate a call's arguments in order."""
    result = Arguments()

    for argument in node.args:
        if isinstance(argument, ast.Starred):
            value = frame.evaluate(argument.value)
            if len(value) == 1 and isinstance(value[0], Items):
                result.positional.extend(value[0].items)
                result.nodes.extend([argument.value] * len(value[0].items))
            else:
                result.star = join(result.star, expressions.iterate(frame, value, argument) or unknown)
            continue
        result.positional.append(frame.evaluate(argument))
        result.nodes.append(argument)
    for keyword in node.keywords:
        value = frame.evaluate(keyword.value)
        if keyword.arg is not None:
            result.keywords[keyword.arg] = value
            result.keyword_nodes[keyword.arg] = keyword.value
            continue
        spread(frame, result, value)
    return result


def spread(frame: Frame, result: Arguments, value: Value) -> None:
    """``**value``: known keys become keywords, everything else may supply any keyword."""
    machine = frame.machine
    for atom in value:
        match atom:
            case Record():
                for name, item in atom.entries:
                    result.keywords[name] = join(result.keywords.get(name, NOTHING), item)
            case Box(kind="dict"):
                for name, cell in list(machine.owner_cells(atom).items()):
                    held = stores.read_cell(frame, cell, None)
                    if name.startswith("['"):
                        key = name[2:-2]
                        result.keywords[key] = join(result.keywords.get(key, NOTHING), held)
                    elif name == "*" and held:
                        result.keyword_star = join(result.keyword_star, held)
            case Mapping():
                result.keyword_star = join(result.keyword_star, atom.item)
            case _ if atom is not NONE:
                result.keyword_star = join(result.keyword_star, unknown)


def call(frame: Frame, node: ast.Call) -> Value:
    """Evaluate a call expression."""
    special = builtin_calls.special_form(frame, node)
    if special is not None:
        return special
    callee = frame.evaluate(node.func)
    arguments = arguments_of(frame, node)
    if frame.env is None:
        return NOTHING
    if not callee:
        return NOTHING  # the callee has no value yet; whoever provides it re-evaluates this context
    result = call_value(frame, callee, arguments, node)
    if frame.env is not None:
        _forget_absent(frame)
    return result


def _forget_absent(frame: Frame) -> None:
    """A call may have bound what a test found missing."""
    env = frame.env or {}
    if not frame.dotted_roots:
        return
    for key in [key for key, value in env.items() if value == (NONE,) and "." in key and not key.startswith(".")]:
        del env[key]


_MOST_COLD_CALLEES = 12
"""Set-up code is followed into that many alternatives of one call."""


def call_value(frame: Frame, callee: Value, arguments: Arguments, node: ast.expr) -> Value:
    """Call every alternative of ``callee`` and join the results."""
    result: Value = NOTHING
    resolved = False
    # Each alternative writes the cells of its own class: together they write what any reader reads.
    followed = 0
    made = {atom.cls for atom in callee if isinstance(atom, Instance)}
    for atom in callee:
        if isinstance(atom, ClassRef) and atom.cls in made:
            continue  # set-up code replaced the class by its object before anybody calls it
        if isinstance(atom, Function) and not frame.tick:
            followed += 1
            if followed > _MOST_COLD_CALLEES:
                continue
        value = _call_atom(frame, atom, arguments, node)
        if value is None:
            result = join(result, unknown)
        else:
            resolved = True
            result = join(result, value)
    if frame.recording and isinstance(node, ast.Call):
        if node in frame.context.items.get("cut", ()):
            return result
        frame.context.calls[node] = (resolved, "" if resolved else _receiver_text(node))
        if not resolved:
            _unresolved(frame, node)
    return result


def _receiver_text(node: ast.Call) -> str:
    return " ".join(ast.unparse(node.func).split())[:80]


def _unresolved(frame: Frame, node: ast.Call) -> None:
    if frame.failure:
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    hazard = libraries.distinctive(frame, name)
    if hazard is not None:
        code, meaning = hazard
        frame.reject(
            node,
            code,
            f"torch.Tensor.{name}",
            f"'.{name}()' {meaning}; the receiver's type is not known, but the name is a tensor's",
            confidence=Confidence.POSSIBLE,
            subject=node.func,
        )
        frame.context.calls[node] = (True, "")
        return
    frame.record(
        node,
        "call",
        ownership=OwnershipClass.UNRESOLVED,
        confidence=Confidence.POSSIBLE,
        message="the callee is not known",
    )


def _call_atom(frame: Frame, atom: Atom, arguments: Arguments, node: ast.expr) -> Value | None:
    """Call one alternative; ``None`` when nothing is known about it."""
    match atom:
        case Function():
            if atom.function.has_decorator("singledispatch", "singledispatchmethod"):
                return _dispatched(frame, atom, arguments, node)
            return call_function(frame, atom.function, atom.receiver, arguments, node, atom.closure)
        case ClassRef():
            return construct(frame, atom, arguments, node)
        case Library():
            return libraries.call(frame, atom.path, None, arguments, node)
        case Bound():
            return libraries.call(frame, atom.path, atom.receiver, arguments, node)
        case Partial():
            return call_partial(frame, atom, arguments, node)
        case Returns():
            frame.record(
                node, "callable", ownership=OwnershipClass.UNRESOLVED, message="a callable passed in from outside"
            )
            return atom.result if UNKNOWN not in atom.result else None
        case Kernel():
            frame.record(node, "kernel launch")
            return host("any")
        case Instance():
            return call_instance(frame, atom, arguments, node)
        case Object():
            return libraries.call_object(frame, atom, arguments, node)
        case Const() if atom is NONE:
            return NOTHING
        case Host() if atom.type_name == "any":
            return host("any")
        case Super():
            return unknown
        case Tensor() | WarpArray():
            return unknown
        case _:
            return None


def _dispatched(frame: Frame, atom: Function, arguments: Arguments, node: ast.expr) -> Value:
    """Call what was registered with a single-dispatch function for the class of the first argument."""
    offered = _registered(frame.machine, atom.function)
    given = arguments.positional[0] if arguments.positional else NOTHING
    chosen: dict[FunctionInfo, None] = {}
    for one in given:
        mro = frame.machine.names.mro(one.cls) if isinstance(one, Instance) else ()
        nearest = next((target for cls in mro for target, kind in offered if kind is cls), None)
        if nearest is not None:
            chosen[nearest] = None
        elif mro:
            chosen[atom.function] = None
        else:
            chosen.update(dict.fromkeys([target for target, _ in offered] or [atom.function]))
    result: Value = NOTHING
    for target in chosen or {atom.function: None}:
        result = join(result, call_function(frame, target, atom.receiver, arguments, node, atom.closure))
    return result


def _registered(machine: Machine, info: FunctionInfo) -> list[tuple[FunctionInfo, object]]:
    """The functions registered with a single-dispatch function in its module, each with the class it is for."""
    key = ("registered", info)
    if key not in machine.memo:
        found: list[tuple[FunctionInfo, object]] = []
        for other in info.module.all_functions:
            for decorator in getattr(other.node, "decorator_list", ()):
                named = decorator.func if isinstance(decorator, ast.Call) else decorator
                if dotted_text(named) != f"{info.name}.register" or isinstance(other.node, ast.Lambda):
                    continue
                spec = [*other.node.args.posonlyargs, *other.node.args.args]
                own = spec[1:] if info.cls is not None else spec
                kind = decorator.args[0] if isinstance(decorator, ast.Call) and decorator.args else None
                kind = kind or (own[0].annotation if own else None)
                found.append((other, machine.names.expression(other.module, kind) if kind is not None else None))
        machine.memo[key] = found
    return machine.memo[key]  # type: ignore[no-any-return]


def call_partial(frame: Frame, atom: Partial, arguments: Arguments, node: ast.expr) -> Value:

    merged = Arguments(
        [*atom.arguments, *arguments.positional],
        {**dict(atom.keywords), **arguments.keywords},
        arguments.star,
        arguments.keyword_star,
    )
    return frame.call(atom.callee, merged, node)


def call_instance(frame: Frame, atom: Instance, arguments: Arguments, node: ast.expr) -> Value | None:
    machine = frame.machine
    for name in ("__call__", "forward"):
        method = machine.names.method(atom.cls, name)
        if method is not None:
            result: Value = NOTHING
            for target, receiver in instances.dispatch(machine, atom, name, method):
                result = join(result, call_function(frame, target, receiver, arguments, node))
            return _hooked(frame, atom, arguments, result, node)
    for sub in machine.subclasses(atom.cls) if atom.site is None else ():
        if machine.names.method(sub, "__call__") or machine.names.method(sub, "forward"):
            return call_instance(frame, instance(sub), arguments, node)
    if any(
        base.startswith("torch.nn.") and base != "torch.nn.Module" for base in machine.names.external_bases(atom.cls)
    ):
        return libraries.module_result(frame, arguments, node)
    return None


def _hooked(frame: Frame, atom: Instance, arguments: Arguments, result: Value, node: ast.expr) -> Value:
    """Run the hooks that were registered with a module around its ``forward``."""
    given = items(tuple(arguments.positional))
    for name, passed in (("#pre-hooks", [(atom,), given]), ("#hooks", [(atom,), given, result])):
        cell = frame.machine.existing_cell(atom, name)
        hooks = frame.machine.read_cell(cell, frame.context) if cell is not None else NOTHING
        if hooks:
            frame.call(hooks, Arguments(list(passed)), node)
    return result


def _is_host_only(machine: Machine, cls: ClassInfo, info: FunctionInfo, given: Arguments) -> bool:
    """Whether a call uses an object that exists on the host alone, and is handed nothing of the device."""
    handed = (atom for value in given.values() for atom in value)
    return machine.is_host_only(cls, info) and not any(isinstance(a, Tensor) and a.device == "cuda" for a in handed)


def call_function(
    frame: Frame,
    info: FunctionInfo,
    receiver: Atom | None,
    arguments: Arguments | list[Value],
    node: ast.AST,
    closure: Context | None = None,
) -> Value:
    """Call a function of the program and return its value."""

    machine = frame.machine
    given = Arguments(list(arguments)) if isinstance(arguments, list) else arguments
    around = machine.memo.get((_AROUND, info.cls)) if closure is None and info.cls is not None else None
    if around:
        seen = [call_function(frame, info, receiver, given, node, one) for one in list(around)[:_MOST_AROUND]]
        return join_all(seen)
    owned = machine.owned.get(info)
    if owned is not None and frame.tick:
        ownership, reason = owned
        frame.record(node, "call", ownership=OwnershipClass(ownership), message=reason)
        return attributes.return_annotation(machine, info) or unknown
    if frame.tick and isinstance(receiver, Instance) and _is_host_only(machine, receiver.cls, info, given):
        message = f"{receiver.cls.name} refuses CUDA when it is set up, so that no tick on CUDA runs this"
        frame.record(node, "call", ownership=OwnershipClass.COLD_PATH, message=message)
        return attributes.return_annotation(machine, info) or unknown
    bound_arguments = parameters.bind(frame, info, receiver, given)
    if bound_arguments is None:
        return NOTHING
    phase = frame.context.phase
    if phase == "after":
        # Only what the function itself binds matters here; whatever else binds carriers is looked at by itself.
        promised = attributes.return_annotation(machine, info)
        if promised and UNKNOWN not in promised and not _may_pass_through(given, promised):
            return promised
        phase = "cold"
    if frame.failure and phase == "tick":
        phase = "cold"
    mode = frame.mode if phase == "tick" else frozenset()
    if "conditional-body" in mode and "fallback" not in mode and stores.is_fallback(frame):
        mode = mode | {"fallback"}
    if frame.context.phase == "cold" and not _names_host(given) and (promise := setup.shortcut(machine, info)):
        return promise
    context = machine.enter(
        info, receiver, bound_arguments, mode, phase, frame.context, node, closure, stores.times(frame)
    )
    if context is None:
        if frame.recording and isinstance(node, ast.Call):
            frame.context.calls[node] = (False, "the call chain is deeper than the audit follows")
            frame.context.items.setdefault("cut", {})[node] = None
            frame.record(
                node,
                "call",
                ownership=OwnershipClass.UNRESOLVED,
                message="the call chain is deeper than the audit follows",
            )
        return attributes.return_annotation(machine, info) or unknown
    stores.absorb_callee(frame, context)
    if is_generator(info):
        if info.has_decorator("contextmanager", "asynccontextmanager"):
            opened = context.items.get("yield-mode", frozenset()) - mode
            return (library_object("contextlib.manager", None, opened, context.yields),)
        return sequence("iterator", context.yields)
    promised = attributes.return_annotation(machine, info)
    return hints.refine(context.result, promised) if promised else context.result


def _names_host(given: Arguments) -> bool:
    """Whether an argument asks for host memory, so that what an annotation promises is not on the device."""
    return any(
        conditions.named_device(atom) == "cpu" or (isinstance(atom, Tensor) and atom.device == "cpu")
        for value in given.values()
        for atom in value
    )


def _may_pass_through(given: Arguments, promised: Value) -> bool:
    """Whether a call may return an object that it was given: a wrapper, not a factory."""
    if not any(isinstance(atom, (Instance, Object)) for atom in promised):
        return False
    return any(isinstance(a, Instance) for value in given.values() for a in value)


def construct(frame: Frame, atom: ClassRef, arguments: Arguments, node: ast.expr) -> Value:
    """Make an object of a program class."""
    machine = frame.machine
    cls = atom.cls
    external = machine.names.external_bases(cls)
    if any(base.rpartition(".")[2] in ("Enum", "IntEnum", "StrEnum", "Flag") for base in external):
        return instances.enum_member(machine, cls)
    if atom.open:
        result: Value = NOTHING
        for candidate in [cls, *machine.subclasses(cls)][:24]:
            result = join(result, construct(frame, class_ref(candidate), arguments, node))
        return result

    site = (*expressions.site(frame, node), frame.context.receiver if not frame.tick else None)
    made = instance(cls, site[:3], frame.tick)
    machine.note_instance(made)
    init = machine.names.method(cls, "__init__")
    if init is not None:
        call_function(frame, init, made, arguments, node)
    elif instances.is_data_class(machine, cls) or any(base.rpartition(".")[2] == "TypedDict" for base in external):
        _fill_fields(frame, made, arguments)
        post = machine.names.method(cls, "__post_init__")
        if post is not None:
            call_function(frame, post, made, [], node)
    elif any(base in libraries.EXCEPTIONS or base.endswith(("Error", "Exception", "Warning")) for base in external):
        return host("any")
    if any(base.rpartition(".")[2] in ("Function",) and "autograd" in base for base in external):
        return (made,)
    return (made,)


def _fill_fields(frame: Frame, made: Instance, arguments: Arguments) -> None:
    machine = frame.machine
    names = instances.field_names(machine, made.cls)
    given = dict(zip(names, arguments.positional, strict=False))
    given.update(arguments.keywords)
    for name, value in given.items():
        cell = machine.cell(made, name)
        promised: Value = NOTHING
        for owner in machine.names.mro(made.cls):
            if name in owner.annotations:
                promised = hints.annotation_value(machine, owner.module, owner.annotations[name], None)
                break
        node = arguments.keyword_nodes.get(name)
        if node is None and name in names and names.index(name) < len(arguments.nodes):
            node = arguments.nodes[names.index(name)]
        if cell.node is None and node is not None:
            cell.node = (frame.module, node)
        machine.join_cell(cell, hints.refine(value, promised))


# -- functions as values -------------------------------------------------------------------------------------

_TRANSPARENT = {
    "property",
    "staticmethod",
    "classmethod",
    "abstractmethod",
    "overload",
    "override",
    "final",
    "wraps",
    "contextmanager",
    "asynccontextmanager",
    "cached_property",
    "no_grad",
    "inference_mode",
    "enable_grad",
    "dataclass",
    "setter",
    "getter",
    "deleter",
    "deprecated",
    "singledispatch",
    "boundary",
    "completion_owned",
    "cold_path",
    "profile",
    "runtime_checkable",
    "script",
    "export",
    "ignore",
    "disable",
    "compile",
    "jit",
    "fixture",
    "custom_op",
    "register_fake",
    "autocast",
    "lru_cache",
    "cache",
}


def decorated(machine: Machine, info: FunctionInfo) -> Value:
    """The value that a function's name is bound to, after its decorators."""
    key = ("decorated", info)
    if key in machine.memo:
        return machine.memo[key]  # type: ignore[no-any-return]
    machine.memo[key] = (function(info, None, None),)
    device = attributes.kernel_or_function(machine, info)
    if device is not None:
        machine.memo[key] = device
        return device
    value: Value = (function(info, None, None),)
    if not isinstance(info.node, ast.Lambda):
        for node in reversed(info.node.decorator_list):
            value = _apply_decorator(machine, info, node, value)
    machine.memo[key] = value
    return value


def _apply_decorator(machine: Machine, info: FunctionInfo, node: ast.expr, value: Value) -> Value:
    target = node.func if isinstance(node, ast.Call) else node
    text = dotted_text(target)
    symbol = machine.names.expression(info.module, target)
    if isinstance(symbol, (FunctionInfo, ClassInfo)):
        applied = detached_call(machine, info.module, node, value)
        kept = tuple(atom for atom in applied if atom is not UNKNOWN and atom is not NONE)
        callable_kept = tuple(a for a in kept if isinstance(a, (Function, Instance, Partial, Returns, Object)))
        return callable_kept or value
    if text.rpartition(".")[2] in _TRANSPARENT or isinstance(symbol, External) or symbol is None:
        return value
    return value


def decorate_class(machine: Machine, module: Module, cls: ClassInfo) -> None:
    """Apply the program's own class decorators for what they register."""
    key = ("decorated-class", cls)
    if key not in machine.memo:
        machine.memo[key] = True
        for node in reversed(cls.node.decorator_list):
            target = node.func if isinstance(node, ast.Call) else node
            if isinstance(machine.names.expression(module, target), FunctionInfo):
                detached_call(machine, module, node, (class_ref(cls),))


def bind_decorated(machine: Machine, method: FunctionInfo, receiver: Atom) -> Value:
    """A method bound to its receiver; a decorator's wrapper is what gets bound."""
    value = decorated(machine, method)
    result: Value = NOTHING
    for atom in value:
        if isinstance(atom, Function):
            result = join(result, (function(atom.function, receiver, atom.closure),))
        elif isinstance(atom, Kernel):
            result = join(result, (atom,))
        else:
            result = join(result, (function(method, receiver, None),))
    return result


def nested_function(frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
    """A ``def`` inside a function body: a closure over this context."""
    info = nested_info(frame, node, node.name)
    for default in (*node.args.defaults, *node.args.kw_defaults):
        if default is not None:
            frame.evaluate(default)
    device = attributes.kernel_or_function(frame.machine, info)
    if device is not None:
        return device
    value: Value = (function(info, None, frame.context),)
    for decorator in reversed(node.decorator_list):
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        applied = frame.evaluate(decorator)
        if dotted_text(target).rpartition(".")[2] in _TRANSPARENT:
            continue

        if any(isinstance(a, (Function, ClassRef)) for a in applied):
            outcome = frame.call(applied, Arguments([value]), decorator)
            kept = tuple(a for a in outcome if isinstance(a, (Function, Instance, Partial, Returns, Object)))
            value = kept or value
    return value


def nested_info(frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str) -> FunctionInfo:
    program = frame.machine.program
    info = program.function_of_node(node)
    if info is None:
        outer = frame.function.qualname if frame.function else ""
        prefix = f"{outer}." if outer else ""
        decorators = () if isinstance(node, ast.Lambda) else tuple(dotted_text(d) for d in node.decorator_list)
        cls = frame.function.cls if frame.function else None
        info = FunctionInfo(node, frame.module, f"{prefix}{name}", cls, decorators)
        program.register(info)
    return info


def lambda_value(frame: Frame, node: ast.Lambda) -> Value:
    for default in (*node.args.defaults, *node.args.kw_defaults):
        if default is not None:
            frame.evaluate(default)
    info = nested_info(frame, node, "<lambda>")
    for name, value in (frame.env or {}).items():
        if "." not in name:
            frame.machine.note_local(frame.context, name, value)
    return (function(info, None, frame.context),)


def nested_class(frame: Frame, node: ast.ClassDef) -> Value:
    from capaudit.program.index import index_module
    from capaudit.program.text import Questions, asked_by

    key = ("nested-class", node)
    if key not in frame.machine.memo:
        holder = index_module(
            frame.module.name, frame.module.file, False, ast.Module([node], []), asked_by("", Questions())
        )
        cls = holder.classes[node.name]
        cls.module = frame.module
        for method in cls.methods.values():
            method.module = frame.module
            frame.machine.program.register(method)
        frame.machine.memo[key] = cls
    made: ClassInfo = frame.machine.memo[key]
    frame.machine.memo.setdefault((_AROUND, made), {})[frame.context] = None
    return (class_ref(made),)


_AROUND = "around"
"""Where the machine keeps the contexts whose variables the methods of a nested class see."""
_MOST_AROUND = 4


def facts_of(info: FunctionInfo) -> BodyFacts:
    """What one walk over a body says, computed once."""
    if info.facts is None:
        info.facts = body_facts(info)
    return info.facts


def is_generator(info: FunctionInfo) -> bool:
    return facts_of(info).yields


def has_nested_functions(info: FunctionInfo) -> bool:
    return facts_of(info).nests


def is_stub(node: ast.AST) -> bool:
    """A body that only promises: ``...``, a docstring, an abstract ``pass``, ``raise NotImplementedError``."""
    if isinstance(node, ast.Lambda):
        return False
    body = getattr(node, "body", [])
    rest = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    abstract = any(dotted_text(d).rpartition(".")[2] == "abstractmethod" for d in getattr(node, "decorator_list", []))
    if not rest:
        return True
    if len(rest) == 1 and isinstance(rest[0], ast.Raise) and rest[0].exc is not None:
        return dotted_text(rest[0].exc).rpartition(".")[2] == "NotImplementedError"
    return abstract and len(rest) == 1 and isinstance(rest[0], (ast.Pass, ast.Return))


# -- dunders, containers ----------------------------------------------------------------------------------------


def call_dunder(frame: Frame, atom: Instance, name: str, arguments: list[Value], node: ast.AST) -> Value | None:
    """Call a special method of an object where its class has one."""
    machine = frame.machine
    if not name:
        return None
    method = machine.names.method(atom.cls, name)
    if method is None:
        return None
    result: Value = NOTHING
    for target, receiver in instances.dispatch(machine, atom, name, method):
        result = join(result, call_function(frame, target, receiver, arguments, node))
    return result


def iterate_instance(frame: Frame, atom: Instance, node: ast.AST) -> Value:

    found = call_dunder(frame, atom, "__iter__", [], node)
    if found is not None:
        held = expressions.iterate(frame, tuple(a for a in found if a is not atom), node)
        if atom in found:
            held = join(held, call_dunder(frame, atom, "__next__", [], node) or NOTHING)
        return held
    item = call_dunder(frame, atom, "__getitem__", [host("int")], node)
    if item is not None:
        return item
    if instances.is_data_class(frame.machine, atom.cls):
        return join_all(
            instances.read(frame, atom, name, ast.Name(name)) for name in instances.field_names(frame.machine, atom.cls)
        )
    if any(base.startswith("torch.nn.") for base in frame.machine.names.external_bases(atom.cls)):
        return (library_object("torch.nn.Module"),)  # containers of modules iterate over modules
    return unknown


def update_box(frame: Frame, target: Box, value: Value) -> None:
    """``target.update(value)`` for a dictionary box."""
    machine = frame.machine
    for atom in value:
        match atom:
            case Box(kind="dict"):
                for name, cell in list(machine.owner_cells(atom).items()):
                    machine.join_cell(machine.cell(target, name), machine.read_cell(cell, frame.context))
            case Mapping():
                machine.join_cell(machine.cell(target, "#keys"), atom.name)
                machine.join_cell(machine.cell(target, "*"), atom.item)
            case Record():
                for name, item in atom.entries:
                    machine.join_cell(machine.cell(target, f"[{name!r}]"), item)
                    machine.join_cell(machine.cell(target, "#keys"), const(name))
            case Sequence() | Items():
                machine.join_cell(machine.cell(target, "*"), unknown)
            case _ if atom is not NONE:
                machine.join_cell(machine.cell(target, "*"), unknown)


def format_value(frame: Frame, value: Value, node: ast.AST, subject: ast.expr | None) -> None:
    """Formatting reads values: of tensors from the device, of objects through ``__format__``/``__str__``."""
    hazards.host_read(frame, value, node, "formatting a tensor prints its value", subject, "python.format")
    for atom in value:
        if isinstance(atom, (Items, Box, Sequence, Mapping, Record)) and conditions.contains_device(frame, atom):
            frame.reject(
                node,
                "CAP101",
                "python.format",
                "formatting a container prints the tensors in it, which reads their values",
                confidence=Confidence.LIKELY,
                subject=subject,
            )
        elif isinstance(atom, Instance):
            for name in ("__format__", "__str__", "__repr__"):
                if call_dunder(frame, atom, name, [host("str")] if name == "__format__" else [], node) is not None:
                    break


def check_first_use(frame: Frame, value: Value, node: ast.expr) -> None:
    """A cached function or property that makes device storage makes it when first asked, here inside the tick."""
    if not frame.recording or frame.function is None or not frame.function.decorators:
        return
    if not frame.function.has_decorator("cached_property", "cache", "lru_cache"):
        return
    if (
        stores.makes_buffers(frame.machine, value)
        and not stores.is_warm(frame)
        and not frame.machine.ran_cold(frame.function)
    ):
        frame.reject(
            node,
            "CAP503",
            "cached result",
            f"{frame.function.qualname} keeps what it makes on first use; when that is inside a capture, the "
            "graph's own memory is kept",
            confidence=Confidence.LIKELY,
            remedy="Ask for it once before capturing, or make it at construction.",
        )


# -- evaluation outside any frame -----------------------------------------------------------------------------------


def detached_value(
    machine: Machine, module: Module, owner: FunctionInfo | None, node: ast.expr, cls: ClassInfo | None = None
) -> Value:
    """Evaluate an expression that stands at module or class level, or inside a function that is not followed."""
    return parameters.detached(machine, module, owner, node, cls)


def detached_call(machine: Machine, module: Module, decorator: ast.expr, value: Value) -> Value:

    frame = parameters.detached_frame(machine, module, None)
    return frame.call(frame.evaluate(decorator), Arguments([value]), decorator)


def detached_name(frame: Frame, name: str) -> Value:
    """A local of a function that is only looked into, not followed: its parameter's promise or its bindings."""
    return parameters.detached_name(frame, name)


def promised_arguments(
    machine: Machine, info: FunctionInfo, receiver: Atom | None, entry: bool = False
) -> dict[str, Value]:
    return parameters.promised(machine, info, receiver, entry)
