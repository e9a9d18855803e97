"""Orders written down as numbers, and orders invented where none was found."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from capaudit.audit.order_rules.support import Hit, SourceFile, axis_of, int_list, is_constant, last_part, text, words
from capaudit.model import Confidence
from capaudit.program import Program
from capaudit.program.symbols import dotted_text

_SHORTEST = 6
_MAPPING = frozenset({"to", "perm", "permutation", "order", "ordering", "reorder", "map", "mapping", "remap", "2"})
_MAKERS = frozenset({"tensor", "as_tensor", "array", "asarray", "LongTensor", "IntTensor"})


# -- ORD004 -------------------------------------------------------------------------------------------------------


def literal_permutation(file: SourceFile, program: Program) -> Iterator[Hit]:
    """A literal list that permutes ``range(n)``, n >= 6, and selects elements."""
    for node in (*file.all(ast.List), *file.all(ast.Tuple)):
        values = int_list(node)
        if values is None or len(values) < _SHORTEST or sorted(values) != list(range(len(values))):
            continue
        if values == sorted(values):
            continue
        use = _use(file, node)
        if use is not None:
            yield Hit(
                node,
                f"a permutation of {len(values)} places is written down as numbers and {use}: it stays behind when the "
                "asset or the backend changes its order",
            )


def _use(file: SourceFile, node: ast.expr) -> str | None:
    """Say how a literal selects elements, or ``None`` where it does not."""
    parent = file.parents.get(node)
    while isinstance(parent, (ast.Tuple, ast.Call, ast.keyword)) and not isinstance(parent, ast.stmt):
        if isinstance(parent, ast.Call) and last_part(parent.func) in ("index_select", "take", "gather", "transpose_"):
            return f"handed to {last_part(parent.func)}()"
        if isinstance(parent, ast.Call) and last_part(parent.func) not in _MAKERS | {"list", "tuple"}:
            return None
        parent = file.parents.get(parent)
    if isinstance(parent, ast.Subscript):
        return "used as an index"
    targets: list[ast.expr] = []
    if isinstance(parent, ast.Assign):
        targets = parent.targets
    elif isinstance(parent, ast.AnnAssign):
        targets = [parent.target]
    for target in targets:
        name = last_part(target)
        if name in file.used_as_index or _made_into_index(file, name):
            return f"used as an index ({name})"
        if words(name) & _MAPPING and (axis_of(name) is not None or "to" in words(name)):
            return f"named like a map ({name})"
    return None


def _made_into_index(file: SourceFile, name: str) -> bool:
    """Whether a name is turned into a tensor or array that selects elements."""
    for call in file.all(ast.Call):
        if last_part(call.func) in _MAKERS and any(last_part(argument) == name for argument in call.args):
            statement = next((p for p in file.ancestors(call) if isinstance(p, ast.stmt)), None)
            if isinstance(statement, ast.Assign) and any(
                last_part(target) in file.used_as_index for target in statement.targets
            ):
                return True
            if any(isinstance(p, ast.Subscript) for p in file.ancestors(call)):
                return True
    return False


# -- ORD005 -------------------------------------------------------------------------------------------------------


def literal_joint_indices(file: SourceFile, program: Program) -> Iterator[Hit]:
    """Literal index sets on a joint axis."""
    for subscript in file.all(ast.Subscript):
        name = last_part(subscript.value)
        if not {"joint", "joints", "dof", "dofs"} & words(name) or axis_of(name) != "joint":
            continue
        parts = subscript.slice.elts if isinstance(subscript.slice, ast.Tuple) else [subscript.slice]
        for part in parts:
            values = int_list(part)
            if values is not None and len(values) > 1 and (isinstance(part, ast.List) or part is not subscript.slice):
                yield Hit(subscript, f"{name} is indexed by the literal places {text(part)}", Confidence.LIKELY)
    for call in file.all(ast.Call):
        for keyword in call.keywords:
            if keyword.arg in ("joint_ids", "joint_indices", "dof_ids", "dof_indices"):
                values = int_list(keyword.value)
                if values:
                    yield Hit(keyword.value, f"{keyword.arg} are the literal places {text(keyword.value)}")
    for assign, target, value in file.assignments:
        name = last_part(target)
        is_index = {"ids", "idx", "indices", "index", "idxs", "inds"} & words(name)
        values = int_list(value)
        if not is_index or axis_of(name) != "joint" or values is None or len(values) < 2:
            continue
        if len(values) < _SHORTEST or sorted(values) != list(range(len(values))) or values == sorted(values):
            yield Hit(assign, f"{name} are the literal places {text(value)}")  # a long permutation is ORD004's


# -- ORD011 -------------------------------------------------------------------------------------------------------


def missing_as_identity(file: SourceFile, program: Program) -> Iterator[Hit]:
    """A joint map that is invented where none was found, or one that drops what it does not know."""
    for assign, target, value in file.assignments:
        name = last_part(target)
        # What is stored into a part of an array numbers something; it is no map.
        if isinstance(target, (ast.Name, ast.Attribute)) and _falls_to_identity(value) and _is_joint_map(name, value):
            yield Hit(assign, f"{name} is the identity, whatever the two orders are")
    for branch in file.all(ast.IfExp):
        yield from _silent_default(file, branch)


def missing_as_identity_possibly(file: SourceFile, program: Program) -> Iterator[Hit]:
    """Defaults and filters that some code uses on purpose."""
    for call in file.all(ast.Call):
        yield from _default_of_get(file, call)
    for comprehension in file.all(ast.ListComp):
        yield from _dropped(comprehension, comprehension.elt)
    for mapping in file.all(ast.DictComp):
        yield from _dropped(mapping, mapping.value)
    for loop in file.all(ast.For):
        yield from _dropped_in_loop(loop)


def _falls_to_identity(value: ast.expr) -> bool:
    """Whether a value is the identity, at least where its alternative is missing (``order or list(range(n))``)."""
    if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or):
        return _is_identity_range(value.values[-1])
    if isinstance(value, ast.IfExp):
        return _is_identity_range(value.body) or _is_identity_range(value.orelse)
    return _is_identity_range(value)


def _is_identity_range(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call):
        return False
    if last_part(value.func) in ("list", "tuple") and len(value.args) == 1:
        inner = value.args[0]
        return isinstance(inner, ast.Call) and last_part(inner.func) == "range" and len(inner.args) == 1
    return last_part(value.func) in ("arange",) and len(value.args) == 1


def _is_joint_map(name: str, value: ast.expr) -> bool:
    found = words(name)
    if not found & _MAPPING:
        return False
    counted = [last_part(node) for node in ast.walk(value) if isinstance(node, (ast.Name, ast.Attribute))]
    return any(axis_of(part) is not None for part in (name, *counted))


def _silent_default(file: SourceFile, branch: ast.IfExp) -> Iterator[Hit]:
    """``names.index(n) if n in names else 0``: a name that is missing gets a place all the same."""
    test = branch.test
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.In)):
        return
    looked_up = branch.body
    where = ""
    if (
        isinstance(looked_up, ast.Call)
        and last_part(looked_up.func) == "index"
        and isinstance(looked_up.func, ast.Attribute)
    ):
        where = last_part(looked_up.func.value)
    elif isinstance(looked_up, ast.Subscript):
        where = last_part(looked_up.value)
    if (
        not where
        or axis_of(where) is None
        or ast.dump(test.comparators[0])
        != ast.dump(
            looked_up.func.value
            if isinstance(looked_up, ast.Call) and isinstance(looked_up.func, ast.Attribute)
            else looked_up.value
            if isinstance(looked_up, ast.Subscript)
            else looked_up
        )
    ):
        return
    other = branch.orelse
    if isinstance(other, (ast.Name, ast.Constant)) and not is_constant(other, None):
        if isinstance(other, ast.Constant) and type(other.value) is not int:
            return
        yield Hit(branch, f"a name that {where} does not have gets the place {text(other)}")


def _default_of_get(file: SourceFile, call: ast.Call) -> Iterator[Hit]:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "get" or len(call.args) != 2:
        return
    owner, default = last_part(call.func.value), call.args[1]
    if axis_of(owner) is None or not words(owner) & {"index", "idx", "id", "ids", "indices", "to", "map", "mapping"}:
        return
    if isinstance(default, ast.Name) or (isinstance(default, ast.Constant) and type(default.value) is int):
        yield Hit(call, f"a name that {owner} does not have gets the place {text(default)}", Confidence.POSSIBLE)


def _dropped(node: ast.ListComp | ast.DictComp, element: ast.expr) -> Iterator[Hit]:
    """``[places[n] for n in names if n in places]``: unmatched names vanish."""
    generator = node.generators[-1]
    where = _looked_up(element)
    by_name = "name" in f"{ast.unparse(generator.iter)} {ast.unparse(generator.target)}".lower()
    if where and by_name and any(_is_membership(condition, where) for condition in generator.ifs):
        yield Hit(node, f"names that {where} does not have are dropped without a word", Confidence.POSSIBLE)


def _dropped_in_loop(loop: ast.For) -> Iterator[Hit]:
    """The same as a loop: ``for n in names: if n in there: places.append(there.index(n))``."""
    if "name" not in f"{ast.unparse(loop.iter)} {ast.unparse(loop.target)}".lower():
        return
    for statement in loop.body:
        if not isinstance(statement, ast.If) or statement.orelse:
            continue
        for inner in statement.body:
            call = inner.value if isinstance(inner, ast.Expr) else None
            if isinstance(call, ast.Call) and last_part(call.func) == "append" and len(call.args) == 1:
                where = _looked_up(call.args[0])
                if where and _is_membership(statement.test, where):
                    yield Hit(
                        statement, f"names that {where} does not have are dropped without a word", Confidence.POSSIBLE
                    )


def _looked_up(element: ast.expr) -> str:
    """The joint or body lookup behind ``there[n]`` or ``there.index(n)``, as dotted text."""
    looked_up = ""
    if isinstance(element, ast.Subscript):
        looked_up = dotted_text(element.value)
    elif isinstance(element, ast.Call) and isinstance(element.func, ast.Attribute) and element.func.attr == "index":
        looked_up = dotted_text(element.func.value)
    return looked_up if axis_of(looked_up.rpartition(".")[2]) is not None else ""


def _is_membership(test: ast.expr, where: str) -> bool:
    return (
        isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In) and dotted_text(test.comparators[0]) == where
    )
