"""Whether another text of a file would have led an audit to the same result, and how its lines have moved.

The answer is yes only where it is certain: both texts have the same syntax tree but for positions, which may
move by whole lines, and for docstrings that nobody looked at; and every question that the audit put to the text
has the same answer. A file that was never parsed may have any other tree, as long as it has one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from unicodedata import is_normalized

from capaudit.program.callsites import renaming
from capaudit.program.comments import read_comments
from capaudit.program.reading import decode, is_plain, is_valid, parse_text
from capaudit.program.symbols import Unparsable
from capaudit.program.text import Questions, near
from capaudit.program.words import words_of

Lines = Mapping[int, int]
"""From lines of the old text to lines of the new one: those that are the same, and where syntax begins or ends."""

SHORT = 12
"""Lines below which the audit looks at how long a function is."""

_BREAKS = re.compile(r"[\r\f\v\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Part:
    """Lines ``old`` to ``old_end`` of one text that stand for ``new`` to ``new_end`` of the other, counted from 0."""

    old: int
    old_end: int
    new: int
    new_end: int


@dataclass(frozen=True, slots=True)
class Move:
    """How a file differs: the parts, where its syntax went, and first and last line of its outermost functions.

    ``lines`` is empty where the file was never parsed: nothing of a report lies in it.
    """

    parts: tuple[Part, ...]
    lines: Lines
    functions: tuple[tuple[int, int], ...] = ()

    @property
    def shifts(self) -> bool:
        return any(old != new for old, new in self.lines.items())

    def touches(self, first: int, last: int) -> bool:
        """Return whether anything differs within lines of the old text (counted from 1, both included)."""
        return any(_touches(part, first, last) for part in self.parts)


def compare(old: bytes, new: bytes, file: str, questions: Questions, *, parsed: bool) -> Move | None:
    """Return how a file has moved where the new text leads to the same result, else ``None``."""
    before, after = decode(old, file), decode(new, file)
    if isinstance(before, Unparsable) or isinstance(after, Unparsable):
        return None
    if _BREAKS.search(before) or _BREAKS.search(after) or not (is_plain(before) and is_plain(after)):
        return None
    if not (is_normalized("NFKC", before) and is_normalized("NFKC", after)):
        return None  # a name may be spelt otherwise in the text than in the syntax
    marked = "capaudit" in before or "capaudit" in after
    if marked and not parsed:
        return None
    difference = _difference(before, after)
    kept = dict(_kept(difference.parts, before))
    if marked and not _same_comments(before, after, kept):
        return None
    if not _same_answers(before, after, difference, questions, parsed=parsed):
        return None
    if not parsed:
        return Move(difference.parts, {}) if is_valid(after) else None
    tree, other = parse_text(before, file), parse_text(after, file)
    if isinstance(tree, Unparsable) or isinstance(other, Unparsable):
        return None
    lines = _moved(tree, other, difference.parts, docstrings=file not in questions.literals)
    if lines is None:
        return None
    if any(kept[line] != now for line, now in lines.items() if line in kept):
        return None  # the same line twice: which one is gone is not what it seems
    return Move(difference.parts, {**kept, **lines}, tuple(_functions(tree)))


# -- text ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Difference:
    """The lines that differ, in both texts, and both texts without them."""

    parts: tuple[Part, ...]
    changed: tuple[str, str]
    bare: tuple[str, str]


def _difference(before: str, after: str) -> _Difference:
    old, new = before.split("\n"), after.split("\n")
    parts = tuple(_parts(old, new))
    changed, bare = [], []
    for lines, spans in ((old, [(p.old, p.old_end) for p in parts]), (new, [(p.new, p.new_end) for p in parts])):
        kept = list(lines)
        for first, end in spans:
            kept[first:end] = [""] * (end - first)
        changed.append("\n".join(["", *[line for first, end in spans for line in lines[first:end]], ""]))
        bare.append("\n".join(kept))
    return _Difference(parts, (changed[0], changed[1]), (bare[0], bare[1]))


_AGREEING = 3
"""Lines that have to agree before a difference counts as over."""
_FARTHEST = 300
"""Lines within which the end of a difference is looked for; beyond that it goes on to the common end."""


def _parts(old: list[str], new: list[str]) -> Iterator[Part]:
    """Yield what differs, in order; the lines between are equal, one by one."""
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and old[i] == new[j]:
            i, j = i + 1, j + 1
            continue
        end, new_end = _meeting(old, new, i, j)
        yield Part(i, end, j, new_end)
        i, j = end, new_end


def _meeting(old: list[str], new: list[str], i: int, j: int) -> tuple[int, int]:
    """Return where two lists agree again, as near as possible: for some lines, or to their ends."""
    for distance in range(1, _FARTHEST):
        for skipped in range(distance + 1):
            a, b = i + skipped, j + distance - skipped
            if a <= len(old) and b <= len(new) and old[a : a + _AGREEING] == new[b : b + _AGREEING]:
                return a, b
    tail = 0
    while tail < min(len(old) - i, len(new) - j) and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return len(old) - tail, len(new) - tail


def _kept(parts: tuple[Part, ...], before: str) -> Iterator[tuple[int, int]]:
    """Yield every line that did not differ (counted from 1) and where it is now."""
    line = now = 0
    for part in (*parts, None):
        end = part.old if part is not None else before.count("\n") + 1
        yield from zip(range(line + 1, end + 1), range(now + 1, now + end - line + 1), strict=True)
        if part is not None:
            line, now = part.old_end, part.new_end


def _same_comments(before: str, after: str, kept: Lines) -> bool:
    """Whether the comments that speak to the audit are the same and stand as they stood to the code around them."""
    old, new = read_comments(before), read_comments(after)
    if len(old) != len(new):
        return False
    texts = before.split("\n")
    for one, other in zip(old, new, strict=True):
        last = one.line + 1
        while last < len(texts) and (not texts[last - 1].strip() or texts[last - 1].lstrip().startswith("#")):
            last += 1
        around = range(max(one.line - 1, 1), min(last, len(texts)) + 1)
        if any(kept.get(line) != other.line + line - one.line for line in around):
            return False
        if replace(one, line=0) != replace(other, line=0):
            return False
    return True


def _same_answers(before: str, after: str, difference: _Difference, questions: Questions, *, parsed: bool) -> bool:
    old, new = difference.changed
    strict = questions.local if parsed else {**questions.local, **questions.guarded}
    if any(word in old or word in new for word in strict):
        return False
    for word in questions.guarded:  # a comment may stand between the words of an import
        if word in old or word in new:
            renamed = renaming(word)
            if (renamed.search(before) is None) != (renamed.search(after) is None):
                return False
    words: tuple[set[str], set[str]] | None = None
    for needle in questions.needles:
        if needle not in old and needle not in new and "\n" not in needle:
            continue
        words = words or (words_of(before), words_of(after))
        if (needle in before) != (needle in after) or (needle in words[0]) != (needle in words[1]):
            return False
    texts = (before, after, *difference.bare)
    for text, flags in questions.patterns:
        pattern = re.compile(text, flags)
        found = [[match[0] for match in pattern.finditer(side)] for side in texts]
        if any(other != found[0] for other in found):
            return False
    for nearby, text, flags in questions.near:
        pattern = re.compile(text, flags)
        if len({near(side, nearby, pattern) for side in texts}) > 1:
            return False
    return True


# -- syntax -------------------------------------------------------------------------------------------------------

_LINES = frozenset(["lineno", "end_lineno"])
_COLUMNS = frozenset(["col_offset", "end_col_offset"])
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _moved(old: ast.Module, new: ast.Module, parts: tuple[Part, ...], *, docstrings: bool) -> Lines | None:
    """Return where the lines of a tree are in another one, ``None`` where the trees are not alike."""
    lines: dict[int, int] = {}
    if not _blocks_moved(old, new, parts, lines, docstrings=docstrings):
        return None
    order = sorted(lines)
    return lines if all(lines[a] < lines[b] for a, b in pairwise(order)) else None


def _blocks_moved(
    old: ast.Module | ast.ClassDef,
    new: ast.Module | ast.ClassDef,
    parts: tuple[Part, ...],
    lines: dict[int, int],
    *,
    docstrings: bool,
) -> bool:
    """Walk two blocks side by side; a statement of which no line differs need not be walked."""
    if len(old.body) != len(new.body):
        return False
    first = old.body[0] if docstrings and old.body and _is_docstring(old.body[0]) else None
    for one, other in zip(old.body, new.body, strict=True):
        start, end = _span(one)
        there, there_end = _span(other)
        same_columns = (one.col_offset, one.end_col_offset) == (other.col_offset, other.end_col_offset)
        same_height = end - start == there_end - there and type(one) is type(other)
        if same_columns and same_height and not any(_touches(part, start, end) for part in parts):
            for line in range(start, end + 1):
                if lines.setdefault(line, line - start + there) != line - start + there:
                    return False
        elif isinstance(one, ast.ClassDef) and isinstance(other, ast.ClassDef):
            heads = ast.ClassDef(**{**one.__dict__, "body": []}), ast.ClassDef(**{**other.__dict__, "body": []})
            if not _nodes_moved(*heads, lines) or not _blocks_moved(one, other, parts, lines, docstrings=docstrings):
                return False
        elif not _nodes_moved(one, other, lines, free=one is first, docstrings=docstrings):
            return False
    return True


def _span(node: ast.stmt) -> tuple[int, int]:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(part.lineno for part in decorators)]), node.end_lineno or node.lineno


def _touches(part: Part, first: int, last: int) -> bool:
    """Return whether a part lies within lines of the old text (counted from 1, both included)."""
    if part.old == part.old_end:  # something was put between two lines
        return first <= part.old < last
    return part.old < last and first <= part.old_end


def _nodes_moved(
    old: ast.AST, new: ast.AST, lines: dict[int, int], *, free: bool = False, docstrings: bool = False
) -> bool:
    """Walk two nodes side by side. ``free``: the node is a docstring; ``docstrings``: those below may differ."""
    apart: set[int] = {id(old), id(old.value)} if free and isinstance(old, ast.Expr) else set()
    pairs: list[tuple[object, object]] = [(old, new)]
    while pairs:
        one, other = pairs.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, list):
            assert isinstance(other, list)
            if len(one) != len(other):
                return False
            pairs.extend(zip(one, other, strict=True))
        elif not isinstance(one, ast.AST):
            if repr(one) != repr(other):  # equal is not enough: 0.0 and -0.0
                return False
        else:
            if isinstance(one, _DOCUMENTED):
                if docstrings and one.body and _is_docstring(one.body[0]):
                    apart |= {id(one.body[0]), id(one.body[0].value)}  # type: ignore[attr-defined]
                if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_short(one) != _is_short(other):
                    return False
            fields, others = one.__dict__, other.__dict__
            if fields.keys() != others.keys():
                return False
            for key, value in fields.items():
                there = others[key]
                if key == "end_lineno" and id(one) in apart:
                    continue  # nothing is reported of a docstring, which may end elsewhere
                if key in _LINES:
                    if lines.setdefault(value, there) != there:
                        return False
                elif key in _COLUMNS or (key in ("value", "kind") and id(one) in apart and type(value) is str):
                    if value != there and id(one) not in apart:
                        return False
                elif value is not there:
                    pairs.append((value, there))
    return True


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and type(node.value.value) is str


def _is_short(node: object) -> bool:
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return (node.end_lineno or node.lineno) - node.lineno < SHORT


def _functions(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield first and last line of every function that stands in no other, decorators included."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield _span(node)
        elif isinstance(node, (ast.stmt, ast.Module, ast.excepthandler, ast.match_case)):
            stack.extend(ast.iter_child_nodes(node))
