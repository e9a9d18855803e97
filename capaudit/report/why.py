"""What a log says about a failed capture, as text and JSON (``capaudit-why/1``)."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from capaudit import __version__
from capaudit.knowledge import Rule
from capaudit.logs import Diagnosis, Frame, Incident, KnownFinding
from capaudit.report.source import printable
from capaudit.report.words import count

SCHEMA: Final = "capaudit-why/1"

_WIDTH: Final = 100
_SHOWN_OTHERS: Final = 5
_SHOWN_WRITERS: Final = 8


def render_text(diagnosis: Diagnosis, rules: Mapping[str, Rule], *, asked: bool = False) -> str:
    """Return the diagnosis for a person. ``asked``: a report was at hand, so that its silence is worth a word."""
    if diagnosis.cause is None:
        return _unknown(diagnosis)
    return "\n".join(_lines(diagnosis, diagnosis.cause, rules, asked)) + "\n"


def _unknown(diagnosis: Diagnosis) -> str:
    return (
        f"unknown: nothing in {count(diagnosis.lines, 'line')} is a message about graph capture that capaudit knows.\n"
        "If the run failed while capturing, give its whole output, stderr included, from the start of the capture on.\n"
    )


def _lines(diagnosis: Diagnosis, cause: Incident, rules: Mapping[str, Rule], asked: bool) -> Iterator[str]:
    yield f"cause: {cause.message.title}"
    yield f"  line {cause.line}{_writers(cause)}: {printable(cause.text)}"
    yield ""
    yield f"hazard: {_hazards(cause, rules)}"
    yield ""
    yield from textwrap.wrap(cause.message.cause, _WIDTH)
    yield ""
    yield "noticed at (the cause lies before it):" if cause.message.kind == "consequence" else "most likely place:"
    yield from _place(cause)
    yield ""
    if diagnosis.findings:
        yield "findings of the check that fit:"
        yield from (line for finding in diagnosis.findings for line in _finding(finding))
        yield ""
    elif asked:
        yield "findings of the check that fit: none"
        yield ""
    yield "what to try:"
    for attempt in cause.message.attempts:
        yield from textwrap.wrap(attempt, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    if cause.hazards:
        rule = rules[cause.hazards[0]]
        yield from textwrap.wrap(
            f"{rule.remedy} (`capaudit explain {rule.code}`)", _WIDTH, initial_indent="  - ", subsequent_indent="    "
        )
    if diagnosis.others:
        yield ""
        yield "also in this log:"
        for other in diagnosis.others[:_SHOWN_OTHERS]:
            times = f", {count(other.count, 'time')}" if other.count > 1 else ""
            yield f"  line {other.line}{_writers(other)}{times}: {other.message.title}"
        more = len(diagnosis.others) - _SHOWN_OTHERS
        if more > 0:
            yield f"  and {more} more"


def _writers(incident: Incident) -> str:
    if not incident.writers:
        return ""
    shown = ", ".join(printable(name) for name in incident.writers[:_SHOWN_WRITERS])
    more = len(incident.writers) - _SHOWN_WRITERS
    return f", from {shown}" + (f" and {more} more" if more > 0 else "")


def _hazards(incident: Incident, rules: Mapping[str, Rule]) -> str:
    if not incident.hazards:
        return "none by itself; it follows from something else"
    if incident.message.kind == "consequence":
        names = ", ".join(f"{code}[{rules[code].name}]" for code in incident.hazards)
        return f"not told by this message; most often {names}"
    first, *rest = [f"{code}[{rules[code].name}]" for code in incident.hazards]
    return first + (f", or {', '.join(rest)}" if rest else "")


def _place(incident: Incident) -> Iterator[str]:
    place = incident.place
    if place is None:
        yield "  the log names no line of your own code"
        if incident.frames:
            inner = incident.frames[-1]
            yield f"  innermost in a library: {_where(inner)}"
        return
    yield f"  {_where(place)}"
    if place.code.strip():
        yield f"    {printable(place.code.strip())}"


def _where(frame: Frame) -> str:
    function = f" in {printable(frame.function)}" if frame.function else ""
    return f"{printable(frame.file)}:{frame.line}{function}"


def _finding(finding: KnownFinding) -> Iterator[str]:
    accepted = ", accepted" if finding.accepted else ""
    rule = f"{finding.code}[{finding.name}]"
    yield f"  {printable(finding.file)}:{finding.line}:{finding.column}: {rule} {printable(finding.message)}"
    yield f"    {finding.fits}{accepted}"


def render_json(diagnosis: Diagnosis, rules: Mapping[str, Rule]) -> str:
    """Return the diagnosis for programs; ``cause`` is null when nothing was recognised."""
    document = {
        "schema": SCHEMA,
        "tool": {"name": "capaudit", "version": __version__},
        "lines": diagnosis.lines,
        "recognised": diagnosis.cause is not None,
        "cause": _incident(diagnosis.cause, rules) if diagnosis.cause is not None else None,
        "findings": [_known(finding) for finding in diagnosis.findings],
        "others": [_incident(other, rules) for other in diagnosis.others],
    }
    return json.dumps(document, indent=2) + "\n"


def _incident(incident: Incident, rules: Mapping[str, Rule]) -> dict[str, Any]:
    return {
        "id": incident.message.id,
        "title": incident.message.title,
        "kind": incident.message.kind,
        "cuda_error": incident.message.number,
        "hazards": [{"code": code, "name": rules[code].name} for code in incident.hazards],
        "explanation": incident.message.cause,
        "try": list(incident.message.attempts),
        "line": incident.line,
        "text": incident.text,
        "exception": incident.exception or None,
        "place": _frame(incident.place) if incident.place is not None else None,
        "frames": [_frame(frame) for frame in incident.frames],
        "writers": list(incident.writers),
        "count": incident.count,
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {"file": frame.file, "line": frame.line, "function": frame.function, "code": frame.code.strip()}


def _known(finding: KnownFinding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "message": finding.message,
        "accepted": finding.accepted,
        "fits": finding.fits,
    }
