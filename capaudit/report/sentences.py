"""A finding in words, for formats that hold a paragraph instead of a code frame."""

from __future__ import annotations

import re
from typing import Final

from capaudit.knowledge import Rule
from capaudit.model import EvidenceVerdict, Finding
from capaudit.report.gate import verdict
from capaudit.report.reasons import reason
from capaudit.report.source import printable

# "handlers[0](1)" would be read as a link to related location 1.
_LINK: Final = re.compile(r"\](?=\()")


def cause(finding: Finding) -> str:
    """Return the message with characters that may not stand in a report replaced."""
    return _LINK.sub("] ", printable(finding.message))


def path_line(finding: Finding) -> str:
    """Return the call path in one line, ``Timers.tick > Timers.restart``; empty without one."""
    return printable(" > ".join(hop.function for hop in finding.call_path))


def paragraph(finding: Finding) -> str:
    """Return cause, way there, story and remedy as one line each: what a person reads who has only this text."""
    return "\n".join(lines(finding))


def lines(finding: Finding) -> list[str]:
    """Return the lines of ``paragraph``; those that have nothing to say are left out."""
    made = [f"{cause(finding)} ({finding.confidence.value})"]
    path = path_line(finding)
    if path:
        made.append(f"Reached by: {path}")
    if finding.why:
        made.append(f"Because: {_LINK.sub('] ', printable('; '.join(finding.why)))}")
    general = reason(finding)
    if general:
        made.append(f"At capture: {general}")
    if finding.remedy:
        made.append(f"Instead: {_LINK.sub('] ', printable(finding.remedy))}")
    if finding.evidence is not EvidenceVerdict.NOT_PROBED:
        made.append(f"Evidence: {printable(verdict(finding))}")
    return made


def plain_page(rule: Rule) -> str:
    """Return a rule's page as plain text: title, cause, remedy, prose; the examples are Markdown only."""
    return f"{rule.title}.\n\nWhy: {rule.message}.\n\nInstead: {rule.remedy}\n\n{rule.prose.strip()}\n"
