"""Looking names up: options that nobody forwards, slices by count, and lists whose order is not kept."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from capaudit.audit.order_rules.support import (
    Hit,
    SourceFile,
    axis_of,
    is_constant,
    keyword_of,
    last_part,
    text,
    words,
)
from capaudit.model import Confidence
from capaudit.program import ClassInfo, Program
from capaudit.program.symbols import dotted_text

_OPTION = "preserve_order"


# -- ORD001 -------------------------------------------------------------------------------------------------------


def dead_preserve_order(file: SourceFile, program: Program) -> Iterator[Hit]:
    """A ``preserve_order`` option that is declared and never forwarded, or set where it is ignored."""
    for cls in file.module.all_classes:
        field = _declared(cls)
        if field is not None and not _is_read(cls, program):
            yield Hit(
                field,
                f"{cls.qualname}.{_OPTION} is declared and nothing reads it, so who sets it gets the asset's order all "
                "the same",
            )
    for call in file.all(ast.Call):
        value = keyword_of(call, _OPTION)
        if is_constant(value, True):
            made = _class_named(last_part(call.func), file, program)
            line = _line_of(made, program) if made is not None else iter(())
            dead = next((c for c in line if _declared(c) is not None), None)
            if dead is not None and not _is_read(dead, program):
                yield Hit(call, f"{_OPTION}=True is set, and {dead.qualname} ignores it")
    yield from _unused_parameters(file)
    yield from _half_forwarded(file)


def _declared(cls: ClassInfo) -> ast.stmt | None:
    for statement in cls.node.body:
        targets = (
            [statement.target]
            if isinstance(statement, ast.AnnAssign)
            else statement.targets
            if isinstance(statement, ast.Assign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == _OPTION for target in targets):
            return statement
    return None


def _class_named(name: str, file: SourceFile, program: Program) -> ClassInfo | None:
    if not name:
        return None
    own = file.module.classes.get(name)
    if own is not None:
        return own
    found = [
        module.classes[name] for module in program.modules.values() if name in module.source and name in module.classes
    ]
    return found[0] if len(found) == 1 else None


def _line_of(cls: ClassInfo, program: Program) -> Iterator[ClassInfo]:
    """A class and its bases, by name and as far as the program shows them."""
    queue, seen = [cls], {cls.owner}
    for found in queue:
        yield found
        for base in found.node.bases:
            name = dotted_text(base.value if isinstance(base, ast.Subscript) else base).rpartition(".")[2]
            for module in (found.module, *program.modules.values()):
                candidate = module.classes.get(name) if name in module.source else None
                if candidate is not None and candidate.owner not in seen:
                    seen.add(candidate.owner)
                    queue.append(candidate)
                    break


def _heirs(cls: ClassInfo, program: Program) -> list[ClassInfo]:
    found = [cls]
    for one in found:
        found.extend(heir for heir in program.candidates_for_base(one.name) if heir not in found)
    return found


def _is_read(cls: ClassInfo, program: Program) -> bool:
    """Whether somebody reads the option of this class: itself, its heirs, or a module that speaks of one of them."""
    heirs = _heirs(cls, program)
    names = {heir.name for heir in heirs}
    own = {heir.owner for heir in [*heirs, *_line_of(cls, program)]}
    for module in program.modules.values():
        if f".{_OPTION}" not in module.source and f'"{_OPTION}"' not in module.source:
            continue
        speaks = any(name in module.source for name in names) or module is cls.module
        module.source.questions.literals[module.file] = None
        for reader, receiver in _reads(module.tree):
            if receiver == "self":
                if reader is not None and f"{module.name}.{reader}" in own:
                    return True
            elif speaks:
                return True
    return False


def _reads(tree: ast.Module) -> Iterator[tuple[str | None, str]]:
    """Yield ``(class, receiver)`` of every read: the class around it and the dotted text before the option."""
    stack: list[tuple[ast.AST, str | None]] = [(tree, None)]
    while stack:
        node, cls = stack.pop()
        if isinstance(node, ast.ClassDef):
            cls = f"{cls}.{node.name}" if cls else node.name
        if isinstance(node, ast.Attribute) and node.attr == _OPTION and isinstance(node.ctx, ast.Load):
            yield cls, dotted_text(node.value) or "?"
        if isinstance(node, ast.Call) and last_part(node.func) == "getattr" and len(node.args) > 1:
            yield from (
                [(cls, dotted_text(node.args[0]) or "?")] if getattr(node.args[1], "value", "") == _OPTION else []
            )
        stack.extend((child, cls) for child in ast.iter_child_nodes(node))


def _unused_parameters(file: SourceFile) -> Iterator[Hit]:
    for function in file.functions:
        arguments = [*function.args.args, *function.args.kwonlyargs, *function.args.posonlyargs]
        argument = next((a for a in arguments if a.arg == _OPTION), None)
        if argument is None or _is_stub(function):
            continue
        if not any(
            isinstance(node, ast.Name) and node.id == _OPTION and isinstance(node.ctx, ast.Load)
            for node in ast.walk(function)
        ):
            yield Hit(function, f"{function.name}() takes {_OPTION} and never looks at it", Confidence.CERTAIN)


def _is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Protocols, overloads, abstract methods, and those that only say that they do not serve this."""
    body = [
        statement
        for statement in function.body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        and not isinstance(statement, (ast.Pass, ast.Delete))
    ]
    if any(last_part(decorator) in ("overload", "abstractmethod") for decorator in function.decorator_list):
        return True
    return all(
        isinstance(statement, ast.Raise)
        or (isinstance(statement, (ast.Expr, ast.Return)) and "unsupported" in ast.unparse(statement).lower())
        for statement in body
    )


def _half_forwarded(file: SourceFile) -> Iterator[Hit]:
    """One branch hands the option on, its sibling looks up the same names without it."""
    by_function: dict[ast.AST, list[ast.Call]] = {}
    for call in file.all(ast.Call):
        name = last_part(call.func)
        if call.args and name.startswith(("find_", "resolve_matching_names")):
            function = file.function_of(call)
            if function is not None:
                by_function.setdefault(function, []).append(call)
    for calls in by_function.values():
        forwarded = [c for c in calls if last_part(keyword_of(c, _OPTION)) == _OPTION]
        for call in calls:
            if keyword_of(call, _OPTION) is not None or len(call.args) > 2:
                continue
            twin = next((c for c in forwarded if ast.dump(c.args[0]) == ast.dump(call.args[0])), None)
            if twin is not None and file.parents.get(call) is not file.parents.get(twin):
                yield Hit(
                    call,
                    f"{text(call.func)}() does not get {_OPTION}, which {text(twin.func)}() gets for the same names in "
                    "another branch",
                )


# -- ORD002 -------------------------------------------------------------------------------------------------------


def slice_by_count(file: SourceFile, program: Program) -> Iterator[Hit]:
    """``ids = slice(None)`` because as many names were found as there are, whatever their order."""
    for branch in file.all(ast.If):
        found = _whole_slice(branch.body)
        if found is None or not _compares_counts(branch.test) or _looks_at_order(branch.test):
            continue
        target, assignment = found
        origin = _lookup_of(file, branch, target)
        message = (
            f"{target} becomes slice(None) because the counts match ({text(branch.test)}); the order was not compared"
        )
        if origin is None:
            yield Hit(assignment, message)
        elif keyword_of(origin, _OPTION) is not None and not is_constant(keyword_of(origin, _OPTION), False):
            yield Hit(
                assignment,
                message,
                Confidence.CERTAIN if is_constant(keyword_of(origin, _OPTION), True) else Confidence.LIKELY,
                (f"line {origin.lineno}: {text(origin)} may return the names in the order that was asked for",),
            )
        else:
            yield Hit(
                assignment,
                message,
                Confidence.POSSIBLE,
                (f"line {origin.lineno}: {text(origin)} returns the asset's order, so all of them are all in order",),
            )


def _whole_slice(body: list[ast.stmt]) -> tuple[str, ast.stmt] | None:
    for statement in body:
        if isinstance(statement, ast.Assign) and _is_whole_slice(statement.value):
            target = dotted_text(statement.targets[0])
            if target and "env" not in words(target) and "world" not in words(target):
                return target, statement
    return None


def _is_whole_slice(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and last_part(node.func) == "slice" and all(is_constant(a, None) for a in node.args)
    )


def _conjuncts(test: ast.expr) -> list[ast.expr]:
    return list(test.values) if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _compares_counts(test: ast.expr) -> bool:
    return any(_is_count_comparison(part) for part in _conjuncts(test))


def _is_count_comparison(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    sides = (test.left, test.comparators[0])
    axes = {axis_of(part) for side in sides for part in _identifiers(side)}
    envs = any({"env", "envs", "world", "worlds"} & words(part) for side in sides for part in _identifiers(side))
    return all(_is_count(side) for side in sides) and bool(axes - {None}) and not envs


def _identifiers(node: ast.expr) -> list[str]:
    return [last_part(part) for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute))]


def _is_count(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return last_part(node.func) == "len"
    name = last_part(node)
    is_short = name.startswith("n") and axis_of(name[1:]) is not None  # njoints
    return is_short or bool({"num", "n", "count", "total"} & words(name))


def _looks_at_order(test: ast.expr) -> bool:
    """Whether another condition compares names or order, or asks for the option."""
    for part in _conjuncts(test):
        if _is_count_comparison(part):
            continue
        if isinstance(part, ast.Compare) or any(
            _OPTION in name or "order" in words(name) for name in _identifiers(part)
        ):
            return True
    return False


def _lookup_of(file: SourceFile, branch: ast.If, target: str) -> ast.Call | None:
    """The ``find_*`` call that the indices come from, in the same function."""
    function = file.function_of(branch)
    calls = [
        call
        for call in file.all(ast.Call)
        if last_part(call.func).startswith("find_")
        and call.lineno < branch.lineno
        and file.function_of(call) is function
    ]
    names = {target, *(dotted_text(n) for n in ast.walk(branch.test) if isinstance(n, (ast.Name, ast.Attribute)))}
    for call in reversed(calls):
        statement = next((p for p in file.ancestors(call) if isinstance(p, ast.stmt)), None)
        if isinstance(statement, ast.Assign):
            bound = {
                dotted_text(n)
                for t in statement.targets
                for n in ast.walk(t)
                if isinstance(n, (ast.Name, ast.Attribute))
            }
            if bound & names:
                return call
    return None


# -- ORD003 -------------------------------------------------------------------------------------------------------


def unordered_literal_lookup(file: SourceFile, program: Program) -> Iterator[Hit]:
    """Two or more literal names are looked up without ``preserve_order``, and the result selects elements."""
    for call in file.all(ast.Call):
        name = last_part(call.func)
        if name not in ("find_joints", "find_bodies") or len(call.args) > 2:
            continue
        option = keyword_of(call, _OPTION)
        if option is not None and not is_constant(option, False):
            continue
        names = call.args[0] if call.args else keyword_of(call, "name_keys") or keyword_of(call, "joint_names")
        listed = _literal_names(file, call, names)
        if listed is None or len(listed) < 2:
            continue
        statement = next((p for p in file.ancestors(call) if isinstance(p, ast.stmt)), None)
        used = _used_as_index(file, call, statement)
        message = (
            f"{name}() returns {len(listed)} listed names in the asset's order, not in the order of the list, "
            "and the result selects elements"
        )
        if used:
            yield Hit(call, message, Confidence.LIKELY, (f"the list begins with {', '.join(map(repr, listed[:3]))}",))
        else:
            yield Hit(call, f"{name}() returns {len(listed)} listed names in the asset's order", Confidence.POSSIBLE)


def _literal_names(file: SourceFile, call: ast.Call, node: ast.expr | None) -> list[str] | None:
    if isinstance(node, (ast.Name, ast.Attribute)):
        function = file.function_of(call)
        name = dotted_text(node)
        values = file.bound_values(name, function) if function is not None else []
        values = values or file.bound_values(name, file.module.tree)
        if len(values) != 1:
            return None
        node = values[0]
    if not isinstance(node, (ast.List, ast.Tuple)):
        return None
    names = [element.value for element in node.elts if isinstance(element, ast.Constant)]
    return [n for n in names if isinstance(n, str)] if len(names) == len(node.elts) else None


def _used_as_index(file: SourceFile, call: ast.Call, statement: ast.stmt | None) -> bool:
    for parent in file.ancestors(call):
        if isinstance(parent, ast.Subscript) and any(node is call for node in ast.walk(parent.slice)):
            return True
        if isinstance(parent, ast.keyword) and parent.arg in ("joint_ids", "body_ids"):
            return True
        if isinstance(parent, ast.stmt):
            break
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    for target in targets:
        elements = target.elts[:1] if isinstance(target, (ast.Tuple, ast.List)) else [target]
        if any(last_part(element) in file.used_as_index for element in elements):
            return True
    return False
