"""Find and read source files. Every failure becomes an ``Unparsable``, never an exception."""

from __future__ import annotations

import ast
import io
import os
import re
import stat
import symtable
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from capaudit.model import InputError
from capaudit.program.symbols import Unparsable

_SKIPPED_FOLDERS = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".tox",
        ".nox",
        ".venv",
        "venv",
        "node_modules",
        "__pycache__",
        ".mypy_cache",
        ".ruff_cache",
    }
)
_DIGITS = re.compile(r"\b0?[xob]?[0-9a-fA-F_]{3500,}\b")
_NESTING_CAP = 400
"""Deeper syntax than any person writes; the evaluator recurses once or twice per level."""


def find_sources(
    roots: tuple[Path, ...], excludes: Callable[[Path], bool] = lambda _: False, unsaved: Iterable[Path] = ()
) -> list[tuple[Path, Path]]:
    """Return ``(root, file)`` for every Python file under the roots, sorted, without links that leave a root.

    ``excludes`` tells of an absolute path whether it is no part of the program; a file that is itself a root
    is. ``unsaved`` are absolute paths of files that may not be on the disk yet.

    Errors: ``InputError`` for a root that does not exist or holds no Python file at all.
    """
    found: dict[Path, Path] = {}
    for root in roots:
        root = Path(os.path.abspath(root))
        if root.is_file():
            found.setdefault(root, root.parent)
            continue
        if not root.is_dir():
            raise InputError(
                "there is no such file or folder", place=str(root), remedy="name a folder or a Python file that exists"
            )
        for file in _walk(root):
            if not excludes(file):
                found.setdefault(file, root)
    for file in unsaved:
        # A file that is there and was not found is excluded; one that is new belongs to the root around it.
        if file not in found and not file.exists():
            around = [root for root in map(Path, map(os.path.abspath, roots)) if file.is_relative_to(root)]
            root = max(around, key=lambda root: len(root.parts)) if around else file.parent
            if not excludes(file):
                found[file] = root
    return sorted(((root, file) for file, root in found.items()), key=lambda pair: pair[1].as_posix())


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root, followlinks=False, onerror=None):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS and not name.endswith(".egg-info"))
        for name in sorted(files):
            if name.endswith(".py"):
                file = Path(folder, name)
                if file.is_symlink() and not _inside(file, root):
                    continue
                yield file


def _inside(file: Path, root: Path) -> bool:
    try:
        return file.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False


def read_source(file: Path, shown: str) -> tuple[str, ast.Module] | Unparsable:
    """Read and parse one file; honours the coding cookie and a byte-order mark."""
    data = read_bytes(file, shown)
    return data if isinstance(data, Unparsable) else parse_source(data, shown)


def read_bytes(file: Path, shown: str) -> bytes | Unparsable:
    """Read one file."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return Unparsable(shown, 1, 1, "is not a regular file")
        return file.read_bytes()
    except OSError as error:
        return Unparsable(shown, 1, 1, f"cannot be read: {error.strerror or error}")


def parse_source(data: bytes, shown: str) -> tuple[str, ast.Module] | Unparsable:
    """Parse source bytes, or say where and why they cannot be parsed."""
    text = decode(data, shown)
    if isinstance(text, Unparsable):
        return text
    tree = parse_text(text, shown)
    return tree if isinstance(tree, Unparsable) else (text, tree)


def decode(data: bytes, shown: str) -> str | Unparsable:
    """Decode source bytes as Python does."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        return Unparsable(shown, 1, 1, f"cannot be decoded: {error}")


def parse_text(text: str, shown: str) -> ast.Module | Unparsable:
    """Parse source text, or say where and why it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        return Unparsable(shown, error.lineno or 1, max(error.offset or 1, 1), f"is not valid Python: {error.msg}")
    except (RecursionError, MemoryError):
        return Unparsable(shown, 1, 1, "nests too deeply for Python's parser")
    except ValueError as error:
        return Unparsable(shown, 1, 1, f"is not valid Python: {error}")
    if _too_deep(tree, text) or _huge_number(text):
        return Unparsable(
            shown, 1, 1, f"nests more than {_NESTING_CAP} levels deep, or spells a number of thousands of digits"
        )
    return tree


def is_valid(text: str) -> bool:
    """Whether a text is surely accepted by the parser.

    The compiler's symbol table is built from the same parse in half the time, because no objects are made for
    a tree. It refuses a little more, so that a refusal says nothing.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symtable.symtable(text, "<unknown>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def is_plain(text: str) -> bool:
    """Whether a text is no candidate for nesting or numbers that only a look at its tree could refuse."""
    return not _may_be_deep(text) and not _huge_number(text)


def _huge_number(text: str) -> bool:
    """Integers beyond Python's text limit cannot be shown, so nothing near them could be reported."""
    if len(text) <= 3500 or max(map(len, text.split("\n"))) <= 3500:
        return False  # a number stands on one line
    return _DIGITS.search(text) is not None


def _may_be_deep(text: str) -> bool:
    # Only long files or long lines can nest that deeply; the level walk costs as much as the parse.
    if len(text) < 4 * _NESTING_CAP:
        return False
    return max(map(len, text.splitlines()), default=0) >= 2000 or text.count("elif ") >= _NESTING_CAP


def _too_deep(tree: ast.Module, text: str) -> bool:
    if not _may_be_deep(text):
        return False
    level: list[ast.AST] = [tree]
    depth = 0
    while level:
        depth += 1
        if depth > _NESTING_CAP:
            return True
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return False
