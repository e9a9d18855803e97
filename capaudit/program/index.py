"""Build the index: every file once, names only.

Bodies are the same syntax trees, walked by the audit for the functions that it reaches. Analysis on
``ast`` alone measured several times faster than parsing bodies a second time, and its positions
are exact; concrete syntax is only needed where source is rewritten.
"""

from __future__ import annotations

import ast
import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from capaudit.program.callsites import CallIndex, Site
from capaudit.program.comments import CapauditComment, read_comments
from capaudit.program.reading import decode, find_sources, is_plain, is_valid, parse_source, parse_text, read_bytes
from capaudit.program.symbols import ClassInfo, FunctionInfo, ImportedName, Module, Unparsable, dotted_text
from capaudit.program.text import Questions, Text, asked_by
from capaudit.program.words import Words
from capaudit.program.workers import Spread, spread

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Program:
    """All indexed modules, with the lookups that the audit needs.

    Names are looked up lazily: a class's bases, subclasses and method resolution order are computed
    when first asked for.
    """

    def __init__(self, modules: dict[str, Module], unparsable: tuple[Unparsable, ...]) -> None:
        self.modules = modules
        self.unparsable = unparsable
        self.by_file = {module.file: module for module in modules.values()}
        self._call_index: CallIndex | None = None
        self._comments: dict[str, tuple[CapauditComment, ...]] = {}
        self._functions_by_node: dict[int, FunctionInfo] = {}
        self._subclass_names: dict[str, list[ClassInfo]] = {}
        self._methods_by_name: dict[str, list[FunctionInfo]] = {}
        self._words = Words(list(modules.values()))
        self._unlisted = list(modules.values())

    @property
    def file_count(self) -> int:
        return len(self.modules) + len(self.unparsable)

    def module_named(self, name: str) -> Module | None:
        return self.modules.get(name)

    def owns_package(self, name: str) -> bool:
        """True when the top-level package of ``name`` is part of the indexed sources."""
        top = name.partition(".")[0]
        return top in self._top_packages

    @property
    def _top_packages(self) -> frozenset[str]:
        cached = self.__dict__.get("_tops")
        if cached is None:
            cached = frozenset(name.partition(".")[0] for name in self.modules)
            self.__dict__["_tops"] = cached
        return cached

    def function_of_node(self, node: ast.AST) -> FunctionInfo | None:
        found = self._functions_by_node.get(id(node))
        if found is None and self._list_functions():
            found = self._functions_by_node.get(id(node))
        return found

    def _list_functions(self) -> bool:
        """List the functions of modules that were read since, and tell whether there are any."""
        fresh = [module for module in self._unlisted if module.is_read]
        if fresh:
            self._unlisted = [module for module in self._unlisted if not module.is_read]
            for module in fresh:
                for function in module.all_functions:
                    self._functions_by_node.setdefault(id(function.node), function)
        return bool(fresh)

    def register(self, function: FunctionInfo) -> None:
        """Add a nested function or lambda that the audit met inside a body."""
        self._functions_by_node[id(function.node)] = function

    def comments(self, module: Module) -> tuple[CapauditComment, ...]:
        if module.name not in self._comments:
            self._comments[module.name] = read_comments(module.source)
        return self._comments[module.name]

    def candidates_for_base(self, name: str) -> list[ClassInfo]:
        """Classes with a base whose last dotted part is ``name``."""
        found = self._subclass_names.get(name)
        if found is None:
            found = self._subclass_names[name] = [
                cls
                for module in self._words.modules(name)
                if "class " in module.source
                for cls in module.all_classes
                for base in cls.node.bases
                if dotted_text(base.value if isinstance(base, ast.Subscript) else base).rpartition(".")[2] == name
            ]
        return found

    def modules_with(self, word: str) -> list[Module]:
        """Modules whose text holds an identifier, and maybe some that only hold it as part of another."""
        return self._words.modules(word)

    def methods_named(self, name: str) -> list[FunctionInfo]:
        """Every method of that name in the program, in file order."""
        found = self._methods_by_name.get(name)
        if found is None:
            found = self._methods_by_name[name] = [
                method
                for module in self._words.modules(name)
                if f"def {name}" in module.source
                for cls in module.all_classes
                for method in cls.methods.values()
                if method.name == name
            ]
        return found

    def calls_to(self, name: str, package: str = "") -> list[Site]:
        """Calls whose callee's last part, or whose first argument in ``partial(...)``, is ``name``.

        Aliases (``from m import C as D``) count, test modules do not. With ``package``, other packages come last.
        """
        if self._call_index is None:
            self._call_index = CallIndex(self.productive, self._words)
        return self._call_index.find(name, package)

    @property
    def productive(self) -> list[Module]:
        """Modules whose calls say how the program is used; tests say how it is tested, and count among themselves."""
        cached = self.__dict__.get("_productive_modules")
        if cached is None:
            every = list(self.modules.values())
            cached = [m for m in every if not _is_test(m)] or every
            self.__dict__["_productive_modules"] = cached
        return cached


def _is_test(module: Module) -> bool:
    parts = module.name.split(".")
    return any(
        part in ("tests", "test", "conftest") or part.startswith("test_") or part.endswith("_test") for part in parts
    )


def build_program(
    roots: tuple[Path, ...],
    working_directory: Path,
    excludes: Callable[[Path], bool] = lambda _: False,
    unsaved: Mapping[Path, bytes] | None = None,
    deferred: Deferred | None = None,
) -> Program:
    """Index every Python file under ``roots`` but what ``excludes`` names.

    With ``deferred`` a file is parsed when something of it is asked for; see there.

    ``unsaved`` holds content by absolute path that stands for what the disk has (an editor, stdin).

    Errors: ``InputError`` for a root that does not exist. A file that cannot be read or parsed is
    listed in ``Program.unparsable``.
    """
    modules: dict[str, Module] = {}
    unparsable: list[Unparsable] = []
    questions = deferred.questions if deferred is not None else Questions()
    enabled = gc.isenabled()
    gc.disable()  # syntax trees are acyclic garbage-free data; collecting while building costs a third of the time
    try:
        for file, shown, name in list_sources(roots, working_directory, excludes, unsaved or ()):
            given = (unsaved or {}).get(file)
            parsed = _read(file, shown, given, deferred)
            if isinstance(parsed, Unparsable):
                unparsable.append(parsed)
                continue
            if name in modules:
                name = f"{name}@{shown}"
            is_package = file.name == "__init__.py"
            if isinstance(parsed, str):
                modules[name] = deferred.module(name, shown, is_package, asked_by(parsed, questions))  # type: ignore[union-attr]
            else:
                modules[name] = index_module(name, shown, is_package, parsed[1], asked_by(parsed[0], questions))
    finally:
        if enabled:
            gc.enable()
    return Program(modules, tuple(unparsable))


def list_sources(
    roots: tuple[Path, ...],
    working_directory: Path,
    excludes: Callable[[Path], bool] = lambda _: False,
    unsaved: Iterable[Path] = (),
) -> Iterator[tuple[Path, str, str]]:
    """Yield every file of a program with its path as it is shown and the name that an import would use.

    Errors: ``InputError`` for a root that does not exist.
    """
    packages: dict[Path, bool] = {}
    for root, file in find_sources(roots, excludes, unsaved):
        yield file, shown_path(file, working_directory), _module_name(root, file, packages)


def _read(
    file: Path, shown: str, given: bytes | None, deferred: Deferred | None
) -> tuple[str, ast.Module] | str | Unparsable:
    data = read_bytes(file, shown) if given is None else given
    if isinstance(data, Unparsable):
        return data
    if deferred is None:
        return parse_source(data, shown)
    deferred.note(file, data)
    return deferred.text(data, shown)


class BrokenFileError(Exception):
    """A file whose parsing was deferred cannot be parsed: whatever was found with it has to be found without it."""

    def __init__(self, broken: Unparsable) -> None:
        super().__init__(broken)  # what pickle hands on from a worker
        self.broken = broken


_MOST_KEPT = 32 << 20
"""Bytes of source up to which a program is remembered as it was read."""
_LARGE = 1000
"""Files from which on most are never read."""


class Deferred:
    """Puts off parsing. Most files of a large program are only looked at as text.

    A program must be the same as if every file had been parsed at once. So whoever builds one has to call
    ``unread_and_broken`` in the end, and where that finds a file, or reading one raised ``BrokenFileError``,
    to build again with the same object, which knows of the file by then.
    """

    def __init__(self) -> None:
        self._broken: dict[str, Unparsable] = {}
        self._modules: dict[tuple[str, str], Module] = {}
        self._valid: set[Module] = set()
        self.questions = Questions()
        self.sources: dict[Path, bytes] | None = {}  # what was read, as it was read; nothing of a very large program
        self._size = 0
        self._read_elsewhere: set[str] = set()

    def text(self, data: bytes, shown: str) -> tuple[str, ast.Module] | str | Unparsable:
        """Return the text of a file, its tree too where only that tells whether it is accepted."""
        if shown in self._broken:
            return self._broken[shown]
        text = decode(data, shown)
        if isinstance(text, Unparsable) or is_plain(text):
            return text
        tree = parse_text(text, shown)
        return tree if isinstance(tree, Unparsable) else (text, tree)

    def note(self, file: Path, data: bytes) -> None:
        """Remember what a file held."""
        self._size += len(data)
        if self.sources is not None:
            self.sources[file] = data
            if self._size > _MOST_KEPT:
                self.sources = None

    def module(self, name: str, file: str, is_package: bool, text: Text) -> Module:
        """Return the module with this text, the one of an earlier build where there is one."""
        module = self._modules.get((name, file))
        if module is None or module.source != text:
            module = self._modules[name, file] = Module.unread(name, file, is_package, text, self._load)
        return module

    @property
    def size(self) -> int:
        """Bytes of source that were read."""
        return self._size

    def know(self, broken: Unparsable) -> None:
        """Take note of a broken file that another process met."""
        self._broken[broken.file] = broken

    def is_read(self, module: Module) -> bool:
        """Whether this or another process asked for more than a module's text."""
        return module.is_read or module.file in self._read_elsewhere

    def told(self, program: Program) -> tuple[Questions, list[str]]:
        """What another process has to know of what this one did with the program."""
        return self.questions, [module.file for module in program.modules.values() if module.is_read]

    def hear(self, told: tuple[Questions, list[str]]) -> None:
        """Add what another process did, which began as a copy of this one."""
        self.questions.add(told[0])
        self._read_elsewhere.update(told[1])

    def _load(self, module: Module) -> None:
        tree = parse_text(module.source, module.file)
        if isinstance(tree, Unparsable):
            self._broken[module.file] = tree
            raise BrokenFileError(tree)
        read = index_module(module.name, module.file, module.is_package, tree, module.source, module)
        read.load = None

    def spreading(self, program: Program, workers: int) -> Spread:
        """Return a function that does tasks on a program in several processes, and learns what they did with it."""

        def over(tasks: Sequence[_Task], do: Callable[[_Task], _Result]) -> list[_Result]:
            return spread(tasks, do, workers, lambda: self.told(program), self.hear)

        return over

    def check_early(self, program: Program, workers: int = 1) -> None:
        """Check a program of so many files that few will be read, before work is done that a broken one would undo.

        Errors: ``BrokenFileError``.
        """
        if len(program.modules) > _LARGE and (broken := self.unread_and_broken(program, workers)):
            raise BrokenFileError(broken[0])

    def unread_and_broken(self, program: Program, workers: int = 1) -> list[Unparsable]:
        """Check the files that nobody has asked for, and return those that cannot be parsed."""
        unread = [m for m in program.modules.values() if not self.is_read(m) and m not in self._valid]
        found = [broken for part in spread(portions(unread), _broken, workers) for broken in part]
        for broken in found:
            self.know(broken)
        files = {broken.file for broken in found}
        self._valid.update(module for module in unread if module.file not in files)
        return found


_PORTION = 2 << 20


def portions(modules: list[Module]) -> list[list[Module]]:
    """Divide modules into parts of about the same amount of text."""
    parts: list[list[Module]] = []
    size = _PORTION
    for module in modules:
        if size >= _PORTION:
            parts.append([])
            size = 0
        parts[-1].append(module)
        size += len(module.source)
    return parts


def _broken(modules: list[Module]) -> list[Unparsable]:
    texts = [(module.source, module.file) for module in modules if not is_valid(module.source)]
    trees = [parse_text(text, file) for text, file in texts]
    return [tree for tree in trees if isinstance(tree, Unparsable)]


def shown_path(file: Path, working_directory: Path) -> str:
    """Return a path relative to the working directory with forward slashes (absolute on another drive)."""
    absolute = os.path.abspath(file)  # folds ``..``, so that one file has one name
    try:
        return Path(os.path.relpath(absolute, os.path.abspath(working_directory))).as_posix()
    except ValueError:
        return Path(absolute).as_posix()


def _module_name(root: Path, file: Path, packages: dict[Path, bool]) -> str:
    """The dotted name that an import would use: from the top of the chain of packages that holds the file."""
    file = file.absolute()
    base = _import_base(file.parent, root.absolute() if root.is_dir() else file.parent, packages)
    parts = list(file.relative_to(base).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts) or file.parent.name


_SOURCE_ROOTS = ("src", "source", "lib", "python", "scripts", "examples", "tests")


def _import_base(folder: Path, root: Path, packages: dict[Path, bool]) -> Path:
    """The folder that imports start from: above the outermost package, namespace folders inside it included."""
    base: Path | None = None
    current = folder
    while True:
        while _is_package(current, packages) and current.parent != current:
            current = base = current.parent
        # A folder without __init__ between packages is a namespace, unless another source tree begins there.
        gap = current
        for _ in range(2):
            if gap.name in _SOURCE_ROOTS or gap.parent == gap or _is_package(gap, packages):
                break
            gap = gap.parent
        if not _is_package(gap, packages) or (base is None and not gap.is_relative_to(root)):
            break
        current = gap
    if base is not None:
        return base
    return root if not _is_package(root, packages) else root.parent


def _is_package(folder: Path, packages: dict[Path, bool]) -> bool:
    if folder not in packages:
        packages[folder] = (folder / "__init__.py").is_file()
    return packages[folder]


def index_module(
    name: str, file: str, is_package: bool, tree: ast.Module, source: Text, into: Module | None = None
) -> Module:
    """Collect one module's names: imports, functions, classes and module-level bindings."""
    module = into or Module(name, file, is_package, tree, source)
    if into is not None:
        into.__init__(name, file, is_package, tree, source)  # type: ignore[misc]
    _collect_body(module, tree.body, None, "")
    return module


def _collect_body(module: Module, body: Iterable[ast.stmt], cls: ClassInfo | None, prefix: str) -> None:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                _collect_function(module, node, cls, prefix)
            case ast.ClassDef():
                _collect_class(module, node, cls, prefix)
            case ast.Import():
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    target = alias.name if alias.asname else bound
                    module.imports[bound] = ImportedName(target, None)
            case ast.ImportFrom():
                source = absolute_source(module, node)
                for alias in node.names:
                    if alias.name == "*":
                        module.star_imports.append(source)
                    else:
                        module.imports[alias.asname or alias.name] = ImportedName(source, alias.name)
            case ast.Assign():
                for assigned in node.targets:
                    _collect_binding(module, cls, assigned, node.value)
            case ast.AnnAssign() if isinstance(node.target, ast.Name):
                table = cls.annotations if cls else module.annotations
                table[node.target.id] = node.annotation
                if node.value is not None:
                    _collect_binding(module, cls, node.target, node.value)
            case (
                ast.If()
                | ast.Try()
                | ast.TryStar()
                | ast.With()
                | ast.AsyncWith()
                | ast.For()
                | ast.AsyncFor()
                | ast.While()
                | ast.Match()
            ):
                for field in ("body", "handlers", "orelse", "finalbody", "cases"):
                    for child in getattr(node, field, ()):
                        inner = child.body if isinstance(child, (ast.ExceptHandler, ast.match_case)) else [child]
                        _collect_body(module, inner, cls, prefix)
            case _:
                pass


def absolute_source(module: Module, node: ast.ImportFrom) -> str:
    """The dotted name of the module that a ``from`` statement in a module names."""
    if not node.level:
        return node.module or ""
    parts = module.package.split(".") if module.package else []
    parts = parts[: len(parts) - (node.level - 1)] if node.level > 1 else parts
    return ".".join([*parts, *([node.module] if node.module else [])])


def _collect_binding(module: Module, cls: ClassInfo | None, target: ast.expr, value: ast.expr) -> None:
    table = cls.values if cls else module.values
    if isinstance(target, ast.Name):
        table[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        items = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        for i, element in enumerate(target.elts):
            if isinstance(element, ast.Name):
                if len(items) == len(target.elts):
                    table[element.id] = items[i]
                else:
                    index = ast.copy_location(ast.Constant(i), value)
                    table[element.id] = ast.copy_location(ast.Subscript(value, index, ast.Load()), value)


def _decorator_texts(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> tuple[str, ...]:
    return tuple(dotted_text(decorator) for decorator in node.decorator_list)


def _collect_function(
    module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef, cls: ClassInfo | None, prefix: str
) -> None:
    function = FunctionInfo(node, module, f"{prefix}{node.name}", cls, _decorator_texts(node))
    module.all_functions.append(function)
    if function.has_decorator("overload"):
        return
    if cls is None:
        module.functions[node.name] = function
    elif function.has_decorator("setter", "deleter"):
        cls.overloads.setdefault(node.name, []).append(function)
    else:
        cls.methods[node.name] = function


def _collect_class(module: Module, node: ast.ClassDef, outer: ClassInfo | None, prefix: str) -> None:
    cls = ClassInfo(node, module, f"{prefix}{node.name}", decorators=_decorator_texts(node))
    module.all_classes.append(cls)
    (outer.nested if outer else module.classes)[node.name] = cls
    _collect_body(module, node.body, cls, f"{cls.qualname}.")
