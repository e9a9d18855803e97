"""Audits of a program in which somebody types: most of its states were there before, or are half a word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from capaudit.audit.configuration import Configuration
from capaudit.audit.options import AuditOptions
from capaudit.audit.reuse import Kept
from capaudit.audit.running import audit
from capaudit.model import Result
from capaudit.program.index import shown_path
from capaudit.program.reading import parse_source
from capaudit.program.symbols import Unparsable


class Session:
    """What is known from one audit to the next: some earlier results, and the last one."""

    def __init__(self) -> None:
        self._kept = Kept()
        self._last: tuple[Configuration, dict[Path, bytes], Result] | None = None
        self._parsed: dict[Path, tuple[bytes, Unparsable | None]] = {}

    def audit(self, options: AuditOptions) -> Result:
        """Audit as ``running.audit`` does.

        While a file is broken that was whole the last time, and nothing else has changed, the findings in the other
        files stand: half a word is no change of the program. Errors: as ``running.audit``.
        """
        broken = self._broken(options)
        if broken and (waiting := self._meanwhile(options, broken)) is not None:
            return waiting
        result = audit(options, self._kept)
        self._last = None if broken else (options.configuration, dict(options.unsaved), result)
        return result

    def _broken(self, options: AuditOptions) -> dict[Path, Unparsable]:
        parsed = {}
        for path, data in options.unsaved.items():
            known = self._parsed.get(path)
            if known is None or known[0] != data:
                tree = parse_source(data, shown_path(path, options.working_directory))
                known = data, tree if isinstance(tree, Unparsable) else None
            parsed[path] = known
        self._parsed = parsed
        return {path: problem for path, (_, problem) in parsed.items() if problem is not None}

    def _meanwhile(self, options: AuditOptions, broken: dict[Path, Unparsable]) -> Result | None:
        if self._last is None:
            return None
        configuration, unsaved, result = self._last
        files = {problem.file for problem in broken.values()}
        others = {path: data for path, data in options.unsaved.items() if path not in broken}
        before = {path: data for path, data in unsaved.items() if path not in broken}
        if configuration != options.configuration or others != before or not files <= set(result.files):
            return None
        from capaudit.audit.engine import broken_file  # takes long to load, as does the knowledge behind it
        from capaudit.knowledge import load

        ending = "until it is whole again the last findings in the other files stand"
        findings = [finding for finding in result.findings if finding.place.file not in files]
        findings.extend(broken_file(problem, load(), ending) for problem in broken.values())
        suppressed = [finding for finding in result.suppressed if finding.place.file not in files]
        ordered = tuple(sorted(findings, key=lambda finding: finding.sort_key))
        return replace(result, findings=ordered, suppressed=tuple(suppressed))
