"""Write suppression comments for findings: with libcst, so that nothing but the comments is new.

Every file is changed in memory first and compared with what was there (the same syntax tree, the findings
silenced), and only then are the files replaced.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from capaudit.audit.engine import audit
from capaudit.audit.options import AuditOptions
from capaudit.knowledge import load
from capaudit.model import Finding, InputError, OwnershipClass, Result
from capaudit.program.reading import parse_source
from capaudit.program.symbols import Unparsable
from capaudit.program.writing import replace_file

_LONGEST_LINE = 120
_CLEARED = "correct the reason: one line of printable text"


@dataclass(frozen=True, slots=True)
class Written:
    """What was changed: ``files`` by name, ``comments`` in all, and the findings that no comment can silence."""

    files: tuple[str, ...]
    comments: int
    left: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Comment:
    line: int  # first line of the statement
    last: int
    rules: tuple[str, ...]


def add_suppressions(result: Result, options: AuditOptions, reason: str) -> Written:
    """Silence the result's findings in their files, each with ``reason``.

    Errors: ``InputError`` for a reason that is no line of text, and for a file that cannot be changed;
    then no file is.
    """
    reason = _checked(reason)
    wanted = _comments(result.findings)
    changed: dict[Path, bytes] = {}
    names: dict[Path, str] = {}
    number = 0
    for file, comments in wanted.items():
        path = options.working_directory / file
        try:
            before = path.read_bytes()
        except OSError as error:
            raise InputError(f"it cannot be read: {error.strerror}", place=file) from error
        after, placed = _edited(before, comments, reason, file)
        if placed:
            absolute = Path(path.absolute())
            changed[absolute], names[absolute] = after, file
            number += placed
    if not changed:
        return Written((), 0, result.findings)
    silenced = audit(replace(options, unsaved={**options.unsaved, **changed}))
    still = {(finding.fingerprint, finding.code) for finding in silenced.findings}
    left = tuple(finding for finding in result.findings if (finding.fingerprint, finding.code) in still)
    for path, data in changed.items():
        try:
            replace_file(path, data)
        except OSError as error:
            raise InputError(f"it cannot be written: {error.strerror}", place=names[path]) from error
    return Written(tuple(sorted(names.values())), number, left)


def _checked(reason: str) -> str:
    text = " ".join(reason.split(" ")).strip()
    if not text or not text.isprintable():
        raise InputError("a suppression needs a reason that is one line of text", remedy=_CLEARED)
    return text


def _comments(findings: Iterable[Finding]) -> dict[str, list[_Comment]]:
    """One comment per statement, naming every rule that fires there."""
    rules = load().rules
    grouped: dict[str, dict[tuple[int, int], dict[str, None]]] = {}
    for finding in findings:
        silenceable = finding.hazard is not None or finding.code == "CAP907"
        if silenceable and finding.ownership is not OwnershipClass.UNRESOLVED:
            span = (finding.statement.line, finding.statement.end_line)
            grouped.setdefault(finding.place.file, {}).setdefault(span, {})[rules[finding.code].name] = None
    return {
        file: [_Comment(first, last, tuple(sorted(names))) for (first, last), names in sorted(spans.items())]
        for file, spans in sorted(grouped.items())
    }


def _edited(data: bytes, comments: list[_Comment], reason: str, file: str) -> tuple[bytes, int]:
    """The file with its comments, and how many found a place."""
    try:
        import libcst
        from libcst.metadata import MetadataWrapper, PositionProvider
    except ImportError:
        raise InputError("--add-suppressions needs libcst", remedy="pip install libcst") from None
    parsed = parse_source(data, file)
    if isinstance(parsed, Unparsable):
        raise InputError(f"the file {parsed.cause}", place=f"{file}:{parsed.line}:{parsed.column}")
    try:
        wrapper = MetadataWrapper(libcst.parse_module(data))
    except (libcst.ParserSyntaxError, RecursionError, UnicodeError) as error:
        detail = str(error).splitlines()[0]
        raise InputError(f"the file cannot be edited: {detail}", place=file) from None
    positions = wrapper.resolve(PositionProvider)
    texts = {comment.line: _text(comment, reason) for comment in comments}
    lines = parsed[0].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    single = {comment.line for comment in comments if comment.last == comment.line}

    class Writer(libcst.CSTTransformer):
        def on_leave(self, original: libcst.CSTNode, updated: libcst.CSTNode) -> libcst.CSTNode:  # type: ignore[override]
            if not hasattr(updated, "leading_lines"):
                return updated
            span = positions[original]
            first, last = span.start.line, span.end.line
            trailing = getattr(updated, "trailing_whitespace", None)
            behind = isinstance(updated, libcst.SimpleStatementLine) and trailing and trailing.comment is None
            for line in dict.fromkeys((first, last)):
                text = texts.get(line)
                if text is None:
                    continue
                fits = line in single and len(lines[line - 1].rstrip()) + 2 + len(text) <= _LONGEST_LINE
                if behind and trailing is not None and line == last and (fits or line != first):
                    # Also for a later statement of the line, after one that goes over several.
                    space = libcst.SimpleWhitespace("  ")
                    new = trailing.with_changes(whitespace=space, comment=libcst.Comment(text))
                    updated = updated.with_changes(trailing_whitespace=new)
                elif line == first:
                    above = libcst.EmptyLine(indent=True, comment=libcst.Comment(text))
                    updated = updated.with_changes(leading_lines=[*updated.leading_lines, above])
                else:
                    continue
                del texts[line]
            return updated

    module = wrapper.module.visit(Writer())
    try:
        after = module.bytes
    except UnicodeEncodeError:
        raise InputError(
            f"the reason cannot be written in the file's encoding ({module.encoding})", place=file, remedy=_CLEARED
        ) from None
    again = parse_source(after, file)
    if isinstance(again, Unparsable) or ast.dump(again[1]) != ast.dump(parsed[1]):
        raise InputError(
            "a comment cannot be placed without changing the program",
            place=file,
            remedy="write `# capaudit: ignore[rule] -- reason` there by hand",
        )
    return after, len(comments) - len(texts)


def _text(comment: _Comment, reason: str) -> str:
    return f"# capaudit: ignore[{', '.join(comment.rules)}] -- {reason}"
