"""The JSON report, ``capaudit-report/1``: documented in the README, for programs to read."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from capaudit import __version__
from capaudit.model import Boundary, EvidenceSummary, Finding, Operation, Result, Statistics, Suppression
from capaudit.report.options import RenderOptions

SCHEMA: Final = "capaudit-report/1"


def render(result: Result, options: RenderOptions) -> str:
    """Return the report as indented ASCII JSON, so that neither a locale nor an odd file name can break it.

    ``statistics.seconds`` is null unless wall time was asked for.
    """
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "tool": {"name": "capaudit", "version": __version__},
        "boundaries": [_boundary(boundary) for boundary in result.boundaries],
        "findings": [_finding(finding) for finding in result.findings],
    }
    document["suppressed"] = [_finding(finding) for finding in result.suppressed]
    document["baselined"] = [_finding(finding) for finding in result.baselined]
    document["absent"] = [asdict(entry) for entry in result.absent]
    document["evidence"] = _evidence(result.evidence) if result.evidence is not None else None
    if options.operations:
        document["operations"] = [_operation(operation) for operation in result.operations]
    document["statistics"] = _statistics(result.statistics, options)
    return json.dumps(document, indent=2) + "\n"


def _boundary(boundary: Boundary) -> dict[str, Any]:
    return {
        "name": boundary.name,
        "entry": boundary.entry,
        "capture": boundary.capture,
        "origin": boundary.origin,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "class": finding.ownership.value,
        "hazard": finding.hazard,
        "file": finding.place.file,
        "line": finding.place.line,
        "end_line": finding.place.end_line,
        "column": finding.place.column,
        "message": finding.message,
        "confidence": finding.confidence.value,
        "boundary": finding.boundary,
        "call_path": [{"function": hop.function, "file": hop.file, "line": hop.line} for hop in finding.call_path],
        "why": list(finding.why),
        "remedy": finding.remedy,
        "fingerprint": finding.fingerprint,
        "evidence": finding.evidence.value,
        "observation": asdict(finding.observation) if finding.observation is not None else None,
        "severity": finding.severity.value,
        "suppression": _suppression(finding.suppression) if finding.suppression is not None else None,
        "baseline_state": finding.baseline_state.value if finding.baseline_state is not None else None,
    }


def _suppression(suppression: Suppression) -> dict[str, Any]:
    return {
        "file": suppression.place.file,
        "line": suppression.place.line,
        "rules": list(suppression.rules),
        "reason": suppression.reason,
        "expires": suppression.expires,
    }


def _evidence(summary: EvidenceSummary) -> dict[str, Any]:
    return {
        "documents": list(summary.documents),
        "rows": [asdict(row) for row in summary.rows],
        "stale": summary.stale,
    }


def _operation(operation: Operation) -> dict[str, Any]:
    return {
        "class": operation.ownership.value,
        "hazard": operation.hazard,
        "file": operation.place.file,
        "line": operation.place.line,
        "column": operation.place.column,
        "owner": operation.owner,
    }


def _statistics(statistics: Statistics, options: RenderOptions) -> dict[str, Any]:
    return {
        "files": statistics.files,
        "functions_reachable": statistics.functions_reachable,
        "operations": statistics.operations,
        "by_class": dict(sorted(statistics.by_class.items())),
        "unresolved": statistics.unresolved,
        "seconds": round(statistics.seconds, 3) if options.statistics else None,
    }
