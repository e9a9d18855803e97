"""Abstract evaluation of expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from capaudit.audit import attributes, calls, containers, guards, indexing, operators, stores
from capaudit.audit.values import (
    NONE,
    NOTHING,
    Array,
    Box,
    Const,
    Host,
    Instance,
    Items,
    Mapping,
    Object,
    Record,
    Sequence,
    Tensor,
    Value,
    WarpArray,
    array,
    box,
    const,
    host,
    items,
    join,
    join_all,
    like,
    none,
    sequence,
    slice_of,
    stronger,
    unknown,
)

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame


def evaluate(frame: Frame, node: ast.expr) -> Value:
    """Return the abstract value of an expression, recording what it runs."""
    if frame.env is None:
        return NOTHING
    handler = HANDLERS.get(type(node))
    return handler(frame, node) if handler is not None else unknown


@contextmanager
def observed(note: Callable[[ast.expr, Value], None]) -> Iterator[None]:
    """Report every value that an expression gets meanwhile; costs nothing outside."""
    saved = dict(HANDLERS)

    def observing(handler: Any) -> Any:
        def evaluated(frame: Frame, node: ast.expr) -> Value:
            value: Value = handler(frame, node)
            note(node, value)
            return value

        return evaluated

    try:
        HANDLERS.update({kind: observing(handler) for kind, handler in saved.items()})
        yield
    finally:
        HANDLERS.update(saved)


def quietly(frame: Frame, node: ast.expr) -> Value:
    """Evaluate a name or attribute chain without recording anything (for messages)."""
    saved = frame.env
    frame.quiet += 1
    try:
        return evaluate(frame, node) if saved is not None else NOTHING
    finally:
        frame.quiet -= 1
        frame.env = saved


def exception_value() -> Value:
    return host("any")


def site(frame: Frame, node: ast.AST) -> tuple[Any, ...]:
    """The allocation site of an object made by ``node``."""
    context = frame.context
    apart = (
        context.serial
        if context.function is not None and context.function.name not in ("__init__", "__post_init__")
        else 0
    )
    return (frame.module.file, getattr(node, "lineno", 0), getattr(node, "col_offset", 0), apart)


def _constant(frame: Frame, node: ast.Constant) -> Value:
    return const(node.value)


def _name(frame: Frame, node: ast.Name) -> Value:
    return frame.read_name(node.id, node)


def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    key = dotted_key(node)
    if key is not None and frame.env is not None and key in frame.env:
        return stores.read_narrowed(frame, key, node)
    return attributes.read(frame, evaluate(frame, node.value), node.attr, node)


def dotted_key(node: ast.expr) -> str | None:
    """The environment key of an attribute chain on a plain name (``self.x.y``), which narrowing uses."""
    try:
        return node.dotted_key  # type: ignore[attr-defined,no-any-return]  # kept at the node: asked for many times
    except AttributeError:
        pass
    parts: list[str] = []
    current = node
    while isinstance(current, ast.Attribute):
        parts.append(current.attr)
        current = current.value
    key = ".".join([current.id, *reversed(parts)]) if isinstance(current, ast.Name) and parts else None
    node.dotted_key = key  # type: ignore[attr-defined]
    return key


def _tuple(frame: Frame, node: ast.Tuple) -> Value:
    if any(isinstance(element, ast.Starred) for element in node.elts):
        return sequence("tuple", join_all(_elements(frame, node.elts)))
    return items(tuple(evaluate(frame, element) for element in node.elts))


def _elements(frame: Frame, nodes: list[ast.expr]) -> list[Value]:
    values: list[Value] = []
    for element in nodes:
        if isinstance(element, ast.Starred):
            values.append(iterate(frame, evaluate(frame, element.value), element))
        else:
            values.append(evaluate(frame, element))
    return values


def _list(frame: Frame, node: ast.List | ast.Set) -> Value:
    kind = "list" if isinstance(node, ast.List) else "set"
    target = box(kind, site(frame, node), frame.tick)
    fill_box(frame, target, _elements(frame, node.elts), node)
    return (target,)


def fill_box(frame: Frame, target: Box, values: list[Value], node: ast.AST) -> None:
    """Join values into a list or set; the positions of short lists are kept apart."""
    machine = frame.machine
    machine.join_cell(machine.cell(target, "*"), join_all(values))
    if (
        target.kind == "list"
        and 0 < len(values) <= 8
        and not any(isinstance(n, ast.Starred) for n in getattr(node, "elts", ()))
    ):
        for i, value in enumerate(values):
            machine.join_cell(machine.cell(target, f"[{i}]"), value)
    if not values:
        machine.cell(target, "*")


def _dict(frame: Frame, node: ast.Dict) -> Value:
    from capaudit.audit import once

    target = box("dict", site(frame, node), frame.tick and not once.fills_later(frame, node))
    machine = frame.machine
    machine.cell(target, "*")
    for key, value_node in zip(node.keys, node.values, strict=True):
        value = evaluate(frame, value_node)
        if key is None:
            calls.update_box(frame, target, value)
            continue
        set_entry(frame, target, evaluate(frame, key), value)
    return (target,)


def set_entry(
    frame: Frame, target: Box, key: Value, value: Value, place: ast.AST | None = None, source: ast.expr | None = None
) -> None:
    """Join ``target[key] = value`` for a dictionary box."""
    machine = frame.machine
    keys = machine.cell(target, "#keys")
    machine.join_cell(keys, key)
    if not frame.tick and not frame.context.items.get("speculative"):
        put = join(keys.first, key)  # what set-up code really puts in
        if put is not keys.first:
            keys.first = put
            for reader in keys.readers:
                machine.mark(reader)
    name = f"[{key[0].value!r}]" if len(key) == 1 and isinstance(key[0], Const) else "*"
    cell = machine.cell(target, name)
    if place is None or frame.context.phase == "cold" or target.tick:
        machine.join_cell(cell, value)
        return
    cell.label = f"entry {name} of the {target.kind} made at line {target.site[1]}" if name != "*" else cell.label
    stores.write_cell(frame, cell, value, place, "", source=source)


def entries(frame: Frame, target: Box, node: ast.AST | None = None) -> Value:
    """Join of everything that a container box holds; ``node``: the place that goes through all of it."""
    machine = frame.machine
    rest = machine.cell(target, "*")
    # Whatever a running key has bound before stands for every entry.
    quiet = node is None or stores.is_written(frame, rest)
    found = machine.read_cell(rest, frame.context) if quiet else stores.read_cell(frame, rest, node)
    for name, cell in list(machine.owner_cells(target).items()):
        if name.startswith("["):
            held = machine.read_cell(cell, frame.context) if quiet else stores.read_cell(frame, cell, node)
            found = join(found, held)
    return found


def iterate(frame: Frame, value: Value, node: ast.AST) -> Value:
    """Return the join of the items that iterating ``value`` yields."""
    found: Value = NOTHING
    machine = frame.machine
    for atom in value:
        match atom:
            case Tensor():
                rank = atom.rank - 1 if atom.rank else None
                if atom.dynamic:
                    guards.dynamic_loop(frame, node)
                found = join(found, (like(atom, rank=rank, dynamic=False),))
            case Items():
                found = join(found, join_all(atom.items))
            case Sequence():
                if atom.taint:
                    guards.tainted_loop(frame, atom.taint, node)
                found = join(found, atom.item)
            case Box():
                if atom.kind == "dict":
                    keys = machine.read_cell(machine.cell(atom, "#keys"), frame.context)
                    found = join(found, keys)
                else:
                    held = entries(frame, atom, node)
                    containers.note_walk(frame, atom, held, node)
                    found = join(found, held)
            case Mapping():
                found = join(found, atom.name)
            case Record():
                found = join(found, join_all(const(name) for name, _ in atom.entries))
            case Array():
                found = join(found, array(atom.element))
            case Const() if isinstance(atom.value, str):
                found = join(found, host("str"))
            case Const() if atom is NONE:
                pass
            case Host() if atom.type_name != "any":
                found = join(found, host("str") if atom.type_name == "str" else host("any"))
            case Instance():
                found = join(found, calls.iterate_instance(frame, atom, node))
            case Object():
                found = join(found, atom.content or unknown)
            case WarpArray():
                found = join(found, (atom,))
            case Host():
                found = join(found, (atom,))
            case _:
                found = join(found, unknown)
    return found


def _slice(frame: Frame, node: ast.Slice) -> Value:
    bounds: Value = NOTHING
    for part in (node.lower, node.upper, node.step):
        if part is not None:
            bounds = join(bounds, evaluate(frame, part))
    return slice_of(bounds)


def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    return indexing.read(frame, node)


def _call(frame: Frame, node: ast.Call) -> Value:
    return calls.call(frame, node)


def _compare(frame: Frame, node: ast.Compare) -> Value:
    left = evaluate(frame, node.left)
    result: Value = NOTHING
    for operator, right_node in zip(node.ops, node.comparators, strict=True):
        right = evaluate(frame, right_node)
        one = operators.compare(frame, operator, left, right, node)
        if len(node.ops) > 1:
            guards.truth(frame, one, node, node, "a chained comparison asks whether it is true")
        result = join(result, one)
        left = right
    return result


def _bool_operation(frame: Frame, node: ast.BoolOp) -> Value:
    result, env = guards.boolean_operation(frame, node)
    frame.env = env
    return result


def _unary(frame: Frame, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        value = evaluate(frame, node.operand)
        # Turning a host value over chooses nothing yet: the result carries the taint to where something does.
        asked = tuple(a for a in value if not (isinstance(a, Host) and a.taint))
        guards.truth(frame, asked, node.operand, node, "'not' asks whether it is true")
        known = guards.constant_truth(value)
        if known is not None:
            return const(not known)
        return host("bool", operators.taint_of(value))
    return operators.unary(frame, node.op, evaluate(frame, node.operand), node)


def _binary(frame: Frame, node: ast.BinOp) -> Value:
    from capaudit.audit import stamps

    left = evaluate(frame, node.left)
    right = evaluate(frame, node.right)
    result = operators.binary(frame, node.op, left, right, node)
    if frame.stale and isinstance(node.op, ast.Sub) and stamps.is_elapsed(frame, node):
        return tuple(host(a.type_name)[0] if isinstance(a, Host) else a for a in result)
    return result


def _conditional(frame: Frame, node: ast.IfExp) -> Value:
    from capaudit.audit import branching, once

    held: list[branching.Steered] = []
    outer, frame.held = frame.held, held
    try:
        outcome = guards.test(frame, node.test, node)
    finally:
        frame.held = outer
    if frame.env is None:
        return NOTHING
    before = frame.env
    work = frame.work
    result: Value = NOTHING
    outside = frame.mode
    for branch, part, wanted in ((outcome.true, node.body, True), (outcome.false, node.orelse, False)):
        if branch is not None:
            frame.env = before
            frame.narrow(branch)
            frame.mode = outside | once.alias(node.test, wanted)
            result = join(result, evaluate(frame, part))
    frame.env, frame.mode = before, outside
    if held and (frame.work > work or branching.is_choice(frame, result)):
        branching.report(frame, held, before)
    taint = outcome.taint
    if taint is not None and taint[0] in ("frozen", "rng", "clock"):
        result = operators.with_taint(result, taint)
    return result


def _formatted(frame: Frame, node: ast.JoinedStr) -> Value:
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            calls.format_value(frame, evaluate(frame, part.value), part, part.value)
            if part.format_spec is not None:
                evaluate(frame, part.format_spec)
    return host("str")


def _lambda(frame: Frame, node: ast.Lambda) -> Value:
    return calls.lambda_value(frame, node)


def _comprehension(frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    if frame.env is None:
        return NOTHING
    before = frame.env
    frame.env = dict(before)
    taint: tuple[Any, ...] | None = None
    reached = True
    for generator in node.generators:
        iterated = evaluate(frame, generator.iter)
        taint = stronger(taint, operators.length_taint(iterated))
        item = iterate(frame, iterated, generator.iter)
        if not item:
            reached = False
            break
        from capaudit.audit import assignments

        assignments.assign(frame, generator.target, item, generator.iter)
        for condition in generator.ifs:
            outcome = guards.test(frame, condition, condition)
            if outcome.true is not None:
                frame.narrow(outcome.true)
    kind = {ast.ListComp: "list", ast.SetComp: "set", ast.DictComp: "dict"}.get(type(node), "iterator")
    result: Value
    if isinstance(node, ast.DictComp):
        target = box("dict", site(frame, node), frame.tick)
        frame.machine.cell(target, "*")
        if reached and frame.env is not None:
            key = evaluate(frame, node.key)
            value = evaluate(frame, node.value)
            frame.machine.join_cell(frame.machine.cell(target, "#keys"), key)
            frame.machine.join_cell(frame.machine.cell(target, "*"), value)
        result = (target,)
    else:
        element = evaluate(frame, node.elt) if reached and frame.env is not None else NOTHING
        if kind == "iterator":
            result = sequence("iterator", element, taint)
        else:
            target = box(kind, site(frame, node), frame.tick)
            frame.machine.join_cell(frame.machine.cell(target, "*"), element)
            result = (target,)
    frame.env = before
    return result


def _walrus(frame: Frame, node: ast.NamedExpr) -> Value:
    value = evaluate(frame, node.value)
    frame.bind(node.target.id, value, node.value)
    return value


def _starred(frame: Frame, node: ast.Starred) -> Value:
    return evaluate(frame, node.value)


def _await(frame: Frame, node: ast.Await) -> Value:
    return evaluate(frame, node.value)


def _yield(frame: Frame, node: ast.Yield) -> Value:
    value = evaluate(frame, node.value) if node.value is not None else none
    context = frame.context
    context.items["yield-mode"] = context.items.get("yield-mode", frozenset()) | frame.mode
    context.yields = join(context.yields, value)
    return host("any")


def _yield_from(frame: Frame, node: ast.YieldFrom) -> Value:
    value = iterate(frame, evaluate(frame, node.value), node)
    frame.context.yields = join(frame.context.yields, value)
    return none


HANDLERS: dict[type[ast.expr], Callable[[Frame, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Set: _list,
    ast.Dict: _dict,
    ast.Slice: _slice,
    ast.Subscript: _subscript,
    ast.Call: _call,
    ast.Compare: _compare,
    ast.BoolOp: _bool_operation,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.IfExp: _conditional,
    ast.JoinedStr: _formatted,
    ast.Lambda: _lambda,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.NamedExpr: _walrus,
    ast.Starred: _starred,
    ast.Await: _await,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
}
