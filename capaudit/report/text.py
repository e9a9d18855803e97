"""The report for people: findings grouped by boundary, each with the reason, the way there and a way out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from capaudit.model import Boundary, EvidenceVerdict, Finding, OwnershipClass, Place, Result, Severity, UnresolvedCall
from capaudit.report.folding import fold
from capaudit.report.gate import observed, rule_counts, set_aside, verdict
from capaudit.report.options import RenderOptions
from capaudit.report.paths import uri
from capaudit.report.reasons import reason
from capaudit.report.source import SourceLines, frame, printable, text_width
from capaudit.report.words import NO_BOUNDARY, audit_line, boundary_line, class_counts, count, name_counts

_RED, _YELLOW, _CYAN, _BOLD, _DIM = "31", "33", "36", "1", "2"
_SHOWN_UNRESOLVED = 5
_HANGING, _TEXT = 4, 14


def render(result: Result, options: RenderOptions) -> str:
    """Return the whole report, ending with the summary."""
    return "\n".join(_Text(result, options).lines()) + "\n"


class _Text:
    def __init__(self, result: Result, options: RenderOptions) -> None:
        self.result = result
        self.options = options
        self.sources = SourceLines(options.working_directory, dict(options.sources))
        self.explained: set[str] = set()

    def lines(self) -> Iterator[str]:
        names = [boundary.name for boundary in self.result.boundaries]
        for boundary in self.result.boundaries:
            yield from self.boundary(boundary)
        # Order rules need no boundary, and meta findings such as an unparsable file belong to none.
        apart = [finding for finding in self.result.findings if finding.boundary not in names]
        for orders, head in ((True, "about joint and body order"), (False, "about the audit itself")):
            group = [finding for finding in apart if finding.code.startswith("ORD") is orders]
            if group:
                yield self.paint(head, _BOLD)
                yield ""
            for finding in group:
                yield from self.finding(finding)
        yield from self.unresolved()
        yield from self.pruned()
        yield from self.summary()

    def boundary(self, boundary: Boundary) -> Iterator[str]:
        findings = [finding for finding in self.result.findings if finding.boundary == boundary.name]
        yield self.paint(f"boundary {boundary.name}", _BOLD) + f": {printable(boundary_line(boundary))}"
        if not findings:
            yield "  no findings"
        yield ""
        for finding in findings:
            yield from self.finding(finding)

    def finding(self, finding: Finding) -> Iterator[str]:
        place = finding.place
        color = _RED if finding.ownership is OwnershipClass.REJECTED else _YELLOW
        at = f"{printable(place.file)}:{place.line}:{place.column}"
        where = self.link(self.paint(at, _BOLD), place)
        rule = self.paint(f"{finding.code}[{finding.name}]", color)
        weight = "" if finding.severity is Severity.ERROR else f", {finding.severity.value}"
        said = f"{printable(finding.message)} ({finding.confidence.value}{weight})"
        start = text_width(f"{at}: {finding.code}[{finding.name}] ")
        first, *rest = fold(said, self.options.width, start=start, indent=_HANGING)
        yield f"{where}: {rule} {first}".rstrip()
        yield from (f"{' ' * _HANGING}{line}" for line in rest)
        yield from self.frame(place, color)
        yield from self.labelled("reached by", _call_path(finding))
        yield from self.labelled("because", finding.why)
        yield from self.labelled("at capture", self.first_reason(finding))
        yield from self.labelled("instead", (finding.remedy,) if finding.remedy else ())
        for related in finding.related:
            spot = related.place
            yield from self.labelled("see also", (f"{spot.file}:{spot.line}:{spot.column}: {related.message}",))
            yield from self.frame(spot, _CYAN)
        if finding.evidence is not EvidenceVerdict.NOT_PROBED:
            yield from self.labelled("evidence", (verdict(finding),))
        yield ""

    def first_reason(self, finding: Finding) -> tuple[str, ...]:
        """The rule's own reason, with its first finding: told every time it would bury what differs."""
        text = reason(finding) if finding.code not in self.explained else ""
        self.explained.add(finding.code)
        return (text,) if text else ()

    def frame(self, place: Place, color: str) -> Iterator[str]:
        line = self.sources.line(place.file, place.line)
        if line is None or not line.strip():
            return
        number = str(place.line)
        width = self.options.width
        code, carets = frame(line, place) if width is None else frame(line, place, width - len(number) - 11)
        bar = self.paint("|", _DIM)
        yield f"  {number} {bar} {code}"
        yield f"  {' ' * len(number)} {bar} {self.paint(carets, color)}"

    def labelled(self, label: str, texts: tuple[str, ...]) -> Iterator[str]:
        for index, text in enumerate(texts):
            head = f"{label}:" if index == 0 else ""
            # What follows on the next line stands below the text, a step to the right.
            first, *rest = fold(printable(text), self.options.width, start=_TEXT, indent=_TEXT + 2)
            yield f"  {self.paint(f'{head:<11}', _CYAN)} {first}"
            yield from (f"{' ' * (_TEXT + 2)}{line}" for line in rest)

    def unresolved(self) -> Iterator[str]:
        calls = self.result.unresolved
        if not calls:
            return
        groups = _ranked(calls)
        shown = groups if self.options.verbose else groups[:_SHOWN_UNRESOLVED]
        pronoun = "it is" if len(calls) == 1 else "they are"
        yield self.paint(
            f"{count(len(calls), 'call')} could not be resolved, so nobody knows whether {pronoun} safe", _BOLD
        )
        yield from (f"  {printable(line)}" for group in shown for line in self.group(group))
        if len(shown) < len(groups):
            yield f"  and {count(len(groups) - len(shown), 'more place')} to settle (--verbose lists all)"
        yield ""

    def group(self, calls: list[UnresolvedCall]) -> Iterator[str]:
        first = calls[0]
        yield f"{first.settle} (settles {count(len(calls), 'call')}), for example"
        for call in calls if self.options.verbose else calls[:1]:
            yield f"    {call.place.file}:{call.place.line}:{call.place.column}: {call.text}"

    def pruned(self) -> Iterator[str]:
        branches = self.result.pruned
        if not branches:
            return
        reasons = Counter(branch.reason for branch in branches)
        yield self.paint(f"{count(len(branches), 'branch', 'branches')} left out", _BOLD)
        if self.options.verbose:
            for branch in branches:
                yield f"  {printable(branch.place.file)}:{branch.place.line}: {printable(branch.reason)}"
        else:
            for reason, number in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN_UNRESOLVED]:
                yield f"  {number} x {printable(reason)}"
            yield "  (--verbose lists every branch)"
        yield ""

    def summary(self) -> Iterator[str]:
        result, statistics = self.result, self.result.statistics
        if not result.boundaries:
            yield NO_BOUNDARY.rstrip()
        boundaries = count(len(result.boundaries), "boundary", "boundaries")
        if result.findings:
            names = name_counts(finding.name for finding in result.findings)
            yield self.paint(f"{count(len(result.findings), 'finding')} in {boundaries}", _BOLD) + f": {names}"
        elif result.boundaries:
            yield self.paint(f"no findings in {boundaries}", _BOLD)
        yield (
            f"operations: {class_counts(statistics.by_class)}; "
            f"{count(statistics.functions_reachable, 'function')} reached, {count(statistics.files, 'file')} read"
        )
        yield from (f"audit {audit_line(audit)}" for audit in result.audits)
        yield from set_aside(result)
        if result.evidence is not None:
            yield from observed(result.evidence)
        if statistics.unresolved and self.options.strict:
            yield f"--strict: {count(statistics.unresolved, 'unresolved operation')} fail the check"
        if self.options.statistics:
            yield from rule_counts(result)
            yield f"{count(statistics.calls, 'call')} examined in {statistics.seconds:.2f} s"
        if result.findings:
            yield f"`capaudit explain {result.findings[0].code}` tells more about a rule."

    def link(self, text: str, place: Place) -> str:
        """The text as a link to its file, for terminals that open such (OSC 8)."""
        if not self.options.links:
            return text
        path = os.path.abspath(self.options.working_directory / place.file).replace(os.sep, "/")
        return f"\033]8;;{uri(path)}#L{place.line}\033\\{text}\033]8;;\033\\"

    def paint(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.options.color and text.strip() else text


def _call_path(finding: Finding) -> tuple[str, ...]:
    """Return the hops as lines: the entry with its definition, then each function with the call that enters it."""
    lines = []
    for index, hop in enumerate(finding.call_path):
        arrow, verb = ("", "defined") if index == 0 else ("-> ", "called")
        lines.append(f"{arrow}{hop.function}  ({verb} at {hop.file}:{hop.line})")
    return tuple(lines)


def _ranked(calls: tuple[UnresolvedCall, ...]) -> list[list[UnresolvedCall]]:
    """Group calls by what would settle them, the most rewarding first."""
    groups: dict[str, list[UnresolvedCall]] = {}
    for call in calls:
        groups.setdefault(call.settle, []).append(call)
    return sorted(groups.values(), key=lambda group: (-len(group), group[0].settle))
