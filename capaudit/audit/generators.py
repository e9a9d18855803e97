"""Which generators the program makes and surely never registers with a graph.

Registration stands in set-up code that no boundary reaches, so it is read from the text of the whole program. A
generator counts as unregistered only where every use of the name that holds it is seen: it draws, it is asked or told
something, it goes on to another name. One that is handed to a call, kept in a container or returned may be registered
anywhere and is left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from capaudit.program import Program
from capaudit.program.symbols import Module

REGISTERING = "register_generator_state"
_READERS = ("getattr", "setattr", "hasattr", "attrgetter", "delattr")
_FORWARDERS = ("partial", "partialmethod")


@dataclass(frozen=True, slots=True)
class _Holder:
    """A name that holds a generator.

    ``owner``: for ``self.x`` the family of its class, for a local the outermost function around it, ``None`` for what
    may belong to anybody: ``tick.x`` and names of a module.
    """

    name: str
    kind: str  # "attribute", "local" or "module"
    owner: object = None

    def may_be(self, other: _Holder) -> bool:
        if self.name != other.name:
            return False
        if {self.kind, other.kind} == {"local", "attribute"}:
            return False
        return self.owner is None or other.owner is None or self.owner == other.owner


@dataclass(slots=True)
class _Uses:
    """What the program does with the names that hold generators."""

    created: list[tuple[ast.Call, tuple[_Holder, ...]]] = field(default_factory=list)
    registered: list[_Holder] = field(default_factory=list)
    escaped: list[_Holder] = field(default_factory=list)
    aliases: list[tuple[_Holder, _Holder]] = field(default_factory=list)
    read_by_name: set[str] = field(default_factory=set)


def registers_generators(program: Program) -> bool:
    """Whether the program registers any generator with a graph."""
    return any(_registrations(module) for module in program.modules.values())


class Unregistered:
    """The calls that ``unregistered_generators`` returns, looked for when an audit first meets a generator."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._calls: frozenset[ast.Call] | None = None

    def __contains__(self, call: object) -> bool:
        if self._calls is None:
            self._calls = unregistered_generators(self._program)
        return call in self._calls


def unregistered_generators(program: Program) -> frozenset[ast.Call]:
    """Return the calls of ``Generator`` whose result is surely registered with no graph."""
    modules = [module for module in program.modules.values() if "Generator(" in module.source]
    created = [(module, call, targets) for module in modules for call, targets in _creations(module)]
    if not created:
        return frozenset()
    reader = _Reader(program, {_last(target) for _, _, targets in created for target in targets})
    uses = reader.read()
    return frozenset(call for call, holders in uses.created if not _may_be_registered(holders, uses))


def _may_be_registered(holders: tuple[_Holder, ...], uses: _Uses) -> bool:
    reached = list(holders)
    for holder in reached:  # grows while it is read
        if holder.name in uses.read_by_name:
            return True
        if any(holder.may_be(other) for other in (*uses.registered, *uses.escaped)):
            return True
        for one, other in uses.aliases:
            if holder.may_be(one) and other not in reached:
                reached.append(other)
            if holder.may_be(other) and one not in reached:
                reached.append(one)
    return False


def _registrations(module: Module) -> bool:
    if f"{REGISTERING}(" not in module.source:
        return False
    return any(isinstance(node, ast.Call) and _last(node.func) == REGISTERING for node in ast.walk(module.tree))


def _creations(module: Module) -> Iterator[tuple[ast.Call, list[ast.expr]]]:
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and (call := _creation(node)) is not None:
            yield call, _targets(node)


def _creation(node: ast.Assign | ast.AnnAssign) -> ast.Call | None:
    """The call that makes the generator which an assignment gives to names."""
    value = node.value
    if isinstance(value, ast.Call) and _last(value.func) == "Generator" and all(map(_last, _targets(node))):
        return value
    return None


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


class _Reader:
    """Walks every module that mentions one of the names; names that those flow to are added, and it walks again."""

    def __init__(self, program: Program, names: set[str]) -> None:
        self.program = program
        self.names = names
        self.families = _families(program)
        self.own = {function.name for module in program.modules.values() for function in module.all_functions}
        self.own |= {cls.name for module in program.modules.values() for cls in module.all_classes}

    def read(self) -> _Uses:
        while True:
            before = set(self.names)
            uses = _Uses()
            mentioned = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(before)))})\b")
            for module in self.program.modules.values():
                if module.source.search(mentioned) is not None:
                    self._walk(module.tree, uses)
            if self.names == before:
                return uses

    def _walk(self, tree: ast.Module, uses: _Uses) -> None:
        stack: list[tuple[ast.AST, ast.AST | None, ast.AST | None, _Scope]] = [(tree, None, None, _Scope())]
        while stack:
            node, parent, above, scope = stack.pop()
            if isinstance(node, ast.ClassDef):
                scope = _Scope(self.families.get(node))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and scope.function is None:
                scope = _Scope(scope.family, node)
            elif isinstance(node, ast.Call):
                self._call(node, scope, uses)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                self._assignment(node, scope, uses)
            elif isinstance(node, (ast.Name, ast.Attribute)) and self._escapes(node, parent, above):
                uses.escaped.append(scope.holder(node))
            stack.extend((child, node, parent, scope) for child in ast.iter_child_nodes(node))

    def _escapes(self, node: ast.Name | ast.Attribute, parent: ast.AST | None, above: ast.AST | None) -> bool:
        return isinstance(node.ctx, ast.Load) and _last(node) in self.names and not self._is_kept(node, parent, above)

    def _is_kept(self, node: ast.expr, parent: ast.AST | None, above: ast.AST | None) -> bool:
        """Whether a read hands the generator to nobody: what it goes on to as an alias is followed elsewhere."""
        if isinstance(parent, ast.keyword) and isinstance(above, ast.Call):
            callee = _last(above.func)
            known = bool(callee) and callee not in self.own and callee not in _FORWARDERS
            return callee == REGISTERING or (known and parent.arg == "generator")
        if isinstance(parent, ast.Call):
            return _last(parent.func) == REGISTERING and node in parent.args
        if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            return parent.test is node
        if isinstance(parent, ast.UnaryOp):
            return isinstance(parent.op, ast.Not)
        # An attribute of it, a comparison (with None), a statement of its own, or another name.
        return isinstance(parent, (ast.Attribute, ast.Compare, ast.Expr, ast.Assign, ast.AnnAssign))

    def _call(self, node: ast.Call, scope: _Scope, uses: _Uses) -> None:
        callee = _last(node.func)
        if callee == REGISTERING:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            uses.registered += [scope.holder(argument) for argument in given if _last(argument)]
        elif callee in _READERS:
            uses.read_by_name |= {
                argument.value
                for argument in node.args
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            }

    def _assignment(self, node: ast.Assign | ast.AnnAssign, scope: _Scope, uses: _Uses) -> None:
        targets, value = _targets(node), node.value
        if (made := _creation(node)) is not None:
            uses.created.append((made, tuple(scope.holder(target) for target in targets)))
        elif value is not None and _last(value) in self.names:
            for target in targets:
                if _last(target):
                    self.names.add(_last(target))
                    uses.aliases.append((scope.holder(value), scope.holder(target)))
                else:
                    uses.escaped.append(scope.holder(value))


@dataclass(slots=True)
class _Scope:
    """Where a name stands: the family of the class around it, the outermost function in there, and what that binds."""

    family: object = None
    function: ast.AST | None = None
    bound: frozenset[str] | None = None  # computed on first use

    def holder(self, node: ast.expr) -> _Holder:
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            return _Holder(node.attr, "attribute", self.family if own else None)
        name = _last(node)
        if self.bound is None:
            self.bound = _bound_names(self.function) if self.function is not None else frozenset()
        return _Holder(name, "local", self.function) if name in self.bound else _Holder(name, "module")


def _bound_names(function: ast.AST) -> frozenset[str]:
    found: set[str] = set()
    shared: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Global):
            shared.update(node.names)
    return frozenset(found - shared)


def _families(program: Program) -> dict[ast.ClassDef, object]:
    """Give classes that inherit from one another, by name, one family."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            name = root[name]
        return name

    classes = [cls for module in program.modules.values() for cls in module.all_classes]
    known = {cls.name for cls in classes}
    for cls in classes:
        for base in cls.node.bases:
            if _last(base) in known:
                root[find(_last(base))] = find(cls.name)
    return {cls.node: find(cls.name) for cls in classes}
