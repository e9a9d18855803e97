"""What the ORD rules share: one walk per file, parents, and which axis a name speaks of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

from capaudit.model import Confidence
from capaudit.program import Module
from capaudit.program.symbols import dotted_text

_N = TypeVar("_N", bound=ast.AST)
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.Module
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

_ACTUATOR = frozenset({"actuator", "actuators", "actuated", "ctrl", "ctrls", "motor", "motors"})
_JOINT = frozenset({"joint", "joints", "jnt", "dof", "dofs", "qpos", "qvel", "qacc"})
_BODY = frozenset({"body", "bodies", "link", "links"})


_LEAVES = frozenset([int, str, type(None), bool, float, bytes, ast.Load, ast.Store, ast.Del])
"""What no rule asks for: plain values, and the contexts that stand at every name."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where an order is lost; ``why`` holds the facts behind it."""

    node: ast.expr | ast.stmt
    message: str
    confidence: Confidence = Confidence.LIKELY
    why: tuple[str, ...] = ()


class SourceFile:
    """One module with its nodes by kind, in source order, and the parent of each."""

    def __init__(self, module: Module) -> None:
        self.module = module
        module.source.questions.literals[module.file] = None
        self.parents: dict[ast.AST, ast.AST] = {}
        self._by_kind: dict[type[ast.AST], list[ast.AST]] = {}
        self._sorted: set[type[ast.AST]] = set()
        parents, by_kind = self.parents, self._by_kind
        stack: list[ast.AST] = [module.tree]
        while stack:
            node = stack.pop()
            by_kind.setdefault(type(node), []).append(node)
            for value in node.__dict__.values():
                kind = type(value)
                if kind in _LEAVES:
                    continue
                if kind is list:
                    for child in value:
                        if isinstance(child, ast.AST):
                            parents[child] = node
                            stack.append(child)
                elif isinstance(value, ast.AST):
                    parents[value] = node
                    stack.append(value)

    def all(self, kind: type[_N]) -> list[_N]:
        """Every node of a kind, in source order."""
        found = self._by_kind.get(kind, [])
        if kind not in self._sorted:
            self._sorted.add(kind)
            found.sort(key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
        return found  # type: ignore[return-value]

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every ``def`` of the file."""
        return [*self.all(ast.FunctionDef), *self.all(ast.AsyncFunctionDef)]

    @cached_property
    def assignments(self) -> list[tuple[ast.Assign | ast.AnnAssign, ast.expr, ast.expr]]:
        """``(statement, target, value)`` of every assignment with a value, one per target."""
        plain = [(node, target, node.value) for node in self.all(ast.Assign) for target in node.targets]
        annotated = [(node, node.target, node.value) for node in self.all(ast.AnnAssign) if node.value is not None]
        return [*plain, *annotated]

    def function_of(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
        """The innermost function around a node."""
        found = self.parents.get(node)
        while found is not None and not isinstance(found, _SCOPES):
            found = self.parents.get(found)
        return found

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around a node."""
        found = self.parents.get(node)
        while found is not None and not isinstance(found, ast.ClassDef):
            found = self.parents.get(found)
        return found

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parents, innermost first."""
        found = self.parents.get(node)
        while found is not None:
            yield found
            found = self.parents.get(found)

    @cached_property
    def used_as_index(self) -> frozenset[str]:
        """Last parts of names that select elements somewhere in the file: in a subscript, or handed on as indices."""
        found: set[str] = set()
        for subscript in self.all(ast.Subscript):
            found |= {
                last_part(node) for node in ast.walk(subscript.slice) if isinstance(node, (ast.Name, ast.Attribute))
            }
        for call in self.all(ast.Call):
            callee = last_part(call.func)
            for keyword in call.keywords:
                if keyword.arg in ("joint_ids", "body_ids", "joint_indices", "body_indices", "dof_indices", "indices"):
                    found.add(last_part(keyword.value))
            if callee in ("index_select", "take", "take_along_axis", "gather", "index_copy_", "index_put_"):
                found |= {last_part(argument) for argument in call.args}
        found.discard("")
        return frozenset(found)

    def bound_values(self, name: str, scope: ast.AST) -> list[ast.expr]:
        """Every value that is assigned to a name or attribute (by its dotted text) below ``scope``."""
        found: list[ast.expr] = []
        for node, target, value in self.assignments:
            if self.is_below(node, scope):
                found.extend(part for text, part in unpacked(target, value) if text == name)
        return found

    def is_below(self, node: ast.AST, scope: ast.AST) -> bool:
        """Whether a node lies inside a scope."""
        return scope is self.module.tree or any(parent is scope for parent in self.ancestors(node))


def unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield ``(dotted text, value)`` of a target; parts of a tuple share its value where that is no tuple."""
    if isinstance(target, (ast.Tuple, ast.List)):
        parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else None
        for index, element in enumerate(target.elts):
            yield from unpacked(element, parts[index] if parts else value)
    elif isinstance(target, (ast.Name, ast.Attribute)):
        yield dotted_text(target), value


def last_part(node: ast.AST | None) -> str:
    """The last component of a name: ``joint_ids`` for ``self._robot.joint_ids[0]``; private marks are dropped."""
    while isinstance(node, (ast.Subscript, ast.Starred)):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def words(name: str) -> frozenset[str]:
    """Lower-case words of an identifier in any style."""
    return frozenset(part.lower() for part in re.split(r"[_\W]+|(?<=[a-z0-9])(?=[A-Z])", name) if part)


def axis_of(name: str) -> Literal["joint", "body", "actuator"] | None:
    """Which axis an identifier speaks of. ``actuator_joint_names`` follows the actuators."""
    found = words(name)
    if found & _ACTUATOR:
        return "actuator"
    if found & _JOINT:
        return "joint"
    return "body" if found & _BODY else None


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def is_constant(node: ast.expr | None, *values: object) -> bool:
    """Whether a node is one of these constants, compared by identity and kind."""
    return isinstance(node, ast.Constant) and any(node.value is value for value in values)


def int_list(node: ast.expr) -> list[int] | None:
    """The integers of a literal list or tuple, else ``None``."""
    if not isinstance(node, (ast.List, ast.Tuple)) or not node.elts:
        return None
    values = []
    for element in node.elts:
        if not isinstance(element, ast.Constant) or type(element.value) is not int:
            return None
        values.append(element.value)
    return values


def text(node: ast.AST) -> str:
    """Source-like text of a node, shortened."""
    shown = ast.unparse(node)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
