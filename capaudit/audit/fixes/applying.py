"""Fixes put into source text: which of them go together, what the file reads like after, and writing it.

The text is spliced, so whatever no edit touches stays byte for byte. libcst referees the result: a fix
whose result does not parse, or loses a comment, is left out and said so.
"""

from __future__ import annotations

import codecs
import difflib
import io
import tokenize
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from capaudit.model import Edit, Finding, Fix, InputError, Place
from capaudit.program.writing import replace_file


@dataclass(slots=True)
class Rewrite:
    """One file before and after. ``fixes`` went in; ``dropped`` did not, with the reason."""

    file: str
    before: bytes
    after: bytes
    fixes: list[Fix] = field(default_factory=list)
    dropped: list[tuple[Fix, str]] = field(default_factory=list)

    def diff(self) -> str:
        """Return a unified diff; empty where nothing changed."""
        encoding = _encoding(self.before)
        old, new = (_text(data, encoding).splitlines(keepends=True) for data in (self.before, self.after))
        lines = difflib.unified_diff(old, new, f"a/{self.file}", f"b/{self.file}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def rewrites(
    findings: Iterable[Finding],
    untouched: Iterable[Finding],
    folder: Path,
    *,
    unsafe: bool = False,
    unsaved: Mapping[Path, bytes] | None = None,
) -> list[Rewrite]:
    """Return the files that the fixes of ``findings`` change, in order of name; nothing is written.

    Safe fixes, and with ``unsafe`` the others too. A fix whose edits meet a statement of an ``untouched``
    (suppressed or baselined) finding stays out, and of fixes that overlap the first one goes in. ``unsaved``
    holds content by absolute path that stands for what the disk has.
    Errors: ``InputError`` for a file that cannot be read, and where libcst is not installed.
    """
    wanted: dict[tuple[Edit, ...], Fix] = {}
    for finding in findings:
        if finding.fix is not None and (finding.fix.safe or unsafe):
            wanted.setdefault(finding.fix.edits, finding.fix)
    kept = [finding.statement for finding in untouched]
    taken: list[Place] = []
    by_file: dict[str, list[Fix]] = {}
    for fix in sorted(wanted.values(), key=lambda fix: (sorted(fix.edits), fix.name)):
        places = [edit.place for edit in fix.edits]
        if any(_meet(place, other) for place in places for other in (*kept, *taken)):
            continue
        taken += places
        by_file.setdefault(places[0].file, []).append(fix)
    unsaved = {path.resolve(): data for path, data in (unsaved or {}).items()}
    return [_rewrite(file, fixes, folder, unsaved) for file, fixes in sorted(by_file.items())]


def write(rewrite: Rewrite, folder: Path) -> None:
    """Put the new content in place at once: a reader sees the old file or the new one, never a part.

    Errors: ``InputError`` where the file has changed since it was audited, or cannot be written.
    """
    path = folder / rewrite.file
    try:
        if path.read_bytes() != rewrite.before:
            raise InputError("the file has changed meanwhile", place=rewrite.file, remedy="run the check again")
        replace_file(path, rewrite.after)
    except OSError as error:
        raise InputError(f"the fixed file cannot be written: {error.strerror}", place=rewrite.file) from error


def _meet(left: Place, right: Place) -> bool:
    if left.file != right.file:
        return False
    start, end = (left.line, left.column), (left.end_line, left.end_column)
    other, until = (right.line, right.column), (right.end_line, right.end_column)
    return (start < until and other < end) or (start, end) == (other, until)


def _rewrite(file: str, fixes: Sequence[Fix], folder: Path, unsaved: Mapping[Path, bytes]) -> Rewrite:
    path = (folder / file).resolve()
    try:
        before = unsaved[path] if path in unsaved else path.read_bytes()
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}", place=file) from error
    result = Rewrite(file, before, before)
    try:
        encoding = _encoding(before)
        text = before.decode(encoding)
    except (SyntaxError, LookupError, UnicodeError):
        result.dropped = [(fix, "the file's encoding cannot be written back") for fix in fixes]
        return result
    after, problem = _tried(text, fixes, encoding)
    if not problem:
        result.after, result.fixes = after, list(fixes)
        return result
    for fix in fixes:  # one of them is the culprit: put them in one by one
        after, problem = _tried(text, [*result.fixes, fix], encoding)
        if problem:
            result.dropped.append((fix, problem))
        else:
            result.after = after
            result.fixes.append(fix)
    return result


def _tried(text: str, fixes: Sequence[Fix], encoding: str) -> tuple[bytes, str]:
    """Return the new content, and what is wrong with it, if anything."""
    new = _spliced(text, [edit for fix in fixes for edit in fix.edits])
    try:
        data = new.encode(encoding)
    except UnicodeError:
        return b"", "the new text cannot be written in the file's encoding"
    return data, _problem(text, new)


def _spliced(text: str, edits: Sequence[Edit]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    starts = _line_starts(text)
    for edit in sorted(edits, reverse=True):
        place = edit.place
        first = starts[place.line - 1] + place.column - 1
        last = starts[place.end_line - 1] + place.end_column - 1
        text = text[:first] + edit.text.replace("\n", newline) + text[last:]
    return text


def _line_starts(text: str) -> list[int]:
    """Offsets of lines as Python counts them; a byte order mark is no column."""
    starts = [1 if text.startswith("\ufeff") else 0]
    position = starts[0]
    while position < len(text):
        if text[position] == "\r" and text[position + 1 : position + 2] == "\n":
            position += 1
        if text[position] in "\r\n":
            starts.append(position + 1)
        position += 1
    return starts


def _problem(old: str, new: str) -> str:
    cst = _libcst()
    try:
        module = cst.parse_module(new.removeprefix("\ufeff"))
    except (cst.ParserSyntaxError, RecursionError, ValueError) as error:
        return f"the result would not parse ({str(error).splitlines()[0]})"
    if module.code != new.removeprefix("\ufeff"):
        return "the result would not keep its form"
    if _comments(old) - _comments(new):
        return "a comment inside would be lost"
    return ""


def _comments(text: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text.removeprefix("\ufeff")).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def _libcst() -> ModuleType:
    try:
        import libcst
    except ImportError as error:
        raise InputError(
            "fixes are checked with libcst, which is not installed", remedy='pip install "capaudit[fix]"'
        ) from error
    return libcst


def _encoding(data: bytes) -> str:
    """The declared encoding, as one that gives the byte order mark back."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    if encoding == "utf-8-sig":
        return "utf-8"  # decodes the mark as a character, and so writes it back
    if not codecs.lookup(encoding)._is_text_encoding:
        raise LookupError(encoding)
    return encoding


def _text(data: bytes, encoding: str) -> str:
    return data.decode(encoding, errors="replace")
