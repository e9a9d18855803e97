"""What a gate adds to the text report: what was set aside, and static findings beside what a device showed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from capaudit.model import EvidenceSummary, EvidenceVerdict, Finding, Result
from capaudit.report.source import printable
from capaudit.report.words import count

_SHOWN_DOCUMENTS = 3
_HEADER = ("hazard", "confirmed", "refuted", "not exercised", "missed")


def set_aside(result: Result) -> Iterator[str]:
    """Say what is not among the findings: suppressed, accepted, and entries that nothing matches any more."""
    if result.suppressed:
        yield f"{count(len(result.suppressed), 'finding')} suppressed in the source"
    if result.baselined:
        yield f"{count(len(result.baselined), 'finding')} accepted: in the baseline or there before"
    if result.absent:
        number = count(len(result.absent), "baseline entry", "baseline entries")
        verb = "matches" if len(result.absent) == 1 else "match"
        pronoun = "it" if len(result.absent) == 1 else "them"
        yield f"{number} {verb} nothing any more: `capaudit baseline update` takes {pronoun} out"


def rule_counts(result: Result) -> Iterator[str]:
    """Count the findings per rule, the most frequent first."""
    counted = Counter((finding.code, finding.name) for finding in result.findings)
    width = len(str(max(counted.values(), default=0)))
    for (code, name), number in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        yield f"{number:>{width}}  {code}  {name}"


def observed(summary: EvidenceSummary) -> Iterator[str]:
    """Lay the counts of the audit beside those of the runs, per hazard, with a total."""
    names = [printable(name) for name in summary.documents]
    if len(names) > _SHOWN_DOCUMENTS:
        names = [*names[:_SHOWN_DOCUMENTS], f"and {len(names) - _SHOWN_DOCUMENTS} more"]
    yield f"evidence: {', '.join(names) or 'no document of a run'}"
    rows = [
        (f"{row.code} {row.name}", row.confirmed, row.refuted, row.not_exercised, row.missed) for row in summary.rows
    ]
    totals = tuple(sum(int(row[column]) for row in rows) for column in range(1, len(_HEADER)))
    cells = [_HEADER, *(tuple(map(str, row)) for row in rows), ("in all", *map(str, totals))]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADER))]
    for line in cells:
        numbers = (text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True))
        yield f"  {line[0].ljust(widths[0])}  {'  '.join(numbers)}".rstrip()
    if summary.stale:
        yield f"  stale: {count(summary.stale, 'item')} of this evidence, taken on source that reads differently now"
    for name in summary.foreign[:_SHOWN_DOCUMENTS]:
        yield f"  {printable(name)} speaks of no file that was audited"
    if len(summary.foreign) > _SHOWN_DOCUMENTS:
        yield f"  nor do {count(len(summary.foreign) - _SHOWN_DOCUMENTS, 'other document')}"
    for name in summary.unexercised:
        yield f"  boundary {printable(name)}: no run on a device executed its entry as it reads today"


def verdict(finding: Finding) -> str:
    """Return what evidence says of one finding, with the run that says so."""
    seen = finding.observation
    if seen is None:
        return finding.evidence.value
    stale = ", stale: the function reads differently now" if seen.stale else ""
    times = f" {seen.count} times" if seen.count > 1 else ""
    if finding.evidence is EvidenceVerdict.CONFIRMED:
        return f"confirmed by {seen.document}{times} ({seen.detail}{stale})"
    return f"{finding.evidence.value} by {seen.document} ({seen.detail}{stale})"
