"""A finding's syntax: its node, what surrounds it, and exact source text for pieces of it."""

from __future__ import annotations

import ast
import re
from collections import deque
from dataclasses import dataclass, field

from capaudit.audit.fixes.facts import Facts
from capaudit.audit.verdicts import place_of
from capaudit.model import Finding, Place
from capaudit.program import FunctionInfo, Module, Program

_ODD_BREAKS = re.compile("[\\x0b\\x0c\\x1c-\\x1e\\x85\\u2028\\u2029]")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Tree:
    """Parents and places of one module's syntax."""

    def __init__(self, module: Module) -> None:
        self.module = module
        # Columns and lines are Python's only where nothing else counts as a line break.
        self.regular = not module.source.search(_ODD_BREAKS)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.by_line: dict[int, list[ast.AST]] = {}
        queue: deque[ast.AST] = deque(
            [module.tree]
        )  # in the order of ``ast.walk``, which takes more than twice as long
        while queue:
            node = queue.popleft()
            for value in node.__dict__.values():
                if isinstance(value, ast.AST):
                    self.parents[value] = node
                    queue.append(value)
                elif type(value) is list:
                    children = [child for child in value if isinstance(child, ast.AST)]
                    self.parents.update(dict.fromkeys(children, node))
                    queue.extend(children)
            if hasattr(node, "lineno"):
                self.by_line.setdefault(node.lineno, []).append(node)

    def find(self, place: Place, kind: type[ast.AST]) -> ast.AST | None:
        """Return the node of ``kind`` that begins at a place and ends there or, for a statement, with it."""
        end = (place.end_line, place.end_column)
        for node in self.by_line.get(place.line, ()):
            if not isinstance(node, kind):
                continue
            found = place_of(self.module, node)
            if found.column != place.column:
                continue
            inner = place_of(self.module, node.value) if isinstance(node, ast.Assign) else found
            if end in ((found.end_line, found.end_column), (inner.end_line, inner.end_column)):
                return node
        return None


@dataclass(slots=True)
class Site:
    """One finding in its module, with the facts that the engine has about the code around it."""

    finding: Finding
    tree: Tree
    facts: Facts
    program: Program
    capture: str
    owned: dict[FunctionInfo, tuple[str, str]]
    _dependencies: dict[ast.AST, dict[str, list[ast.expr]]] = field(default_factory=dict)

    @property
    def module(self) -> Module:
        return self.tree.module

    def node(self, kind: type[ast.AST]) -> ast.AST | None:
        return self.tree.find(self.finding.place, kind)

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self.tree.parents.get(node)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.stmt):
            current = self.parent(current)
        return current

    def definition(self, node: ast.AST) -> Definition | None:
        """Return the innermost function around a node."""
        current = self.parent(node)
        while current is not None and not isinstance(current, Definition):
            current = self.parent(current)
        return current

    def place(self, node: ast.AST) -> Place:
        return place_of(self.module, node)

    def text(self, node: ast.AST) -> str:
        """The exact source of a node, comments and line breaks included."""
        return between(self.module, self.place(node))

    def operand(self, node: ast.expr) -> str:
        """The source of a node, in parentheses unless an attribute may follow it as it is."""
        text = self.text(node)
        return text if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) else f"({text})"

    def torch_name(self) -> str | None:
        """How the module calls ``torch``, or ``None`` where it does not import it at its top."""
        for name, imported in self.module.imports.items():
            if imported.module == "torch" and imported.attribute is None:
                return name
        return None

    def parameters(self, node: ast.expr) -> dict[str, ast.expr | None]:
        """Return the parameters that an expression's value may come from, with their annotations.

        Follows the assignments of its function whatever their order; ``self`` counts as none: what its
        attributes hold is known wherever it is bound.
        """
        definition = self.definition(node)
        if definition is None:
            return {}
        arguments = definition.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
        known = {each.arg: each.annotation for each in every}
        if arguments.args and arguments.args[0].arg in ("self", "cls"):
            known.pop(arguments.args[0].arg)
        if definition not in self._dependencies:
            self._dependencies[definition] = _bindings(definition)
        bindings = self._dependencies[definition]
        seen: dict[str, None] = {}
        queue = [name.id for name in ast.walk(node) if isinstance(name, ast.Name)]
        for name in queue:
            if name in seen:
                continue
            seen[name] = None
            for source in bindings.get(name, ()):
                queue += [inner.id for inner in ast.walk(source) if isinstance(inner, ast.Name)]
        return {name: known[name] for name in seen if name in known}

    def assigned_once(self, name: ast.Name) -> ast.expr | None:
        """Return the one value that a local name is ever bound to, by a plain assignment."""
        definition = self.definition(name)
        if definition is None:
            return None
        stores = [
            node
            for node in ast.walk(definition)
            if isinstance(node, ast.Name) and node.id == name.id and not isinstance(node.ctx, ast.Load)
        ]
        arguments = definition.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        if len(stores) != 1 or any(argument is not None and argument.arg == name.id for argument in every):
            return None
        parent = self.parent(stores[0])
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and parent.targets[0] is stores[0]:
            return parent.value
        return None

    def attribute_bindings(self, node: ast.Attribute) -> list[ast.expr]:
        """Return everything that ``self.name`` is ever bound to; empty where that cannot be told.

        Every binding of an attribute of that name has to stand in methods of the same class, in this
        module: one that another object or a subclass makes could be meant as well.
        """
        holder = self.holder(node)
        if holder is None or holder.cls is None:
            return []
        found: list[ast.expr] = []
        for module in self.program.modules.values():
            if node.attr not in module.source:
                continue
            for other in ast.walk(module.tree):
                named = isinstance(other, ast.Constant) and other.value == node.attr
                if named or (isinstance(other, ast.FunctionDef) and other.name == node.attr):
                    return []  # set by name, or a property
                if not isinstance(other, ast.Attribute) or other.attr != node.attr or isinstance(other.ctx, ast.Load):
                    continue
                function = self.holder(other) if module is self.module else None
                bound = self.parent(other)
                if function is None or function.cls is not holder.cls or not isinstance(other.value, ast.Name):
                    return []
                if isinstance(bound, ast.AugAssign):
                    continue  # in place: neither axes nor elements change
                if not isinstance(bound, (ast.Assign, ast.AnnAssign)) or bound.value is None:
                    return []
                if isinstance(bound, ast.Assign) and bound.targets != [other]:
                    return []
                self.facts.cover(function)
                found.append(bound.value)
        return found

    def holder(self, node: ast.AST) -> FunctionInfo | None:
        """Return the function of the program around a node of this module."""
        definition = self.definition(node)
        return next((function for function in self.module.all_functions if function.node is definition), None)


def _bindings(definition: Definition) -> dict[str, list[ast.expr]]:
    """What each local name is bound to, by assignment, loop, with or walrus."""
    found: dict[str, list[ast.expr]] = {}

    def bind(target: ast.AST, value: ast.expr) -> None:
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                found.setdefault(name.id, []).append(value)

    for node in ast.walk(definition):
        match node:
            case ast.Assign():
                for target in node.targets:
                    bind(target, node.value)
            case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
                if node.value is not None:
                    bind(node.target, node.value)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                bind(node.target, node.iter)
            case ast.withitem() if node.optional_vars is not None:
                bind(node.optional_vars, node.context_expr)
            case _:
                pass
    return found


def between(module: Module, place: Place) -> str:
    """The source text of a span."""
    lines = module.lines
    if place.line == place.end_line:
        return lines[place.line - 1][place.column - 1 : place.end_column - 1]
    first = lines[place.line - 1][place.column - 1 :]
    last = lines[place.end_line - 1][: place.end_column - 1]
    return "\n".join([first, *lines[place.line : place.end_line - 1], last])


def is_tensor_annotation(annotation: ast.expr | None) -> bool:
    """Whether an annotation admits a tensor and nothing else."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.strip() in ("torch.Tensor", "Tensor")
    return isinstance(annotation, (ast.Name, ast.Attribute)) and ast.unparse(annotation) in ("torch.Tensor", "Tensor")


def is_pure(node: ast.expr) -> bool:
    """Whether evaluating an expression twice, or later, gives the same and does nothing else."""
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute():
            return is_pure(node.value)
        case ast.Subscript():
            return is_pure(node.value) and is_pure(node.slice)
        case ast.UnaryOp():
            return is_pure(node.operand)
        case _:
            return False


def same(left: ast.expr, right: ast.expr) -> bool:
    """Whether two expressions read alike."""
    return ast.dump(left) == ast.dump(right)
