"""Where a global name leads: imports, re-exports, star imports, classes and their resolution order."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from capaudit.program import ClassInfo, FunctionInfo, Module, Program, walk
from capaudit.program.symbols import dotted_text


@dataclass(frozen=True, slots=True)
class GlobalValue:
    """A module-level binding that is neither a function nor a class: its expression, and where it stands."""

    module: Module
    name: str
    node: ast.expr


@dataclass(frozen=True, slots=True)
class External:
    """A name that lives outside the program, by dotted path."""

    path: str


Symbol = FunctionInfo | ClassInfo | Module | GlobalValue | External


class Names:
    """Symbol lookup over a program, memoised."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._globals: dict[tuple[str, str], Symbol | None] = {}
        self._mro: dict[ClassInfo, tuple[tuple[ClassInfo, ...], tuple[str, ...]]] = {}
        self._subclasses: dict[ClassInfo, tuple[ClassInfo, ...]] = {}
        self._members: dict[tuple[ClassInfo, str], FunctionInfo | None] = {}
        self._fillers: dict[ClassInfo, dict[str, list[FunctionInfo]]] = {}
        self._stores: dict[ClassInfo, dict[str, list[FunctionInfo]]] = {}

    def lookup(self, module: Module, name: str) -> Symbol | None:
        """Resolve a module-level name, following imports; ``None`` when the module does not bind it."""
        key = (module.name, name)
        if key in self._globals:
            return self._globals[key]
        self._globals[key] = None  # a cycle of re-exports resolves to nothing
        found = self._find(module, name)
        self._globals[key] = found
        return found

    def _find(self, module: Module, name: str) -> Symbol | None:
        if name in module.functions:
            return module.functions[name]
        if name in module.classes:
            return module.classes[name]
        if name in module.imports:
            imported = module.imports[name]
            if imported.attribute is None:
                return self.module_or_external(imported.module)
            return self.attribute(self.module_or_external(imported.module), imported.attribute)
        if name in module.values:
            return GlobalValue(module, name, module.values[name])
        for star in module.star_imports:
            source = self.program.module_named(star)
            if source is not None and (found := self.lookup(source, name)) is not None:
                return found
        if module.is_package and (inner := self.program.module_named(f"{module.name}.{name}")):
            return inner
        if name in module.annotations:
            return None
        return None

    def module_or_external(self, dotted: str) -> Module | External:
        return self.program.module_named(dotted) or External(dotted)

    def attribute(self, base: Symbol | None, name: str) -> Symbol | None:
        """Resolve ``base.name`` for modules, packages and external names."""
        if isinstance(base, External):
            inner = self.program.module_named(f"{base.path}.{name}")
            return inner or External(f"{base.path}.{name}")
        if isinstance(base, Module):
            found = self.lookup(base, name)
            if found is not None:
                return found
            inner = self.program.module_named(f"{base.name}.{name}")
            if inner is not None:
                return inner
            for star in base.star_imports:
                if self.program.module_named(star) is None:
                    return External(f"{star}.{name}")
            return self._lazy_export(base, name)
        if isinstance(base, ClassInfo):
            return self.member_symbol(base, name)
        return None

    def _lazy_export(self, package: Module, name: str) -> Symbol | None:
        """Packages that export through ``__getattr__`` or a stub: take the one submodule that defines the name."""
        if "__getattr__" not in package.functions and "lazy_export" not in package.source:
            return None
        prefix = f"{package.name}."
        for other in self.program.modules.values():
            if not other.name.startswith(prefix) or name not in other.source:
                continue
            if name in other.functions or name in other.classes:
                return other.functions.get(name) or other.classes[name]
        return None

    def expression(self, module: Module, node: ast.expr) -> Symbol | None:
        """Resolve a name or attribute chain written in ``module``."""
        if isinstance(node, ast.Name):
            return self.lookup(module, node.id)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.expression(module, node.value), node.attr)
        if isinstance(node, ast.Subscript):
            return self.expression(module, node.value)
        return None

    def member_symbol(self, cls: ClassInfo, name: str) -> Symbol | None:
        for owner in self.mro(cls):
            if name in owner.methods:
                return owner.methods[name]
            if name in owner.nested:
                return owner.nested[name]
            if name in owner.values:
                return GlobalValue(owner.module, name, owner.values[name])
        return None

    def mro(self, cls: ClassInfo) -> tuple[ClassInfo, ...]:
        """Program classes in resolution order, the class itself first (C3, falling back to depth-first)."""
        return self._linear(cls)[0]

    def external_bases(self, cls: ClassInfo) -> tuple[str, ...]:
        """Dotted paths of library classes anywhere among the bases."""
        return self._linear(cls)[1]

    def _linear(self, cls: ClassInfo) -> tuple[tuple[ClassInfo, ...], tuple[str, ...]]:
        known = self._mro.get(cls)
        if known is not None:
            return known
        self._mro[cls] = ((cls,), ())  # a base cycle ends here
        parents: list[ClassInfo] = []
        external: list[str] = []
        for base in cls.node.bases:
            symbol = self.base_symbol(cls, base)
            if isinstance(symbol, ClassInfo):
                parents.append(symbol)
            elif isinstance(symbol, External):
                external.append(symbol.path)
            elif text := dotted_text(base.value if isinstance(base, ast.Subscript) else base):
                external.append(text)
        chains = [list(self.mro(parent)) for parent in parents]
        for parent in parents:
            external.extend(path for path in self.external_bases(parent) if path not in external)
        order = chains[0] if len(chains) == 1 else _merge([*chains, list(parents)])
        if order is None:
            order = []
            for chain in chains:
                order.extend(c for c in chain if c not in order)
        self._mro[cls] = ((cls, *(c for c in order if c is not cls)), tuple(external))
        return self._mro[cls]

    def base_symbol(self, cls: ClassInfo, base: ast.expr) -> Symbol | None:
        target = base.value if isinstance(base, ast.Subscript) else base
        symbol = self.expression(cls.module, target)
        if isinstance(symbol, GlobalValue) and symbol.module is not cls.module:
            inner = self.expression(symbol.module, symbol.node)
            return inner if isinstance(inner, ClassInfo) else symbol
        if isinstance(symbol, GlobalValue):
            inner = self.expression(symbol.module, symbol.node) if symbol.node is not target else None
            return inner or symbol
        return symbol

    def subclasses(self, cls: ClassInfo) -> tuple[ClassInfo, ...]:
        """All proper subclasses in the program, in file order."""
        known = self._subclasses.get(cls)
        if known is not None:
            return known
        self._subclasses[cls] = ()
        found: dict[ClassInfo, None] = {}
        for candidate in self.program.candidates_for_base(cls.name):
            if candidate is not cls and cls in self.mro(candidate):
                found[candidate] = None
                for deeper in self.subclasses(candidate):
                    found[deeper] = None
        self._subclasses[cls] = tuple(found)
        return self._subclasses[cls]

    def are_related(self, one: ClassInfo, other: ClassInfo) -> bool:
        """Whether two classes are the same, or one derives from the other."""
        return other in self.mro(one) or one in self.mro(other)

    def method(self, cls: ClassInfo, name: str) -> FunctionInfo | None:
        """The method that ``name`` resolves to on ``cls``."""
        key = (cls, name)
        if key not in self._members:
            self._members[key] = next((c.methods[name] for c in self.mro(cls) if name in c.methods), None)
        return self._members[key]

    def stores_of(self, cls: ClassInfo) -> dict[str, list[FunctionInfo]]:
        """Attributes that the class's own methods bind on their first parameter, each with those methods."""
        table = self._stores.get(cls)
        if table is None:
            table = {}
            for method in cls.methods.values():
                for name in stored_attributes(method):
                    table.setdefault(name, []).append(method)
            self._stores[cls] = table
        return table

    def members(self, cls: ClassInfo) -> list[str]:
        """Names of the methods and class-level bindings of a class and its bases."""
        names: dict[str, None] = {}
        for owner in self.mro(cls):
            names.update(dict.fromkeys([*owner.methods, *owner.values]))
        return list(names)

    def fillers_of(self, cls: ClassInfo) -> dict[str, list[FunctionInfo]]:
        """Containers on the first parameter that the class's own methods add to, each with those methods."""
        table = self._fillers.get(cls)
        if table is None:
            table = {}
            for method in cls.methods.values():
                for name in _filled_attributes(method):
                    table.setdefault(name, []).append(method)
            self._fillers[cls] = table
        return table

    def is_subclass_of_library(self, cls: ClassInfo, *paths: str) -> bool:
        return any(base in paths for base in self.external_bases(cls))


def stored_attributes(method: FunctionInfo) -> list[str]:
    """Names that a method binds on its first parameter (``self.x = ...``), in order."""
    if isinstance(method.node, ast.Lambda) or not method.node.args.args:
        return []
    first = method.node.args.args[0].arg
    found: dict[str, None] = {}
    for node in walk(method.node):
        match node:
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()) if name == first:
                found[node.attr] = None
            case ast.Call(
                func=ast.Attribute(attr="__setattr__"), args=[ast.Name(id=name), ast.Constant(value=str() as key), _]
            ):
                if name == first:
                    found[key] = None
            case ast.Call(func=ast.Attribute(attr="__setattr__"), args=[ast.Constant(value=str() as key), _]):
                found[key] = None
            case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=name), ast.Constant(value=str() as key), _]):
                if name == first:
                    found[key] = None
    return list(found)


_ADDING = ("append", "appendleft", "add", "insert", "extend", "update", "setdefault")


def _filled_attributes(method: FunctionInfo) -> list[str]:
    if isinstance(method.node, ast.Lambda) or not method.node.args.args:
        return []
    first = method.node.args.args[0].arg
    found: dict[str, None] = {}
    for node in walk(method.node):
        target: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING:
            target = node.func.value
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            target = node.value
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == first:
            found[target.attr] = None
    return list(found)


def _merge(chains: list[list[ClassInfo]]) -> list[ClassInfo] | None:
    """C3 linearisation; ``None`` where the bases disagree."""
    result: list[ClassInfo] = []
    chains = [chain for chain in chains if chain]
    while chains:
        for chain in chains:
            head = chain[0]
            if not any(head in other[1:] for other in chains):
                break
        else:
            return None
        result.append(head)
        chains = [[c for c in chain if c is not head] for chain in chains]
        chains = [chain for chain in chains if chain]
    return result
