"""Findings of an earlier check that fit the place in a log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from capaudit.logs.tracebacks import Frame
from capaudit.model import InputError

_SCHEMA: Final = "capaudit-report/1"
_LISTS: Final = ("findings", "suppressed", "baselined")
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A finding of a JSON report. ``functions`` is its call path; ``accepted``: suppressed or in the baseline."""

    code: str
    name: str
    file: str
    line: int
    end_line: int
    column: int
    message: str
    functions: tuple[str, ...] = ()
    accepted: bool = False
    fits: str = ""


def load_findings(file: str) -> tuple[KnownFinding, ...]:
    """Read a report of ``capaudit check --output json``.

    Errors: ``InputError`` for a file that cannot be read or is no such report, with the remedy.
    """
    remedy = "write one with `capaudit check --output json:FILE`"
    try:
        document = json.loads(Path(file).read_bytes())
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8 and a null character in a name are ValueErrors
        detail = error.strerror if isinstance(error, OSError) else "it is not valid JSON"
        raise InputError(f"the report cannot be read: {detail}", place=file[:200], remedy=remedy) from error
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise InputError(f"it is no report of the form {_SCHEMA}", place=file, remedy=remedy)
    found = []
    for name in _LISTS:
        entries = document.get(name, [] if name != "findings" else None)
        if not isinstance(entries, list):
            raise InputError(f"{name} is no list", place=file, remedy=remedy)
        for position, entry in enumerate(entries):
            try:
                found.append(_finding(entry, accepted=name != "findings"))
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(
                    "a finding is incomplete", place=f"{file}: {name}[{position}]", remedy=remedy
                ) from error
    return tuple(found)


def _finding(entry: dict[str, Any], *, accepted: bool) -> KnownFinding:
    texts = [entry[key] for key in ("code", "name", "file", "message")]
    numbers = [entry[key] for key in ("line", "column")] + [entry.get("end_line", entry["line"])]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(number, int) for number in numbers):
        raise TypeError(entry)
    code, name, file, message = texts
    line, column, end_line = numbers
    functions = tuple(str(hop["function"]) for hop in entry.get("call_path", ()))
    return KnownFinding(code, name, file, line, end_line, column, message, functions, accepted)


def fitting(
    findings: Sequence[KnownFinding], frames: Iterable[Frame], hazards: Sequence[str]
) -> tuple[KnownFinding, ...]:
    """Return the findings that fit best, at most three: on the line, in the function, or of the hazard.

    Without a place in the log only the hazard can speak; then the most likely hazard's findings come first.
    """
    own = [frame for frame in frames if frame.file and not frame.is_library]
    graded: list[tuple[int, int, int, KnownFinding, str]] = []
    for position, finding in enumerate(findings):
        grade, depth, fits = _grade(finding, own, hazards)
        if grade:
            graded.append((-grade, depth, position, finding, fits))
    best = sorted(graded, key=lambda entry: entry[:3])
    top = best[0][0] if best else 0
    return tuple(
        KnownFinding(f.code, f.name, f.file, f.line, f.end_line, f.column, f.message, f.functions, f.accepted, fits)
        for grade, _, _, f, fits in best[:_SHOWN]
        if grade == top
    )


def _grade(finding: KnownFinding, own: list[Frame], hazards: Sequence[str]) -> tuple[int, int, str]:
    likely = finding.code in hazards
    rank = hazards.index(finding.code) if likely else len(hazards)
    for depth, frame in enumerate(reversed(own)):
        if not same_file(finding.file, frame.file):
            continue
        if finding.line <= frame.line <= finding.end_line:
            return 4 + likely, depth * 100 + rank, "on this line"
        inner = finding.functions[-1].rpartition(".")[2] if finding.functions else ""
        if likely and inner and inner == frame.function.rpartition(".")[2]:
            return 3, depth * 100 + rank, f"in {frame.function}"
    if likely:
        return 1, rank, "of this kind in the captured code"
    return 0, 0, ""


def same_file(known: str, logged: str) -> bool:
    """Return whether two paths can name one file: the shorter one is the end of the other.

    ``src/env.py`` of a report is ``/home/me/project/src/env.py`` of a log. A bare file name is enough
    only for a file in the folder where the check ran.
    """
    first = [part for part in PurePosixPath(known.replace("\\", "/")).parts if part not in ("..", ".", "/")]
    second = [part for part in PurePosixPath(logged.replace("\\", "/")).parts if part not in ("..", ".", "/")]
    shared = min(len(first), len(second))
    return shared > 0 and first[-shared:] == second[-shared:]
