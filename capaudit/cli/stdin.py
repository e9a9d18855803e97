"""Source text from stdin: an editor's unsaved file, audited within its program."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capaudit.model import InputError, Result

if TYPE_CHECKING:
    from capaudit.audit import AuditOptions

_NAMELESS = "<stdin>"


@dataclass(frozen=True, slots=True)
class StandardInput:
    """The text on stdin and the absolute path of the file that it stands for."""

    file: Path
    data: bytes
    named: bool

    def options(self, options: AuditOptions) -> AuditOptions:
        """Return the audit's options with the text in the place of its file; without a name it is a program alone."""
        paths = options.paths if self.named else ()
        inside = any(self.file.is_relative_to(os.path.abspath(path)) for path in paths)
        if self.named and not inside and self.file.exists():
            paths = (*paths, self.file)
        return replace(options, paths=paths, unsaved={self.file: self.data})

    def only(self, result: Result, working_directory: Path) -> Result:
        """Return the result with the findings of this file alone."""
        from capaudit.program.index import shown_path

        shown = shown_path(self.file, working_directory)
        return replace(
            result,
            findings=tuple(finding for finding in result.findings if finding.place.file == shown),
            suppressed=tuple(finding for finding in result.suppressed if finding.place.file == shown),
            baselined=tuple(finding for finding in result.baselined if finding.place.file == shown),
            absent=(),
        )

    def lines(self, working_directory: Path) -> dict[str, list[str]]:
        """Return the text's lines under the name that places give the file."""
        from capaudit.program.index import shown_path
        from capaudit.program.reading import parse_source

        parsed = parse_source(self.data, self.file.name)
        text = parsed[0] if isinstance(parsed, tuple) else ""
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return {shown_path(self.file, working_directory): lines}

    def require_python(self) -> None:
        """Refuse text that no audit can read. Errors: ``InputError`` with the place in it."""
        from capaudit.program.index import shown_path
        from capaudit.program.reading import parse_source
        from capaudit.program.symbols import Unparsable

        name = shown_path(self.file, Path.cwd())
        parsed = parse_source(self.data, name)
        if isinstance(parsed, Unparsable):
            raise InputError(
                f"the text on stdin {parsed.cause}",
                place=f"{name}:{parsed.line}:{parsed.column}",
                remedy="pass the Python source of one file",
            )


def read_stdin(paths: tuple[str, ...], name: str | None) -> tuple[tuple[str, ...], StandardInput | None]:
    """Return PATHS without ``-``, and the text on stdin where ``-`` or ``--stdin-filename`` asks for it.

    Errors: ``InputError`` for a name that is no file's, for a closed stdin, and for text that is no Python.
    """
    rest = tuple(path for path in paths if path != "-")
    if rest == paths and name is None:
        return paths, None
    if name is None and rest:
        raise click.UsageError("`-` with other PATHS needs --stdin-filename: which of their files is on stdin?")
    file = Path(os.path.abspath(name if name is not None else _NAMELESS))
    if name is not None:
        _require_file_name(name, file)
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("stdin is closed, so there is no text to audit", remedy="pipe the source into it")
    stream = getattr(sys.stdin, "buffer", sys.stdin)
    data = stream.read()
    given = StandardInput(file, data if isinstance(data, bytes) else data.encode(), name is not None)
    given.require_python()
    return rest, given


def _require_file_name(name: str, file: Path) -> None:
    remedy = "name the Python file whose text is on stdin"
    if not name.strip() or "\0" in name or name.endswith(("/", os.sep)):
        raise InputError(f"--stdin-filename {name!r} is no file name", remedy=remedy)
    try:
        is_folder, parent_is_file = file.is_dir(), file.parent.is_file()
    except OSError as error:
        raise InputError(f"it cannot be used as a path: {error.strerror}", place=name[:200], remedy=remedy) from error
    if is_folder or parent_is_file:
        problem = "it is a folder" if is_folder else f"{file.parent.name} is a file and no folder"
        raise InputError(problem, place=name, remedy=remedy)
    if file.suffix not in (".py", ".pyi"):
        raise InputError("it is no Python file by its name", place=name, remedy=remedy)
