"""The JSON report, ``capaudit-report/1``: documented in the README, for programs to read."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from capaudit import __version__
from capaudit.model import (
    Boundary,
    EvidenceSummary,
    Finding,
    Fix,
    Hop,
    Operation,
    Place,
    ReachedFunction,
    Result,
    Statistics,
    Suppression,
    UnresolvedCall,
)
from capaudit.report.options import RenderOptions

SCHEMA: Final = "capaudit-report/1"


def render(result: Result, options: RenderOptions) -> str:
    """Return the report as indented ASCII JSON, so that neither a locale nor an odd file name can break it.

    ``statistics.seconds`` is null unless wall time was asked for.
    """
    return json.dumps(document(result, options), indent=2) + "\n"


def document(result: Result, options: RenderOptions) -> dict[str, Any]:
    """Return the report as plain values, as ``json.loads`` of the rendered text would."""
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
        document["functions"] = [_function(function) for function in result.functions]
        document["unresolved_calls"] = [_unresolved(call) for call in result.unresolved]
        document["pruned"] = [{**_span(branch.place), "reason": branch.reason} for branch in result.pruned]
    document["audits"] = [asdict(audit) for audit in result.audits]
    document["statistics"] = _statistics(result.statistics, options)
    return document


def _boundary(boundary: Boundary) -> dict[str, Any]:
    return {
        "name": boundary.name,
        "entry": boundary.entry,
        "capture": boundary.capture,
        "origin": boundary.origin,
        "file": boundary.file,
        "line": boundary.line,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "class": finding.ownership.value,
        "hazard": finding.hazard,
        **_span(finding.place),
        "message": finding.message,
        "confidence": finding.confidence.value,
        "boundary": finding.boundary,
        "call_path": [_hop(hop) for hop in finding.call_path],
        "why": list(finding.why),
        "remedy": finding.remedy,
        "related": [{**_span(related.place), "message": related.message} for related in finding.related],
        "fingerprint": finding.fingerprint,
        "evidence": finding.evidence.value,
        "observation": asdict(finding.observation) if finding.observation is not None else None,
        "severity": finding.severity.value,
        "suppression": _suppression(finding.suppression) if finding.suppression is not None else None,
        "fixes": [_fix(finding.fix)] if finding.fix is not None else [],
        "baseline_state": finding.baseline_state.value if finding.baseline_state is not None else None,
    }


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "name": fix.name,
        "message": fix.message,
        "safe": fix.safe,
        "edits": [{**_span(edit.place), "text": edit.text} for edit in fix.edits],
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
        "unexercised": list(summary.unexercised),
        "foreign": list(summary.foreign),
    }


def _operation(operation: Operation) -> dict[str, Any]:
    return {
        "class": operation.ownership.value,
        "hazard": operation.hazard,
        **_span(operation.place),
        "owner": operation.owner,
        "boundary": operation.boundary,
        "operation": operation.name,
        "text": operation.text,
        "reason": operation.reason,
    }


def _function(function: ReachedFunction) -> dict[str, Any]:
    return {
        "function": function.owner,
        **_span(function.place),
        "boundary": function.boundary,
        "called_from": [_hop(hop) for hop in function.callers],
    }


def _unresolved(call: UnresolvedCall) -> dict[str, Any]:
    return {
        **_span(call.place),
        "text": call.text,
        "receiver": call.receiver,
        "settle": call.settle,
        "owner": call.owner,
        "boundary": call.boundary,
    }


def _hop(hop: Hop) -> dict[str, Any]:
    return {"function": hop.function, "file": hop.file, "line": hop.line}


def _span(place: Place) -> dict[str, Any]:
    return {
        "file": place.file,
        "line": place.line,
        "end_line": place.end_line,
        "column": place.column,
        "end_column": place.end_column,
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
