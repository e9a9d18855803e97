"""Findings as an editor shows them: a mark with the call path as related places."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lsprotocol import types
from pygls import uris

from capaudit.lsp.positions import line_range, split_lines, to_range
from capaudit.model import Finding, Result
from capaudit.report.levels import level
from capaudit.report.sentences import cause

SOURCE: Final = "capaudit"
_SEVERITY: Final = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding with its diagnostic; ``path`` is the absolute path of its file."""

    finding: Finding
    path: Path
    diagnostic: types.Diagnostic


def marks(result: Result, folder: Path, text_of: Callable[[Path], str], encoding: str) -> list[Mark]:
    """Return one mark per finding. ``text_of`` gives the text that was audited, unsaved or from the disk."""
    converter = _Converter(folder, text_of, encoding)
    return [converter.mark(finding) for finding in result.findings]


def mark_path(folder: Path, file: str) -> Path:
    """Return the absolute path of a file of a result, spelled as an editor's URI gives it back."""
    path = Path(os.path.normpath(folder / file))
    return Path(uris.to_fs_path(uris.from_fs_path(str(path)) or "") or path)


class _Converter:
    def __init__(self, folder: Path, text_of: Callable[[Path], str], encoding: str) -> None:
        self.folder = folder
        self.encoding = encoding
        self._text_of = text_of
        self._lines: dict[Path, Sequence[str]] = {}

    def path(self, file: str) -> Path:
        return mark_path(self.folder, file)

    def lines(self, path: Path) -> Sequence[str]:
        if path not in self._lines:
            self._lines[path] = split_lines(self._text_of(path))
        return self._lines[path]

    def mark(self, finding: Finding) -> Mark:
        path = self.path(finding.place.file)
        diagnostic = types.Diagnostic(
            range=to_range(finding.place, self.lines(path), self.encoding),
            message=_message(finding),
            severity=_SEVERITY[level(finding)],
            code=finding.code,
            source=SOURCE,
            related_information=self.related(finding) or None,
            data={"fingerprint": finding.fingerprint, "name": finding.name},
        )
        return Mark(finding, path, diagnostic)

    def related(self, finding: Finding) -> list[types.DiagnosticRelatedInformation]:
        """The call path from the boundary on, then the second places."""
        found = []
        for index, hop in enumerate(finding.call_path):
            text = f"boundary {finding.boundary}: {hop.function}" if index == 0 else f"calls {hop.function}"
            path = self.path(hop.file)
            found.append(self.information(path, line_range(hop.line, self.lines(path), self.encoding), text))
        for related in finding.related:
            path = self.path(related.place.file)
            where = to_range(related.place, self.lines(path), self.encoding)
            found.append(self.information(path, where, related.message))
        return found

    def information(self, path: Path, where: types.Range, text: str) -> types.DiagnosticRelatedInformation:
        location = types.Location(uris.from_fs_path(str(path)) or path.as_uri(), where)
        return types.DiagnosticRelatedInformation(location, text)


def _message(finding: Finding) -> str:
    lines = [f"{finding.name}: {cause(finding)} ({finding.confidence.value})"]
    if finding.remedy:
        lines.append(f"Instead: {finding.remedy}")
    return "\n".join(lines)
