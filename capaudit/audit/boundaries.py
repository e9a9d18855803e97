"""Which capture boundaries an audit looks at, in order of precedence, and where each begins."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from capaudit.audit.discovery import discover
from capaudit.audit.names import External, Names
from capaudit.audit.options import AuditOptions
from capaudit.model import Boundary, BoundaryRefusedError, CaptureKind, InputError, UnresolvedEntryError
from capaudit.program import ClassInfo, FunctionInfo, Module, Program
from capaudit.program.comments import CapauditComment
from capaudit.program.index import shown_path
from capaudit.program.symbols import dotted_text


@dataclass(frozen=True, slots=True)
class Entry:
    """A boundary with the function it starts in; ``region`` is the with statement of a discovered capture."""

    boundary: Boundary
    function: FunctionInfo
    cls: ClassInfo | None
    region: ast.With | ast.AsyncWith | None = None


def find_entries(program: Program, names: Names, options: AuditOptions) -> list[Entry]:
    """Entries from the command line, else from configuration, decorators and comments, else discovered."""
    if options.entries:
        return [_declared(program, names, options, _from_command_line(options, text)) for text in options.entries]
    entries = [_declared(program, names, options, boundary) for boundary in options.configuration.boundaries]
    known = {(e.function, e.cls) for e in entries}
    for entry in _marked(program, names, options.capture):
        if (entry.function, entry.cls) not in known:
            entries.append(entry)
    return entries or discover(program, names, options.capture, _make_entry)


def _from_command_line(options: AuditOptions, text: str) -> Boundary:
    return Boundary(name=text, entry=text, capture=options.capture or "torch", origin="command line")


def _declared(program: Program, names: Names, options: AuditOptions, declared: Boundary) -> Entry:
    module_name, colon, path = declared.entry.rpartition(":")
    if not colon or not path or not module_name:
        raise UnresolvedEntryError(
            f"entry {declared.entry!r} is not of the form pkg.mod:Class.method (CAP904)",
            remedy="write pkg.mod:Class.method, pkg.mod:function or path/file.py:Class.method",
        )
    module = _entry_module(program, options, module_name)
    if module is None:
        _fail_if_unparsable(program, options, module_name, declared.entry)
        raise UnresolvedEntryError(
            f"entry {declared.entry!r}: the audited sources have no module {module_name!r} (CAP904)",
            remedy=_nearest(module_name, list(program.modules), "modules"),
        )
    found = _member(names, module, path.split("."))
    if found is None:
        candidates = [f.qualname for f in module.all_functions]
        elsewhere = [
            f"{f.module.name}:{f.qualname}"
            for m in program.modules.values()
            for f in m.all_functions
            if f.name == path.rpartition(".")[2]
        ]
        raise UnresolvedEntryError(
            f"entry {declared.entry!r}: {module.name} has no function {path!r} (CAP904)",
            place=module.file,
            remedy=_nearest(path, candidates, "names", elsewhere),
        )
    function, cls = found
    guess = options.capture if declared.origin == "command line" else None
    kind: CaptureKind = declared.capture
    if declared.origin == "command line":
        kind = guess or inferred_capture(module, function)
    boundary = replace(declared, capture=kind, file=function.module.file, line=function.line)
    return Entry(boundary, function, cls)


def _fail_if_unparsable(program: Program, options: AuditOptions, module_name: str, entry: str) -> None:
    tail = module_name if module_name.endswith(".py") else f"{module_name.replace('.', '/')}.py"
    shown = (
        shown_path(options.working_directory / module_name, options.working_directory)
        if module_name.endswith(".py")
        else tail
    )
    for broken in program.unparsable:
        if (
            broken.file == shown
            or broken.file.endswith(f"/{tail}")
            or broken.file == tail
            or broken.file.endswith(tail.replace(".py", "/__init__.py"))
        ):
            raise InputError(
                f"the module of entry {entry!r} {broken.cause} (CAP905)",
                place=f"{broken.file}:{broken.line}:{broken.column}",
                remedy="correct the file; nothing can be followed from an entry that cannot be read",
            )


def _entry_module(program: Program, options: AuditOptions, name: str) -> Module | None:
    if name.endswith(".py"):
        file = Path(name)
        file = file if file.is_absolute() else options.working_directory / file
        shown = shown_path(file, options.working_directory)
        return program.by_file.get(shown)
    module = program.module_named(name)
    if module is None:
        ends = [m for key, m in program.modules.items() if key.endswith(f".{name}")]
        module = ends[0] if len(ends) == 1 else None
    return module


def _member(names: Names, module: Module, path: list[str]) -> tuple[FunctionInfo, ClassInfo | None] | None:
    symbol = names.lookup(module, path[0])
    if isinstance(symbol, FunctionInfo) and len(path) == 1:
        return symbol, None
    cls = symbol if isinstance(symbol, ClassInfo) else None
    for part in path[1:-1]:
        if cls is None:
            return None
        cls = cls.nested.get(part)
    if cls is None or len(path) < 2:
        return None
    method = names.method(cls, path[-1])
    return (method, cls) if method is not None else None


def _nearest(wanted: str, candidates: list[str], what: str, extra: list[str] | None = None) -> str:
    near = difflib.get_close_matches(wanted, candidates, n=4, cutoff=0.5) + (extra or [])[:4]
    near = list(dict.fromkeys(near))
    if near:
        return f"did you mean {', '.join(near)}?"
    shown = ", ".join(candidates[:6])
    return f"the nearest {what} there are {shown}" if shown else "the sources hold no such name; check the paths"


def inferred_capture(module: Module, function: FunctionInfo | None = None) -> CaptureKind:
    """Who starts the capture of an entry that does not say.

    That is what captures it in its own module, where something does; else Warp where the module speaks Warp
    and no Torch.
    """
    seen = _seen_capture(module, function.name) if function is not None else None
    if seen is not None:
        return seen
    imported = {item.module.partition(".")[0] for item in module.imports.values()}
    return "warp" if "warp" in imported and "torch" not in imported else "torch"


def _seen_capture(module: Module, name: str) -> CaptureKind | None:
    """The one kind of capture around the calls of a function in its module."""
    if "ScopedCapture" not in module.source:
        return None
    kinds = set(_captures_of(module.tree, name, frozenset()))
    return kinds.pop() if len(kinds) == 1 else None


def captured_in(module: Module, name: str) -> bool:
    """Whether a module captures a call of a function by that name."""
    hints = ("ScopedCapture", "cuda.graph")
    return any(hint in module.source for hint in hints) and any(_captures_of(module.tree, name, frozenset()))


def _captures_of(node: ast.AST, name: str, around: frozenset[str]) -> Iterator[CaptureKind]:
    """What captures each call of a name: the captures that stand around it."""
    if isinstance(node, (ast.With, ast.AsyncWith)):
        around = around | {kind for item in node.items if (kind := _opened(item.context_expr))}
    elif isinstance(node, ast.Call) and dotted_text(node.func).rpartition(".")[2] == name and around:
        if "shared" in around:
            yield "shared"
        else:
            yield "torch" if "torch" in around else "warp"
    for inner in ast.iter_child_nodes(node):
        yield from _captures_of(inner, name, around)


def _opened(node: ast.expr) -> str | None:
    """The capture that a context manager opens; one that Torch has begun is made known to Warp as ``external``."""
    if not isinstance(node, ast.Call):
        return None
    text = dotted_text(node.func)
    if text.rpartition(".")[2] == "ScopedCapture":
        external = [keyword.value for keyword in node.keywords if keyword.arg == "external"]
        return (
            "shared" if external and not (isinstance(external[0], ast.Constant) and not external[0].value) else "warp"
        )
    return "torch" if text.endswith("cuda.graph") else None


# -- marks in the source ------------------------------------------------------------------------------------------


_DECORATED = re.compile(r"@[\s\w.\\]*boundary\b")


def _marked(program: Program, names: Names, capture: CaptureKind | None) -> list[Entry]:
    entries: list[Entry] = []
    for module in program.modules.values():
        if "capaudit" not in module.source and module.source.search(_DECORATED) is None:
            continue
        marks = {c.line: c for c in program.comments(module) if c.word == "boundary"}
        for function in module.all_functions:
            origin, kind, label = "", capture, ""
            beyond: dict[str, object] = {}
            for line in _header_lines(function):
                if line in marks:
                    origin = "comment"
                    options = dict(option.partition("=")[::2] for option in marks[line].options)
                    kind = kind or _kind(options.get("capture"))
                    label = options.get("name", "")
                    beyond = {key.replace("-", "_"): _literal(options[key]) for key in options if key in _BEYOND_ONE}
            decorator = _capaudit_decorator(names, function, "boundary")
            if decorator is not None:
                origin = "decorator"
                if isinstance(decorator, ast.Call):
                    for keyword in decorator.keywords:
                        if keyword.arg == "capture" and isinstance(keyword.value, ast.Constant):
                            kind = kind or _kind(str(keyword.value.value))
                        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                            label = str(keyword.value.value)
                        if keyword.arg in _BEYOND_ONE and isinstance(keyword.value, ast.Constant):
                            beyond[keyword.arg] = keyword.value.value
                        if keyword.arg in ("inputs", "outputs"):
                            beyond[keyword.arg] = _texts(keyword.value)
            if origin:
                entry = _make_entry(function, function.cls, kind, origin, label)
                entries.append(replace(entry, boundary=_bounded(entry.boundary, beyond)))
    return entries


_BEYOND_ONE = ("k", "action-sequence", "action_sequence", "speculative")
"""Declarations that would cover more than one control step; the boundary refuses all but the plain values."""


def _literal(text: str) -> object:
    return {"true": True, "false": False}.get(text.lower(), int(text) if text.isascii() and text.isdigit() else text)


def _texts(node: ast.expr) -> tuple[str, ...]:
    """The names of a literal tuple or list; a name that is computed is left out."""
    items = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    return tuple(item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str))


def _bounded(boundary: Boundary, beyond: dict[str, object]) -> Boundary:
    """Return the boundary as declared. Raises BoundaryRefusedError, before anything is analysed, at the ``def``."""
    try:
        return replace(boundary, **beyond)  # type: ignore[arg-type]
    except BoundaryRefusedError as error:
        place = f"{boundary.file}:{boundary.line}"
        raise BoundaryRefusedError(error.message, place=place, remedy=error.remedy) from None


def _kind(text: str | None) -> CaptureKind | None:
    match text:
        case "torch" | "warp" | "shared":
            return text
        case _:
            return None


def _make_entry(
    function: FunctionInfo,
    cls: ClassInfo | None,
    kind: CaptureKind | None,
    origin: str,
    label: str = "",
    region: ast.With | ast.AsyncWith | None = None,
) -> Entry:
    path = f"{function.module.name}:{function.qualname}"
    if cls is not None and function.cls is not cls:
        path = f"{cls.module.name}:{cls.qualname}.{function.name}"
    line = region.lineno if region is not None else function.line
    # Several captures may stand in one function: the line keeps their reports apart.
    shown = f"{path}:{line}" if region is not None else path
    boundary = Boundary(
        label or shown, path, kind or inferred_capture(function.module, function), origin, function.module.file, line
    )
    return Entry(boundary, function, cls, region)


def _header_lines(function: FunctionInfo) -> list[int]:
    """Lines whose comments belong to a ``def``: the line above, the decorators, the header up to the body."""
    node = function.node
    if isinstance(node, ast.Lambda):
        return []
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    body = node.body[0]
    last = body.lineno - 1 if body.lineno > node.lineno else node.lineno
    header_end = max(
        [node.lineno, *(a.end_lineno or 0 for a in node.args.args), getattr(node.returns, "end_lineno", 0) or 0]
    )
    return list(range(first - 1, max(min(last, header_end), node.lineno) + 1))


def _capaudit_decorator(names: Names, function: FunctionInfo, wanted: str) -> ast.expr | None:
    if isinstance(function.node, ast.Lambda):
        return None
    for decorator in function.node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if dotted_text(target).rpartition(".")[2] != wanted:
            continue
        symbol = names.expression(function.module, target)
        path = symbol.path if isinstance(symbol, External) else getattr(symbol, "owner", "")
        if path.startswith("capaudit."):
            return decorator
    return None


def owned_functions(program: Program, names: Names, entries: list[Entry]) -> dict[FunctionInfo, tuple[str, str]]:
    """Functions whose ownership the source or a boundary's declaration states, with the reason."""
    owned: dict[FunctionInfo, tuple[str, str]] = {}
    patterns = [
        (pattern, ownership, entry.boundary.name)
        for entry in entries
        for ownership, group in (
            ("completion-owned", entry.boundary.completion_owned),
            ("cold-path", (*entry.boundary.cold_path, *entry.boundary.exclude)),
        )
        for pattern in group
    ]
    for module in program.modules.values():
        marks = {}
        if "capaudit" in module.source:
            marks = {c.line: c for c in program.comments(module) if c.word in ("completion-owned", "cold-path")}
        if not marks and not patterns and "capaudit" not in module.source:
            continue
        for function in module.all_functions:
            for pattern, ownership, name in patterns:
                if fnmatchcase(function.owner, pattern) or fnmatchcase(function.qualname, pattern):
                    owned[function] = (ownership, f"declared {ownership} by boundary {name}")
            for line in _header_lines(function):
                if line in marks:
                    owned[function] = (
                        marks[line].word,
                        marks[line].reason or f"declared {marks[line].word} in the source",
                    )
            for word in ("completion_owned", "cold_path"):
                decorator = _capaudit_decorator(names, function, word)
                if decorator is not None:
                    owned[function] = (word.replace("_", "-"), _reason(decorator))
    return owned


def _reason(decorator: ast.expr) -> str:
    if isinstance(decorator, ast.Call) and decorator.args and isinstance(decorator.args[0], ast.Constant):
        return str(decorator.args[0].value)
    return "declared by a decorator"


_WORDS = ("boundary", "ignore", "completion-owned", "cold-path")


def stray_comments(program: Program) -> list[tuple[Module, CapauditComment, str]]:
    """``# capaudit:`` comments that mean nothing where they stand: misspelt, or on no function."""
    found: list[tuple[Module, CapauditComment, str]] = []
    for module in program.modules.values():
        comments = [c for c in program.comments(module) if c.word != "ignore"]
        if not comments:
            continue
        lines = {line for function in module.all_functions for line in _header_lines(function)}
        for comment in comments:
            options = dict(option.partition("=")[::2] for option in comment.options)
            if comment.word not in _WORDS:
                near = difflib.get_close_matches(comment.word, _WORDS, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; the words are {', '.join(_WORDS)}"
                found.append((module, comment, f"'capaudit: {comment.word}' says nothing{hint}"))
            elif comment.line not in lines:
                found.append(
                    (
                        module,
                        comment,
                        f"'capaudit: {comment.word}' stands on no function or method of a module or class, so "
                        "it declares nothing",
                    )
                )
            elif comment.word == "boundary" and "capture" in options and _kind(options["capture"]) is None:
                found.append((module, comment, f"capture={options['capture']} is none of torch, warp, shared"))
    return found
