"""The Markdown summary: what a pull request's comment or a job's page shows, short whatever was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from capaudit.model import EvidenceSummary, Finding, Result
from capaudit.report.levels import level
from capaudit.report.markdown import code, table
from capaudit.report.options import RenderOptions
from capaudit.report.paths import repository_path
from capaudit.report.sentences import cause, path_line
from capaudit.report.source import printable
from capaudit.report.words import NO_BOUNDARY, class_counts, count, name_counts

MARK: Final = "<!-- capaudit -->"
"""Opens every summary, so that a bot finds the comment that it wrote before."""

_SHOWN: Final = 20
_SHOWN_BOUNDARIES: Final = 10
_SHOWN_KINDS: Final = 8
_LONGEST: Final = 200
_LONGEST_NAME: Final = 120


def render(result: Result, options: RenderOptions) -> str:
    """Return the summary: at most 20 findings with their call paths, the rest as a number (below 40,000 characters)."""
    return "\n".join(_lines(result, options)) + "\n"


def _lines(result: Result, options: RenderOptions) -> Iterator[str]:
    yield MARK
    yield f"## capaudit: {_verdict(result)}"
    yield ""
    if not result.boundaries:
        yield NO_BOUNDARY.replace("\n", " ").strip()
        yield ""
    if result.findings:
        yield f"{name_counts((finding.name for finding in result.findings), _SHOWN_KINDS)}."
        yield ""
        # What fails the check comes first, whatever file it stands in.
        ranked = sorted(result.findings, key=lambda finding: ("error", "warning", "note").index(level(finding)))
        shown = ranked[:_SHOWN]
        yield table(("Place", "Rule", "What happens", "Instead"), (_row(finding, options) for finding in shown))
        if len(shown) < len(ranked):
            yield f"and {len(ranked) - len(shown)} more.\n"
        yield from _paths(shown)
    if result.evidence is not None:
        yield from _observed(result.evidence)
    yield from _footer(result, options)


def _verdict(result: Result) -> str:
    boundaries = count(len(result.boundaries), "boundary", "boundaries")
    if result.findings:
        return f"{count(len(result.findings), 'finding')} in {boundaries}"
    return f"no findings in {boundaries}" if result.boundaries else "nothing was audited"


def _row(finding: Finding, options: RenderOptions) -> tuple[str, ...]:
    file = _short(printable(repository_path(finding.place.file, options)), _LONGEST_NAME)
    return (
        code(f"{file}:{finding.place.line}"),
        f"{finding.code} {finding.name}",
        _short(cause(finding)),
        _short(printable(finding.remedy)),
    )


def _paths(findings: list[Finding]) -> Iterator[str]:
    reached = [finding for finding in findings if len(finding.call_path) > 1]
    if not reached:
        return
    yield "<details><summary>How the calls get there</summary>"
    yield ""
    for finding in reached:
        yield f"- {code(f'{finding.code} line {finding.place.line}')}: {code(_middle(path_line(finding)))}"
    yield ""
    yield "</details>"
    yield ""


def _observed(evidence: EvidenceSummary) -> Iterator[str]:
    """Static against observed: what a run on a device says about the findings."""
    header = ("Evidence", "Confirmed", "Refuted", "Not exercised", "Missed")
    numbers = (
        (f"{row.code} {row.name}", *map(str, (row.confirmed, row.refuted, row.not_exercised, row.missed)))
        for row in evidence.rows
    )
    yield table(header, numbers)
    if evidence.stale:
        yield f"{evidence.stale} of these come from a run of other source: probe again.\n"


def _footer(result: Result, options: RenderOptions) -> Iterator[str]:
    statistics = result.statistics
    names = [code(_short(printable(boundary.name), _LONGEST_NAME)) for boundary in result.boundaries]
    if names:
        more = len(names) - _SHOWN_BOUNDARIES
        yield f"Boundaries: {', '.join(names[:_SHOWN_BOUNDARIES])}" + (f" and {more} more." if more > 0 else ".")
    yield f"Operations: {class_counts(statistics.by_class)}."
    accepted = [
        (len(result.suppressed), "suppressed"),
        (len(result.baselined), "accepted by the baseline"),
        (len(result.absent), "gone from the code but still in the baseline"),
    ]
    told = [f"{number} {what}" for number, what in accepted if number]
    if told:
        yield f"Not shown above: {', '.join(told)}."
    if statistics.unresolved:
        fails = "; with `--strict` they fail the check" if options.strict else ""
        yield f"{count(statistics.unresolved, 'call')} could not be resolved{fails}."


def _short(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _middle(text: str) -> str:
    """Cut the middle out of a long call path: its two ends say the most."""
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"
