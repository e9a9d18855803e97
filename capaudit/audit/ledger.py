"""The ledger: every suppression and ownership comment with its reason, its age, and what it does today."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from capaudit.audit.options import AuditOptions
from capaudit.audit.running import audit
from capaudit.model import Finding, Result
from capaudit.program import build_program

_OWNERSHIP = ("completion-owned", "cold-path")
_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One comment. ``silences`` are the codes that it silences today and ``evidence`` what a run said of them.

    ``since`` is the ISO date of the commit that wrote the line, ``None`` where git does not know it;
    ``problems`` are the audit's own complaints about the comment.
    """

    file: str
    line: int
    kind: str
    rules: tuple[str, ...]
    reason: str
    expires: str | None
    silences: tuple[str, ...]
    evidence: tuple[str, ...]
    since: str | None
    age_days: int | None
    problems: tuple[str, ...]


def ledger(options: AuditOptions) -> tuple[LedgerRow, ...]:
    """Return a row per comment, by file and line. Errors: those of ``audit``."""
    result = audit(options)
    configuration = options.configuration
    program = build_program(options.paths, options.working_directory, configuration.excludes, options.unsaved)
    rows: list[LedgerRow] = []
    for module in program.modules.values():
        comments = [c for c in program.comments(module) if c.word == "ignore" or c.word in _OWNERSHIP]
        dates = _dates(options.working_directory / module.file, [comment.line for comment in comments])
        for comment in comments:
            silenced = _silenced(result, module.file, comment.line)
            since = dates.get(comment.line)
            until = next((text.partition("=")[2] for text in comment.options if text.startswith("until=")), None)
            rows.append(
                LedgerRow(
                    file=module.file,
                    line=comment.line,
                    kind=comment.word,
                    rules=comment.rules,
                    reason=comment.reason or "",
                    expires=until,
                    silences=tuple(sorted({finding.code for finding in silenced})),
                    evidence=tuple(sorted({finding.evidence.value for finding in silenced})),
                    since=since,
                    age_days=_age(since, options.today),
                    problems=_problems(result, silenced, module.file, comment.line),
                )
            )
    return tuple(sorted(rows, key=lambda row: (row.file, row.line)))


def _silenced(result: Result, file: str, line: int) -> list[Finding]:
    return [
        finding
        for finding in result.suppressed
        if finding.suppression is not None
        and (finding.suppression.place.file, finding.suppression.place.line) == (file, line)
    ]


def _problems(result: Result, silenced: Sequence[Finding], file: str, line: int) -> tuple[str, ...]:
    places = {finding.place for finding in silenced}
    found = [
        f"{finding.code} {finding.message}"
        for finding in result.findings
        if finding.place.file == file
        and (
            (finding.code in ("CAP902", "CAP903", "CAP904") and finding.place.line == line)
            or (finding.code == "CAP906" and finding.place in places)
        )
    ]
    return tuple(dict.fromkeys(found))


def _age(since: str | None, today: str) -> int | None:
    return None if since is None else (date.fromisoformat(today) - date.fromisoformat(since)).days


def _dates(file: Path, lines: Sequence[int]) -> dict[int, str]:
    """The dates of lines by git's account; nothing where the file is not kept there or the line is not committed."""
    if not lines:
        return {}
    words = ["git", "blame", "--line-porcelain", *(f"-L{line},{line}" for line in lines), "--", file.name]
    try:
        done = subprocess.run(words, cwd=file.parent, capture_output=True, timeout=_TIMEOUT, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if done.returncode != 0:
        return {}
    found: dict[int, str] = {}
    number, mark = 0, ""
    for text in done.stdout.decode(errors="replace").split("\n"):
        words = text.split(" ")
        if text.startswith("\t"):
            number = 0
        elif number == 0 and len(words) >= 3 and words[2].isdigit():
            mark, number = words[0], int(words[2])
        elif words[0] == "author-time" and mark.strip("0"):
            found[number] = datetime.fromtimestamp(int(words[1])).date().isoformat()
    return found
