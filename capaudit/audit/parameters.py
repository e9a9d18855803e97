"""Binding arguments to parameters, and what is promised where no call was seen."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from capaudit.audit import conditions, hints
from capaudit.audit.contexts import Context
from capaudit.audit.machine import argument as passed
from capaudit.audit.machine import borrowed
from capaudit.audit.values import (
    NONE,
    NOTHING,
    UNKNOWN,
    Atom,
    ClassRef,
    Instance,
    Returns,
    Value,
    class_ref,
    items,
    join,
    record,
    sequence,
    tensor,
    unknown,
)
from capaudit.program import ClassInfo, FunctionInfo, Module, walk

if TYPE_CHECKING:
    from capaudit.audit.arguments import Arguments
    from capaudit.audit.frame import Frame
    from capaudit.audit.machine import Machine


def bind(frame: Frame, info: FunctionInfo, receiver: Atom | None, given: Arguments) -> dict[str, Value] | None:
    """Bind a call's arguments; ``None`` while one of them has no value yet."""
    machine = frame.machine
    spec = info.node.args
    result: dict[str, Value] = {}
    positional = list(given.positional)
    if (receiver is not None and takes_receiver(info)) or (
        receiver is not None and info.has_decorator("classmethod") and not isinstance(receiver, ClassRef)
    ):
        positional.insert(0, (receiver,))
    keywords = dict(given.keywords)
    names = [*spec.posonlyargs, *spec.args]
    for i, parameter in enumerate(names):
        if i < len(positional):
            value = positional[i]
        elif parameter.arg in keywords:
            value = keywords.pop(parameter.arg)
        else:
            value = _missing(machine, info, parameter, _default_of(spec, i), given, True)
        if not value:
            return None
        result[parameter.arg] = _typed(machine, info, parameter, value, receiver is not None and i == 0)
    if spec.vararg is not None:
        rest = tuple(positional[len(names) :])
        if any(not value for value in rest):
            return None
        if given.star:
            joined: Value = given.star
            for value in rest:
                joined = join(joined, value)
            result[spec.vararg.arg] = sequence("tuple", joined)
        else:
            result[spec.vararg.arg] = items(tuple(borrowed(value) for value in rest))
    for i, parameter in enumerate(spec.kwonlyargs):
        if parameter.arg in keywords:
            value = keywords.pop(parameter.arg)
        else:
            value = _missing(machine, info, parameter, spec.kw_defaults[i], given, False)
        if not value:
            return None
        result[parameter.arg] = _typed(machine, info, parameter, value, False)
    if spec.kwarg is not None:
        entries = tuple((name, borrowed(value)) for name, value in keywords.items())
        if any(not value for _, value in entries):
            return None
        value = record(entries)
        if given.keyword_star:
            from capaudit.audit.values import host, mapping

            value = join(value, mapping(host("str"), given.keyword_star))
        result[spec.kwarg.arg] = value
    return result


def takes_receiver(info: FunctionInfo) -> bool:
    return not info.has_decorator("staticmethod")


def _default_of(spec: ast.arguments, index: int) -> ast.expr | None:
    count = len(spec.posonlyargs) + len(spec.args)
    offset = index - (count - len(spec.defaults))
    return spec.defaults[offset] if offset >= 0 else None


def _typed(machine: Machine, info: FunctionInfo, parameter: ast.arg, value: Value, is_receiver: bool) -> Value:
    value = passed(value)
    if is_receiver or (UNKNOWN not in value and not any(getattr(a, "type_name", "") == "any" for a in value)):
        return value
    known = tuple(atom for atom in value if atom is not UNKNOWN and atom is not NONE)
    if UNKNOWN in value and known and not any(conditions.named_device(atom) == "cpu" for atom in known):
        return tuple(atom for atom in value if atom is not UNKNOWN)  # what callers really pass beats what is annotated
    promised = hints.annotation_value(machine, info.module, parameter.annotation, info)
    return hints.refine(value, promised) if promised else value


def _missing(
    machine: Machine,
    info: FunctionInfo,
    parameter: ast.arg,
    default: ast.expr | None,
    given: Arguments,
    positional: bool,
) -> Value:
    promised = hints.annotation_value(machine, info.module, parameter.annotation, info)
    loose: Value = given.keyword_star if not positional else join(given.star, given.keyword_star)
    result: Value = NOTHING
    if default is not None:
        result = default_value(machine, info, parameter, default)
    if loose:
        known = promised or loose
        result = join(result, hints.refine(loose, known) if promised else loose)
    if not result:
        result = promised or unknown
    return result


def default_value(machine: Machine, info: FunctionInfo, parameter: ast.arg, default: ast.expr) -> Value:
    key = ("default", info, parameter.arg)
    if key not in machine.memo:
        machine.memo[key] = unknown
        machine.memo[key] = detached(machine, info.module, None, default) or unknown
    return machine.memo[key]  # type: ignore[no-any-return]


def promised(machine: Machine, info: FunctionInfo, receiver: Atom | None, entry: bool = False) -> dict[str, Value]:
    """Arguments for a function that nobody was seen to call: seen calls, annotations, defaults.

    For the entry of a boundary, parameters that nothing describes are the boundary's input tensors.
    """
    spec = info.node.args
    result: dict[str, Value] = {}
    names = [*spec.posonlyargs, *spec.args]
    seen = _seen_arguments(machine, info) if _has_bare_parameter(machine, info) else {}
    for i, parameter in enumerate(names):
        if i == 0 and receiver is not None and takes_receiver(info):
            result[parameter.arg] = (receiver,)
            continue
        result[parameter.arg] = _promise(machine, info, parameter, _default_of(spec, i), seen, entry)
    if spec.vararg is not None:
        inner = hints.annotation_value(machine, info.module, spec.vararg.annotation, info)
        result[spec.vararg.arg] = sequence("tuple", inner or unknown)
    for i, parameter in enumerate(spec.kwonlyargs):
        result[parameter.arg] = _promise(machine, info, parameter, spec.kw_defaults[i], seen, entry)
    if spec.kwarg is not None:
        from capaudit.audit.values import host, mapping

        result[spec.kwarg.arg] = mapping(host("str"), unknown)
    return result


def _promise(
    machine: Machine,
    info: FunctionInfo,
    parameter: ast.arg,
    default: ast.expr | None,
    seen: dict[str, Value],
    entry: bool,
) -> Value:
    value = hints.annotation_value(machine, info.module, parameter.annotation, info)
    if not value or value == unknown or any(isinstance(a, Returns) for a in value):
        observed = seen.get(parameter.arg, NOTHING)
        if observed and observed != unknown:
            value = observed
    if default is not None:
        own = default_value(machine, info, parameter, default)
        if value:
            value = join(own, value)
        elif own == (NONE,):
            value = join(own, unknown)
        else:
            value = _widened(own)
    if value:
        return borrowed(value)
    return (tensor("cuda", sure=False, storage="other"),) if entry else unknown


def _widened(value: Value) -> Value:
    """A default shows a parameter's type, not its value."""
    from capaudit.audit.values import Const, host

    return join(
        NOTHING,
        tuple(
            host(a.type_name)[0] if isinstance(a, Const) and a is not NONE and a.type_name != "capturing" else a
            for a in value
        ),
    )


def _has_bare_parameter(machine: Machine, info: FunctionInfo) -> bool:
    """Whether a parameter has no annotation, or one that only says that it is called."""
    spec = info.node.args
    for parameter in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
        if parameter.arg in ("self", "cls"):
            continue
        value = hints.annotation_value(machine, info.module, parameter.annotation, info)
        if not value or UNKNOWN in value or any(isinstance(a, Returns) for a in value):
            return True
    return False


def _seen_arguments(machine: Machine, info: FunctionInfo) -> dict[str, Value]:
    """What the program's own call sites pass, looked into without following the callers."""
    key = ("seen", info)
    if key in machine.memo:
        return machine.memo[key]  # type: ignore[no-any-return]
    machine.memo[key] = {}
    name = info.cls.name if info.cls is not None and info.name == "__init__" else info.name
    method = info.cls is not None and info.name != "__init__" and not info.has_decorator("staticmethod")
    wanted: Any = info.cls if info.cls is not None and info.name == "__init__" else info
    found: dict[str, Value] = {}
    spec = info.node.args
    parameters = [p.arg for p in [*spec.posonlyargs, *spec.args]]
    if method or (info.cls is not None and info.name == "__init__"):
        parameters = parameters[1:]
    if machine.memo.get("seen-depth", 0) >= 3:
        return {}
    machine.memo["seen-depth"] = machine.memo.get("seen-depth", 0) + 1
    own_package = info.module.name.partition(".")[0]
    sites = machine.program.calls_to(name, own_package)
    for count, (module, call, owner) in enumerate(sites):
        if count >= 8:
            break
        target: ast.expr = call.func
        arguments = list(call.args)
        if method:
            # The receiver is not looked at: a method of that name with such arguments is taken as this one.
            if not isinstance(target, ast.Attribute) or len(arguments) > len(parameters):
                continue
        elif machine.names.expression(module, target) is not wanted:
            if not arguments or machine.names.expression(module, arguments[0]) is not wanted:
                continue
            arguments = arguments[1:]
        for parameter, argument in zip(parameters, arguments, strict=False):
            if isinstance(argument, ast.Starred):
                break
            found[parameter] = join(found.get(parameter, NOTHING), detached(machine, module, owner, argument))
        for keyword in call.keywords:
            if keyword.arg is not None:
                value = detached(machine, module, owner, keyword.value)
                found[keyword.arg] = join(found.get(keyword.arg, NOTHING), value)
    machine.memo["seen-depth"] -= 1
    machine.memo[key] = found
    return found


# -- detached evaluation --------------------------------------------------------------------------------------


def detached_frame(machine: Machine, module: Module, owner: FunctionInfo | None) -> Frame:
    """A cold frame that looks into ``owner`` without following it; its locals resolve on demand."""
    from capaudit.audit.frame import Frame as Made

    context = Context(owner, module, None, {}, frozenset(), "cold")
    context.items["detached"] = owner
    context.runs = 1_000_000  # never put on the work list: whoever needs the value asks again
    return Made(machine, context, owner, module)


def detached(
    machine: Machine, module: Module, owner: FunctionInfo | None, node: ast.expr, cls: ClassInfo | None = None
) -> Value:
    """Evaluate an expression in a detached frame, inside ``cls`` where it stands in a class body."""
    key = ("detached", node, owner)  # kept alive: ids are used again
    if key in machine.memo:
        return machine.memo[key]  # type: ignore[no-any-return]
    machine.memo[key] = NOTHING
    frame = detached_frame(machine, module, owner)
    if cls is not None:
        frame.context.items["class"] = cls
    if machine.depth > 40:
        return unknown
    machine.depth += 1
    try:
        value = frame.evaluate(node)
    finally:
        machine.depth -= 1
    machine.memo[key] = value
    return value


def detached_name(frame: Frame, name: str) -> Value:
    """Resolve a local of the function that a detached frame looks into."""
    machine = frame.machine
    cls = frame.context.items.get("class")
    if cls is not None:
        from capaudit.audit import instances

        if name in cls.methods:
            from capaudit.audit import calls

            return calls.decorated(machine, cls.methods[name])
        if name in cls.nested:
            return (class_ref(cls.nested[name]),)
        if name in cls.values:
            return instances.class_level(frame, cls, name)
    owner = frame.context.items.get("detached")
    if owner is None or isinstance(owner.node, ast.Lambda):
        return unknown
    key = ("local", owner, name)
    if key not in machine.memo:
        machine.memo[key] = NOTHING  # a binding that leads back to itself adds nothing
        machine.memo[key] = _local_of(frame, owner, name)
    return machine.memo[key]  # type: ignore[no-any-return]


def _local_of(frame: Frame, owner: FunctionInfo, name: str) -> Value:
    machine = frame.machine
    spec = owner.node.args
    every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    for i, parameter in enumerate(every):
        if parameter.arg == name:
            if i == 0 and owner.cls is not None and takes_receiver(owner):
                return (instance_of(owner.cls),)
            value = hints.annotation_value(machine, owner.module, parameter.annotation, owner)
            default = _default_of(spec, i) if i < len(spec.posonlyargs) + len(spec.args) else None
            if not value and default is not None:
                value = _widened(default_value(machine, owner, parameter, default))
            return value or unknown
    result: Value = NOTHING
    for node in _bindings(machine, owner).get(name, ()):
        match node:
            case ast.Assign(value=value_node):
                result = join(result, frame.evaluate(value_node))
            case ast.AnnAssign(annotation=annotation):
                result = join(result, hints.annotation_value(machine, owner.module, annotation, owner))
            case ast.FunctionDef():
                from capaudit.audit import calls

                result = join(result, calls.nested_function(frame, node))
            case ast.Import() | ast.ImportFrom():
                from capaudit.audit import attributes

                attributes.local_import(frame, node)
                result = join(result, (frame.env or {}).get(name, NOTHING))
    return result or unknown


def _bindings(machine: Machine, owner: FunctionInfo) -> dict[str, list[ast.stmt]]:
    """The statements of a function that bind each of its local names."""
    key = ("bindings", owner)
    if key in machine.memo:
        return machine.memo[key]  # type: ignore[no-any-return]
    table: dict[str, list[ast.stmt]] = {}
    for node in walk(owner.node):
        match node:
            case ast.Assign(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        table.setdefault(target.id, []).append(node)
            case ast.AnnAssign(target=ast.Name(id=name)):
                table.setdefault(name, []).append(node)
            case ast.FunctionDef(name=name) if node is not owner.node:
                table.setdefault(name, []).append(node)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for alias in names:
                    table.setdefault(alias.asname or alias.name.partition(".")[0], []).append(node)
    machine.memo[key] = table
    return table


def instance_of(cls: ClassInfo) -> Instance:
    from capaudit.audit.values import instance

    return instance(cls)
