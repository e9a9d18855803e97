"""Configured orders, and models that are built only to learn names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from capaudit.audit.order_rules.support import Hit, SourceFile, is_constant, keyword_of, last_part, words
from capaudit.model import Confidence
from capaudit.program import Program
from capaudit.program.symbols import dotted_text

_FIELDS = ("joint_ordering", "body_ordering")
_MAKERS = frozenset(
    {
        "ModelBuilder",
        "from_xml_path",
        "from_xml_string",
        "from_file",
        "from_string",
        "Open",
        "add_usd",
        "add_mjcf",
        "add_urdf",
    }
)
_WALKS = frozenset({"GetChildren", "GetAllChildren", "children", "child_bodies", "childBodies"})


# -- ORD008 -------------------------------------------------------------------------------------------------------


def half_preset(file: SourceFile, program: Program) -> Iterator[Hit]:
    """Only one of ``joint_ordering`` and ``body_ordering`` is set."""
    for call in file.all(ast.Call):
        name = last_part(call.func)
        if name.endswith(("Cfg", "Config")) or name == "replace":
            given = {field: keyword_of(call, field) for field in _FIELDS}
            unpacks = any(keyword.arg is None for keyword in call.keywords)
            if not unpacks and (half := _half(given)) is not None:
                yield Hit(
                    call, _message(half, f"{name}(...)"), Confidence.LIKELY if name == "replace" else Confidence.CERTAIN
                )
    for mapping in file.all(ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in mapping.keys]
        given = {field: mapping.values[keys.index(field)] if field in keys else None for field in _FIELDS}
        if (half := _half(given)) is not None:
            yield Hit(mapping, _message(half, "the mapping"))
    yield from _assigned(file)


def _half(given: dict[str, ast.expr | None]) -> str | None:
    """Return the field that is set alone. A field that is set to None, or in the open, counts as not set."""
    wanted = [field for field, value in given.items() if value is not None and not is_constant(value, None)]
    absent = [field for field, value in given.items() if value is None]
    return wanted[0] if len(wanted) == 1 and len(absent) == 1 else None


def _message(field: str, where: str) -> str:
    other = _FIELDS[1 - _FIELDS.index(field)]
    return (
        f"{where} sets {field} and leaves {other} to the backend, so joints and bodies are in orders of two conventions"
    )


def _assigned(file: SourceFile) -> Iterator[Hit]:
    """``cfg.joint_ordering = "physx"`` without the other, in one function or class body."""
    groups: dict[tuple[ast.AST, str], dict[str, ast.stmt]] = {}
    for assign, target, value in file.assignments:
        name = last_part(target)
        if name not in _FIELDS:
            continue
        owner = dotted_text(target.value) if isinstance(target, ast.Attribute) else ""
        in_class = isinstance(file.parents.get(assign), ast.ClassDef)
        if owner in ("", "self") and not in_class:
            continue  # a local name, or an object that describes itself
        scope = file.parents[assign] if in_class else file.function_of(assign) or file.module.tree
        group = groups.setdefault((scope, owner), {})
        if is_constant(value, None):
            group.setdefault(f"{name}=None", assign)
        else:
            group[name] = assign
    for (_, owner), group in groups.items():
        chosen = [field for field in _FIELDS if field in group]
        if len(chosen) == 1 and len(group) == 1:
            yield Hit(group[chosen[0]], _message(chosen[0], owner or "the class"))


# -- ORD010 -------------------------------------------------------------------------------------------------------


def traversal_emulation(file: SourceFile, program: Program) -> Iterator[Hit]:
    """A function that builds a backend, or walks a tree, and returns nothing but names."""
    for function in file.functions:
        if not {"joint", "joints", "body", "bodies", "link", "links", "dof"} & words(function.name):
            continue
        if not {"names", "order", "ordering", "name"} & words(function.name):
            continue
        nodes = list(ast.walk(function))
        made = next((n for n in nodes if isinstance(n, ast.Call) and last_part(n.func) in _MAKERS), None)
        walked = next((n for n in nodes if isinstance(n, ast.Attribute) and n.attr in _WALKS), None)
        if (made is None and walked is None) or not _returns_names(nodes):
            continue
        what = f"builds a model ({last_part(made.func)})" if made is not None else "walks the tree"
        yield Hit(
            function,
            f"{function.name}() {what} only to learn names: it emulates a traversal that a backend may change",
        )


def _returns_names(nodes: list[ast.AST]) -> bool:
    returned = [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]
    if not returned:
        return False
    results = {value.id for value in returned if isinstance(value, ast.Name)}
    collected = [
        n.args[0]
        for n in nodes
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr == "append"
        and last_part(n.func.value) in results
        and n.args
    ]
    values = [*returned, *collected]
    spoken = [last_part(n) for value in values for n in ast.walk(value) if isinstance(n, (ast.Name, ast.Attribute))]
    return any({"name", "names", "order"} & words(name) for name in spoken)
