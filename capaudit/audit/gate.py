"""From the audit to what a gate judges: selection, baseline, revision, required evidence, exit status."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from capaudit.audit.baseline import DEFAULT_NAME, apply_baseline, compare, read_baseline
from capaudit.audit.configuration import Configuration
from capaudit.audit.options import AuditOptions
from capaudit.audit.selection import select
from capaudit.model import EvidenceVerdict, InputError, OwnershipClass, Result, Severity

CLEAN, FINDINGS = 0, 1


@dataclass(frozen=True, slots=True)
class Gate:
    """What a check compares its findings with: a baseline file, and a revision of the repository."""

    baseline: Path | None = None
    since: str | None = None


def judge(result: Result, options: AuditOptions, gate: Gate) -> Result:
    """Return the result as reports show it: wanted findings with their severity, accepted ones set apart.

    Errors: ``InputError`` for a baseline that cannot be read and a revision that is not there.
    """
    result = select(result, options.configuration, options.working_directory)
    if gate.baseline is not None:
        folder = gate.baseline.absolute().parent
        entries = read_baseline(gate.baseline)
        comparison = compare(result, entries, folder, options.working_directory, audited_boundaries(result, options))
        result = apply_baseline(result, comparison)
    if gate.since is not None:
        from capaudit.audit.since import compare_with_revision

        comparison = compare_with_revision(result, options, gate.since)
        accepted = sorted([*result.baselined, *comparison.accepted], key=lambda finding: finding.sort_key)
        result = replace(result, findings=comparison.new, baselined=tuple(accepted))
    return result


def audited_boundaries(result: Result, options: AuditOptions) -> frozenset[str] | None:
    """Return the boundaries that this audit looked at, ``None`` where these are all that the program declares."""
    return frozenset(boundary.name for boundary in result.boundaries) if options.entries else None


def find_baseline(named: Path | None, configuration: Configuration, working_directory: Path) -> Path | None:
    """Return the baseline to compare with: the named one, the configured one, or the one that lies there.

    Errors: ``InputError`` for a named or configured file that does not exist.
    """
    if named is None and configuration.baseline is None:
        usual = place_of_baseline(None, configuration, working_directory)
        return usual if usual.exists() else None
    file = place_of_baseline(named, configuration, working_directory)
    if not file.exists():
        raise InputError(
            "there is no such baseline",
            place=str(file),
            remedy="write it with `capaudit baseline write --reason TEXT`, or correct the path",
        )
    return file


def place_of_baseline(named: Path | None, configuration: Configuration, working_directory: Path) -> Path:
    """Return where the baseline is, or would be: beside the configuration unless it is named otherwise."""
    if named is not None:
        return named
    root = configuration.root or working_directory
    return root / (configuration.baseline or DEFAULT_NAME)


def evidence_gaps(result: Result) -> tuple[str, ...]:
    """Return what ``--require-evidence`` finds wanting, a sentence each; none where every demand is met.

    Errors: ``InputError`` without any evidence of a run.
    """
    if result.evidence is None or not result.evidence.documents:
        raise InputError(
            "evidence is required and there is none",
            remedy="name files with --evidence or [tool.capaudit] evidence; `capaudit probe run` writes them",
        )
    gaps = [
        f"boundary {name}: no run on a device executed its entry as it reads today"
        for name in result.evidence.unexercised
    ]
    undecided = [
        finding
        for finding in result.findings
        if finding.hazard is not None
        and (
            finding.evidence in (EvidenceVerdict.NOT_EXERCISED, EvidenceVerdict.NOT_PROBED)
            or (finding.observation is not None and finding.observation.stale)
        )
    ]
    if undecided:
        first = undecided[0].place
        gaps.append(
            f"{len(undecided)} findings that no run of this source confirmed or refuted, the first at "
            f"{first.file}:{first.line}"
        )
    return tuple(gaps)


def status(result: Result, strict: bool) -> int:
    """Return 1 for errors among rejected operations and meta findings.

    Warnings and what is unresolved count only when strict, notes never.
    """
    failing = (Severity.ERROR, Severity.WARNING) if strict else (Severity.ERROR,)
    weighty = [finding for finding in result.findings if finding.severity in failing]
    if any(finding.ownership is not OwnershipClass.UNRESOLVED for finding in weighty):
        return FINDINGS
    unresolved = bool(weighty) or result.statistics.unresolved > 0
    return FINDINGS if strict and unresolved else CLEAN
