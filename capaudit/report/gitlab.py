"""GitLab's code quality report, a subset of the Code Climate format."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any, Final

from capaudit.model import Confidence, Finding, Result
from capaudit.report.levels import level
from capaudit.report.options import RenderOptions
from capaudit.report.paths import repository_path
from capaudit.report.sentences import cause, path_line
from capaudit.report.source import printable

_SEVERITY: Final = {"error": "critical", "warning": "minor", "note": "info"}


def render(result: Result, options: RenderOptions) -> str:
    """Return the report as indented ASCII JSON: an array, empty for a clean result."""
    seen: Counter[tuple[str, ...]] = Counter()
    issues = [_issue(finding, options, seen) for finding in result.findings]
    return json.dumps(issues, indent=2) + "\n"


def _issue(finding: Finding, options: RenderOptions, seen: Counter[tuple[str, ...]]) -> dict[str, Any]:
    place = finding.place
    path = path_line(finding)
    remedy = f" Instead: {printable(finding.remedy)}" if finding.remedy else ""
    begin = max(place.line, 1)
    return {
        "description": f"{cause(finding)}." + (f" Reached by: {path}." if path else "") + remedy,
        "check_name": f"{finding.code} {finding.name}",
        "fingerprint": _fingerprint(finding, seen),
        "severity": _severity(finding),
        "location": {
            "path": printable(repository_path(place.file, options)),
            "lines": {"begin": begin, "end": max(place.end_line, begin)},
        },
    }


def _fingerprint(finding: Finding, seen: Counter[tuple[str, ...]]) -> str:
    """A hash of its own for every finding: GitLab drops an issue whose fingerprint it has already read.

    Equal statements of one function are told apart by their order, so moved lines change nothing.
    """
    key = (finding.fingerprint, finding.boundary, finding.place.file)
    seen[key] += 1
    return hashlib.sha256("\0".join([*key, str(seen[key])]).encode(errors="backslashreplace")).hexdigest()


def _severity(finding: Finding) -> str:
    graded = _SEVERITY[level(finding)]
    return "major" if graded == "critical" and finding.confidence is Confidence.POSSIBLE else graded
