"""What ran, in words that survive an edit: functions by the digest of their text, statements by their own text.

The probe writes these beside its events and the join compares them with the source as it stands, so that
moved lines, comments and blank lines change nothing and an edited function is known for one.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import textwrap
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

_LONGEST_TEXT = 400
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement by its lines; a compound statement ends with its header. ``text`` is on one line."""

    first: int
    last: int
    text: str


@dataclass(frozen=True)
class FunctionSource:
    """A function's text. ``name`` is as ``co_qualname`` has it; ``first`` is the first decorator's line."""

    name: str
    first: int
    last: int
    lines: tuple[str, ...]

    @cached_property
    def code_lines(self) -> tuple[int, ...]:
        """The numbers of the lines that hold code, in order: neither blank nor a comment alone."""
        return tuple(self.first + index for index, text in enumerate(self._bare) if text.strip())

    @cached_property
    def digest(self) -> str:
        """A hash of the code, blind to comments, blank lines and where the function stands."""
        code = textwrap.dedent("\n".join(text.rstrip() for text in self._bare if text.strip()))
        return hashlib.sha256(code.encode(errors="backslashreplace")).hexdigest()[:16]

    @cached_property
    def _bare(self) -> tuple[str, ...]:
        if not any("#" in line for line in self.lines):
            return self.lines
        bare = list(self.lines)
        indent = len(self.lines[0]) - len(self.lines[0].lstrip())
        # Under a stand-in header a method's lines are a program of their own.
        text = "\n".join(["if 1:", *self.lines] if indent else self.lines) + "\n"
        shift = 2 if indent else 1
        try:
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.COMMENT:
                    index = token.start[0] - shift
                    bare[index] = bare[index][: token.start[1]]
        except (tokenize.TokenError, SyntaxError, IndexError):
            pass  # what follows an odd place keeps its comments, on both sides alike
        return tuple(bare)


class SourceOutline:
    """The functions and statements of one file. Text that does not parse has none."""

    def __init__(self, source: str, tree: ast.Module | None = None) -> None:
        # Only the line breaks that Python counts: str.splitlines also breaks at form feeds.
        self.lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self.tree = tree if tree is not None else _parse(source)

    @cached_property
    def functions(self) -> tuple[FunctionSource, ...]:
        """Every function, outer ones before those inside them."""
        return tuple(self._functions(self.tree.body, "")) if self.tree is not None else ()

    @cached_property
    def _by_name(self) -> dict[str, tuple[FunctionSource, ...]]:
        found: dict[str, tuple[FunctionSource, ...]] = {}
        for function in self.functions:
            found[function.name] = (*found.get(function.name, ()), function)
        return found

    def named(self, name: str) -> tuple[FunctionSource, ...]:
        """Return the functions of that name: several where a name is bound twice."""
        return self._by_name.get(name, ())

    def function_at(self, line: int) -> FunctionSource | None:
        """Return the innermost function that holds a line."""
        holders = [function for function in self.functions if function.first <= line <= function.last]
        return max(holders, key=lambda function: function.first) if holders else None

    def statement_at(self, line: int) -> Statement | None:
        """Return the innermost statement that holds a line, with compound statements reduced to their headers."""
        node = self.node_at(line)
        if node is None:
            return None
        first, last = _first_line(node), header_end(node)
        return Statement(first, last, statement_text(self.lines[first - 1 : last]))

    def node_at(self, line: int) -> ast.stmt | None:
        """Return the innermost statement whose header holds a line."""
        best: ast.stmt | None = None
        scope: list[ast.stmt] = list(self.tree.body) if self.tree is not None else []
        while scope:
            inner = next((node for node in scope if _first_line(node) <= line <= (node.end_lineno or 0)), None)
            if inner is None:
                break
            if _first_line(inner) <= line <= header_end(inner):
                best = inner
            scope = _inner_statements(inner)
        return best

    def _functions(self, body: Iterable[ast.AST], prefix: str) -> Iterator[FunctionSource]:
        for node in body:
            if not isinstance(node, _SCOPES):
                yield from self._functions(_inner_statements(node), prefix)
                continue
            name = f"{prefix}{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from self._functions(node.body, f"{name}.")
                continue
            first, last = _first_line(node), node.end_lineno or node.lineno
            yield FunctionSource(name, first, last, tuple(self.lines[first - 1 : last]))
            yield from self._functions(node.body, f"{name}.<locals>.")


def owner_name(code_name: str) -> str:
    """Return the function that a code object's name belongs to: comprehensions and lambdas stand in their function."""
    name = re.sub(r"(\.<locals>)?\.<(?!locals>)[a-z]+>(\..*)?$", "", code_name)
    return "" if name.startswith("<") else name


def statement_text(lines: Iterable[str]) -> str:
    """Return a statement's lines as one, without the comments at their ends."""
    bare = [_without_comment(line) if "#" in line else line for line in lines]
    text = " ".join(" ".join(bare).split())
    return text[:_LONGEST_TEXT]


def same_statement(one: str, other: str) -> bool:
    """Return whether two statements differ in layout alone: blanks, line breaks, trailing commas."""
    return bool(one) and _key(one) == _key(other)


def encode_lines(numbers: Iterable[int]) -> str:
    """Return ``0-3,5`` for 0, 1, 2, 3, 5."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def decode_lines(text: str) -> frozenset[int]:
    """Read what ``encode_lines`` wrote. Raises ValueError for anything else, and for absurd ranges."""
    numbers: set[int] = set()
    for part in text.split(",") if text else ():
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            raise ValueError(f"{part[:40]!r} is no range of lines")
        numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(numbers)


def header_end(statement: ast.AST) -> int:
    """Return the last line of a statement, or of the header of a compound one."""
    match statement:
        case ast.If() | ast.While():
            return statement.test.end_lineno or 0
        case ast.For() | ast.AsyncFor():
            return statement.iter.end_lineno or 0
        case ast.With() | ast.AsyncWith():
            last = statement.items[-1].optional_vars or statement.items[-1].context_expr
            return last.end_lineno or 0
        case ast.Match():
            return statement.subject.end_lineno or 0
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Try() | ast.TryStar():
            return statement.lineno
        case _:
            return int(getattr(statement, "end_lineno", 0) or 0)


def _parse(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _first_line(node: ast.AST) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([int(getattr(node, "lineno", 0)), *(decorator.lineno for decorator in decorators)])


def _inner_statements(node: ast.AST) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for name in ("body", "orelse", "finalbody"):
        found += [child for child in getattr(node, name, ()) or () if isinstance(child, ast.stmt)]
    for holder in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        found += holder.body
    return found


def _without_comment(line: str) -> str:
    try:
        for token in tokenize.generate_tokens(io.StringIO(line.strip() + "\n").readline):
            if token.type == tokenize.COMMENT:
                return line.strip()[: token.start[1]]
    except (tokenize.TokenError, SyntaxError):
        # A line of a longer statement: up to its end the tokens were read already, so look for the comment alone.
        match = re.search(r"(?<=[\s,(\[{])#[^'\"]*$", line)
        return line[: match.start()] if match else line
    return line


def _key(text: str) -> str:
    bare = re.sub(r"\s+", "", text[:_LONGEST_TEXT])
    return re.sub(r",(?=[)\]}])", "", bare)
