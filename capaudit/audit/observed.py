"""What a device showed, laid beside the audit: verdicts on findings, CAP906, CAP907, and the table of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from capaudit.audit.boundaries import Entry
from capaudit.audit.options import AuditOptions
from capaudit.audit.verdicts import fingerprint
from capaudit.evidence.join import Audited, Missed, Start, join
from capaudit.evidence.source import SourceOutline
from capaudit.knowledge import Knowledge
from capaudit.model import (
    Confidence,
    EvidenceRow,
    EvidenceSummary,
    EvidenceVerdict,
    Finding,
    Hop,
    OwnershipClass,
)
from capaudit.program import FunctionInfo, Program


@dataclass(frozen=True, slots=True)
class Observed:
    """Findings with evidence verdicts, those that only the device saw among them, and the table of both."""

    findings: list[Finding]
    summary: EvidenceSummary


def observe(
    options: AuditOptions,
    program: Program,
    knowledge: Knowledge,
    entries: Sequence[Entry],
    owned: dict[FunctionInfo, tuple[str, str]],
    findings: list[Finding],
) -> Observed:
    """Join ``options.evidence`` with the findings; CAP907 for what a run saw and the audit did not predict."""
    outlines: dict[str, SourceOutline | None] = {}

    def outline(file: str) -> SourceOutline | None:
        if file not in outlines:
            module = program.by_file.get(file)
            outlines[file] = SourceOutline(module.source, module.tree) if module is not None else None
        return outlines[file]

    audited = Audited(
        files=tuple(program.by_file),
        folder=options.working_directory,
        outline=outline,
        starts=tuple(_start(entry) for entry in entries),
        versions=options.configuration.versions,
        owned=frozenset((function.module.file, function.qualname) for function in owned),
    )
    joined = join(findings, options.evidence, audited)
    missed = [_missed(item, knowledge) for item in joined.missed]
    rows = _rows(joined.findings, joined.missed, knowledge)
    documents = tuple(name for name, document in options.evidence if document.kind == "run")
    return Observed(
        [*joined.findings, *missed], EvidenceSummary(documents, rows, joined.stale, joined.unexercised, joined.foreign)
    )


def contradictions(findings: Sequence[Finding], knowledge: Knowledge) -> list[Finding]:
    """Return a CAP906 for each finding, suppressed or not, that a run refuted."""
    found = []
    rule = knowledge.rules["CAP906"]
    for finding in findings:
        if finding.evidence is not EvidenceVerdict.REFUTED or finding.observation is None:
            continue
        seen = finding.observation
        kept = "suppressed finding" if finding.suppression is not None else "finding"
        found.append(
            Finding(
                code="CAP906",
                name=rule.name,
                ownership=OwnershipClass.REJECTED,
                hazard=None,
                place=finding.place,
                statement=finding.statement,
                message=f"{seen.document} contradicts the {kept} {finding.code} {finding.name}: "
                f"in its {seen.mode} {seen.detail}",
                confidence=Confidence.CERTAIN,
                boundary=finding.boundary,
                call_path=finding.call_path,
                why=(),
                remedy=rule.remedy,
                fingerprint=fingerprint("CAP906", finding.fingerprint),
                operation=finding.operation,
                text=finding.text,
                evidence=finding.evidence,
                observation=seen,
            )
        )
    return found


def _start(entry: Entry) -> Start:
    node = entry.region or entry.function.node
    return Start(
        entry.boundary.name,
        entry.boundary.capture,
        entry.function.module.file,
        entry.function.qualname,
        node.lineno,
        node.end_lineno or node.lineno,
    )


def _missed(item: Missed, knowledge: Knowledge) -> Finding:
    rule, hazard = knowledge.rules["CAP907"], knowledge.rules.get(item.hazard)
    name = f"{item.hazard} {hazard.name}" if hazard is not None else item.hazard
    seen = item.observation
    times = "once" if seen.count == 1 else f"{seen.count} times"
    return Finding(
        code="CAP907",
        name=rule.name,
        ownership=OwnershipClass.REJECTED,
        hazard=None,
        place=item.place,
        statement=item.place,
        message=f"{seen.document} shows {name} on this statement, and the audit did not predict it",
        confidence=Confidence.CERTAIN,
        boundary=item.boundary,
        call_path=tuple(Hop(function, file, line) for function, file, line in item.path),
        why=(f"seen {times} in the run's {seen.mode}: {seen.detail}",),
        remedy=rule.remedy,
        fingerprint=fingerprint("CAP907", item.hazard, item.place.file.rpartition("/")[2], item.function, item.text),
        operation=item.hazard,
        text=item.text,
        evidence=EvidenceVerdict.CONFIRMED,
        observation=seen,
    )


def _rows(findings: Sequence[Finding], missed: Sequence[Missed], knowledge: Knowledge) -> tuple[EvidenceRow, ...]:
    counts = Counter((finding.code, finding.evidence) for finding in findings if finding.hazard is not None)
    overlooked = Counter(item.hazard for item in missed)
    codes = sorted({code for code, _ in counts} | set(overlooked))
    return tuple(
        EvidenceRow(
            code=code,
            name=knowledge.rules[code].name if code in knowledge.rules else code,
            confirmed=counts[code, EvidenceVerdict.CONFIRMED],
            refuted=counts[code, EvidenceVerdict.REFUTED],
            not_exercised=counts[code, EvidenceVerdict.NOT_EXERCISED],
            missed=overlooked[code],
        )
        for code in codes
    )
