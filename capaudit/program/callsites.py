"""Where the program calls a name: an index that walks only the statements whose text mentions the name."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from capaudit.program.symbols import FunctionInfo, Module, dotted_text
from capaudit.program.words import Words

Site = tuple[Module, ast.Call, FunctionInfo | None]
_Calls = dict[str, list[tuple[ast.Call, FunctionInfo | None]]]


_LEAVES = frozenset([int, str, type(None), ast.Load, ast.Store])


def renaming(name: str) -> re.Pattern[str]:
    """Return a pattern that matches where a name may be imported under another one."""
    return re.compile(rf"\b{re.escape(name)}\s+as\b")


class CallIndex:
    """Calls by the last part of the callee, or of the first argument of ``partial(...)``."""

    def __init__(self, modules: list[Module], words: Words) -> None:
        self._modules = frozenset(module.name for module in modules)
        self._mentioned = words
        self._statements: dict[str, _Statements] = {}
        self._found: dict[tuple[str, str], list[Site]] = {}

    def find(self, name: str, package: str) -> list[Site]:
        """Calls in order of modules and places; those outside the top-level ``package`` come last."""
        found = self._found.get((name, package))
        if found is None:
            found = self._found[name, package] = list(self._find(name, package))
        return found

    def _find(self, name: str, package: str) -> Iterator[Site]:
        modules = [module for module in self._mentioned.modules(name) if module.name in self._modules]
        if package:
            modules = sorted(modules, key=lambda m: m.name.partition(".")[0] != package)
        renamed = renaming(name)
        for module in modules:
            source = module.source
            plain = f"{name}(" in source or "partial(" in source
            aliases: list[str] = []
            source.guard(name)
            if renamed.search(source) is not None:
                aliases = [alias for alias, imported in module.imports.items() if imported.attribute == name != alias]
            if not aliases and not plain:
                continue
            statements = self._statements.get(module.name)
            if statements is None:
                statements = self._statements[module.name] = _Statements(module)
            for called in (name, *aliases):
                for call, function in statements.calls(called):
                    yield module, call, function


class _Statements:
    """The statements of a module and of its classes, each walked when a name is first asked for that it mentions."""

    def __init__(self, module: Module) -> None:
        self._source = str(module.source)
        if "\r" in self._source:  # lines as the parser counts them
            self._source = self._source.replace("\r\n", "\n").replace("\r", "\n")
        self._ends = list(accumulate(len(line) + 1 for line in self._source.split("\n")))
        self._owners = {id(function.node): function for function in module.all_functions}
        self._parts: list[list[ast.AST]] = []
        self._first: list[int] = []
        self._last: list[int] = []
        self._tables: list[_Calls | None] = []
        self._split(module.tree.body)

    def _split(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                header = [*node.decorator_list, *node.bases, *node.keywords]
                if header:
                    self._add(header)
                self._split(node.body)
            else:
                self._add([node])

    def _add(self, nodes: list[ast.AST]) -> None:
        decorators = [part for node in nodes for part in getattr(node, "decorator_list", ())]
        spans = [(part.lineno, part.end_lineno or part.lineno) for part in (*nodes, *decorators)]
        self._parts.append(nodes)
        self._first.append(min(first for first, _ in spans))
        self._last.append(max(last for _, last in spans))
        self._tables.append(None)

    def calls(self, name: str) -> Iterator[tuple[ast.Call, FunctionInfo | None]]:
        """Calls of a name, in source order."""
        mentioned: set[int] = set()
        at = self._source.find(name)
        while at >= 0:
            line = bisect_right(self._ends, at) + 1
            part = bisect_right(self._first, line) - 1
            while part >= 0 and self._last[part] >= line:  # several statements may share a line
                mentioned.add(part)
                part -= 1
            at = self._source.find(name, at + len(name))
        for part in sorted(mentioned):
            table = self._tables[part]
            if table is None:
                table = self._tables[part] = self._walk(self._parts[part])
            yield from table.get(name, ())

    def _walk(self, nodes: list[ast.AST]) -> _Calls:
        stack: list[tuple[ast.AST, FunctionInfo | None]] = [(node, None) for node in reversed(nodes)]
        found: list[tuple[ast.Call, FunctionInfo | None]] = []
        while stack:
            node, owner = stack.pop()
            if isinstance(node, ast.Call):
                found.append((node, owner))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                owner = self._owners.get(id(node), owner)
            for value in node.__dict__.values():
                kind = type(value)
                if kind in _LEAVES:
                    continue
                if kind is list:
                    stack.extend([(item, owner) for item in value if isinstance(item, ast.AST)])
                elif isinstance(value, ast.AST):
                    stack.append((value, owner))
        found.sort(key=lambda pair: (pair[0].lineno, pair[0].col_offset, -(pair[0].end_col_offset or 0)))
        table: _Calls = {}
        for call, owner in found:
            last = dotted_text(call.func).rpartition(".")[2]
            if last:
                table.setdefault(last, []).append((call, owner))
            if last == "partial" and call.args:
                target = dotted_text(call.args[0]).rpartition(".")[2]
                if target:
                    table.setdefault(target, []).append((call, owner))
        return table
