"""Modules, classes and functions of the audited program, as read from source."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from capaudit.program.text import Part, Text

if TYPE_CHECKING:
    from collections.abc import Callable

    from capaudit.program.walking import BodyFacts


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Unparsable:
    """A file that could not be read or parsed (CAP905). The rest of the program is still audited."""

    file: str
    line: int
    column: int
    cause: str


@dataclass(frozen=True, slots=True)
class ImportedName:
    """``import a.b as c`` binds ``c`` to module ``a.b``; ``from a import b`` binds ``b`` to ``a``'s attribute ``b``."""

    module: str
    attribute: str | None


@dataclass(eq=False, slots=True)
class FunctionInfo:
    """A function, method or lambda. Identity is the object; ``owner`` is its dotted owner path."""

    node: FunctionNode
    module: Module
    qualname: str
    cls: ClassInfo | None
    decorators: tuple[str, ...]
    facts: BodyFacts | None = None  # computed on first use
    owned: tuple[str, str] | None = None  # (ownership class, reason) from a comment or decorator

    @property
    def name(self) -> str:
        return "<lambda>" if isinstance(self.node, ast.Lambda) else self.node.name

    @property
    def owner(self) -> str:
        return f"{self.module.name}.{self.qualname}"

    @property
    def line(self) -> int:
        return self.node.lineno

    @property
    def text(self) -> Part:
        """Its source lines, decorators left out."""
        return self.module.source.part("\n".join(self.module.lines[self.line - 1 : self.node.end_lineno]))

    def has_decorator(self, *names: str) -> bool:
        """True when a decorator's last dotted part is one of ``names``."""
        return any(text.rpartition(".")[2] in names for text in self.decorators)


@dataclass(eq=False, slots=True)
class ClassInfo:
    """A class statement: own methods, own class-level bindings and annotations, and its bases as written."""

    node: ast.ClassDef
    module: Module
    qualname: str
    methods: dict[str, FunctionInfo] = field(default_factory=dict)
    overloads: dict[str, list[FunctionInfo]] = field(default_factory=dict)  # property setters and the like
    values: dict[str, ast.expr] = field(default_factory=dict)
    annotations: dict[str, ast.expr] = field(default_factory=dict)
    nested: dict[str, ClassInfo] = field(default_factory=dict)
    decorators: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def owner(self) -> str:
        return f"{self.module.name}.{self.qualname}"


@dataclass(eq=False, slots=True)
class Module:
    """One source file. ``file`` is relative to the working directory, with forward slashes.

    One that is ``unread`` has only its text; its tree and names are there when first asked for.
    """

    name: str
    file: str
    is_package: bool
    tree: ast.Module
    source: Text
    imports: dict[str, ImportedName] = field(default_factory=dict)
    star_imports: list[str] = field(default_factory=list)
    functions: dict[str, FunctionInfo] = field(default_factory=dict)
    classes: dict[str, ClassInfo] = field(default_factory=dict)
    values: dict[str, ast.expr] = field(default_factory=dict)
    annotations: dict[str, ast.expr] = field(default_factory=dict)
    split: list[str] | None = None
    all_functions: list[FunctionInfo] = field(default_factory=list)
    all_classes: list[ClassInfo] = field(default_factory=list)
    load: Callable[[Module], None] | None = None

    @classmethod
    def unread(cls, name: str, file: str, is_package: bool, source: Text, load: Callable[[Module], None]) -> Module:
        """Return a module of which ``load`` fills in tree and names when somebody asks for one of them."""
        module = cls.__new__(cls)
        module.name, module.file, module.is_package, module.source = name, file, is_package, source
        module.split, module.load = None, load
        return module

    @property
    def is_read(self) -> bool:
        return self.load is None

    def __getattr__(self, name: str) -> Any:
        # Only called for what is not set: nothing is slower for a module that has been read.
        load = object.__getattribute__(self, "load") if name in _FROM_TREE else None
        if load is None:
            raise AttributeError(f"module {self.name!r} has no attribute {name!r}")
        load(self)
        return object.__getattribute__(self, name)

    @property
    def lines(self) -> list[str]:
        """Source lines, split once."""
        if self.split is None:
            self.split = self.source.splitlines()
        return self.split

    @property
    def package(self) -> str:
        return self.name if self.is_package else self.name.rpartition(".")[0]


_FROM_TREE = frozenset(
    [
        *("tree", "imports", "star_imports", "functions", "classes", "values", "annotations"),
        *("all_functions", "all_classes"),
    ]
)


def dotted_text(node: ast.expr) -> str:
    """Return ``a.b.c`` for a chain of names (a call's callee for a call), else an empty string."""
    if isinstance(node, ast.Call):
        return dotted_text(node.func)
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted_text(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""
