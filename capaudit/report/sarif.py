"""SARIF 2.1.0 (OASIS): what code-scanning services and editors read.

One run with one result per finding. The call path is the result's code flow, which ends at the
operation itself; second places are related locations. Columns count Unicode code points, files are
named relative to the repository's root.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from capaudit import __version__
from capaudit.knowledge import Rule, load
from capaudit.model import BaselineState, Boundary, Confidence, Edit, Finding, Fix, Hop, Place, Result
from capaudit.report.levels import level
from capaudit.report.options import RenderOptions
from capaudit.report.paths import is_absolute, repository_path, uri
from capaudit.report.sentences import cause, paragraph, plain_page
from capaudit.report.source import printable
from capaudit.report.words import NO_BOUNDARY, boundary_line, count

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT: Final = "SRCROOT"
FINGERPRINT: Final = "capaudit/v1"

# SARIF ranks a result from 0 to 100, code-scanning services speak of precision.
_RANK: Final = {Confidence.CERTAIN: 90.0, Confidence.LIKELY: 60.0, Confidence.POSSIBLE: 30.0}


def render(result: Result, options: RenderOptions) -> str:
    """Return the log as indented ASCII JSON; the same result gives the same bytes on every machine."""
    return json.dumps(_Sarif(result, options).log(), indent=2) + "\n"


class _Sarif:
    def __init__(self, result: Result, options: RenderOptions) -> None:
        self.result = result
        self.options = options
        self.rules = load().rules
        self.positions = {code: position for position, code in enumerate(self.rules)}
        self.boundaries = {boundary.name: boundary for boundary in result.boundaries}
        # What a comment or the baseline accepts is told too: a service closes such alerts instead of losing them.
        every = (*result.findings, *result.suppressed, *result.baselined)
        self.findings = sorted(every, key=lambda finding: finding.sort_key)
        self.against_baseline = bool(result.absent) or any(finding.baseline_state for finding in every)

    def log(self) -> dict[str, Any]:
        return {
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {"driver": self.driver()},
                    "automationDetails": {"id": "capaudit/"},
                    "columnKind": "unicodeCodePoints",
                    # Without a URI of its own: a log must not depend on where somebody keeps the checkout.
                    "originalUriBaseIds": {ROOT: {"description": _text("The root of the repository.")}},
                    "invocations": [self.invocation()],
                    "results": [self.finding(finding) for finding in self.findings],
                    "properties": {
                        "boundaries": [
                            {
                                "name": boundary.name,
                                "entry": boundary.entry,
                                "capture": boundary.capture,
                                "origin": boundary.origin,
                            }
                            for boundary in self.result.boundaries
                        ]
                    },
                }
            ],
        }

    def driver(self) -> dict[str, Any]:
        return {
            "name": "capaudit",
            "fullName": f"capaudit {__version__}",
            "version": __version__,
            "semanticVersion": __version__,
            "shortDescription": _text("Capture-safety auditor for GPU robot-learning code."),
            "rules": [_rule(rule) for rule in self.rules.values()],
        }

    # -- the run -------------------------------------------------------------------------------------------------

    def invocation(self) -> dict[str, Any]:
        return {
            "executionSuccessful": True,
            "exitCode": self.options.status,
            "exitCodeDescription": "findings" if self.options.status else "clean",
            "toolExecutionNotifications": list(self.notifications()),
        }

    def notifications(self) -> Iterator[dict[str, Any]]:
        """What a reader must know before trusting the run: it audited nothing, left calls or files out."""
        if not self.result.boundaries:
            yield {"level": "warning", "message": _text(NO_BOUNDARY.strip())}
        unresolved = self.result.statistics.unresolved
        if unresolved:
            text = f"{count(unresolved, 'call')} could not be resolved, so nobody knows whether it is safe to capture."
            yield self.notification("CAP901", "error" if self.options.strict else "warning", text)
        for finding in self.result.findings:
            if finding.hazard is None and finding.code != "CAP901":
                yield {
                    **self.notification(finding.code, level(finding), finding.message),
                    "locations": [self.location(finding.place)],
                }
        for entry in self.result.absent:
            # No result of its own: services that do not know baselines would show it as an open alert.
            text = f"The baseline accepts a finding that is gone: {entry.code} in {entry.file}: {entry.text}"
            yield self.notification(entry.code, "note", printable(text))

    def notification(self, code: str, severity: str, text: str) -> dict[str, Any]:
        rule = {"id": code, "index": self.positions[code]} if code in self.positions else {"id": code}
        return {"associatedRule": rule, "level": severity, "message": _text(text)}

    # -- findings ------------------------------------------------------------------------------------------------

    def finding(self, finding: Finding) -> dict[str, Any]:
        made: dict[str, Any] = {"ruleId": finding.code}
        if finding.code in self.positions:
            made["ruleIndex"] = self.positions[finding.code]
        made["level"] = level(finding)
        made["rank"] = _RANK[finding.confidence]
        made["message"] = {"text": paragraph(finding)}
        made["locations"] = [self.location(finding.place, owner=_owner(finding))]
        made["partialFingerprints"] = {FINGERPRINT: finding.fingerprint}
        made["codeFlows"] = [self.flow(finding)]
        related = self.related(finding)
        if related:
            made["relatedLocations"] = related
        if finding.fix is not None:
            made["fixes"] = [self.fix(finding.fix)]
        suppressions = list(self.suppressions(finding))
        if suppressions:
            made["suppressions"] = suppressions
        if self.against_baseline:  # all results have a state, or none has
            made["baselineState"] = (finding.baseline_state or BaselineState.UNCHANGED).value
        made["properties"] = {
            "name": finding.name,
            "class": finding.ownership.value,
            "boundary": finding.boundary,
            "confidence": finding.confidence.value,
            "evidence": finding.evidence.value,
            "observation": asdict(finding.observation) if finding.observation is not None else None,
            "why": list(finding.why),
            "remedy": finding.remedy,
        }
        return made

    def fix(self, fix: Fix) -> dict[str, Any]:
        """One proposal: every file that it changes, with the regions to replace."""
        files = dict.fromkeys(edit.place.file for edit in fix.edits)
        return {
            "description": _text(printable(fix.message)),
            "artifactChanges": [
                {
                    "artifactLocation": self.location(edits[0].place)["physicalLocation"]["artifactLocation"],
                    "replacements": [_replacement(edit) for edit in edits],
                }
                for edits in ([edit for edit in fix.edits if edit.place.file == file] for file in files)
            ],
        }

    def suppressions(self, finding: Finding) -> Iterator[dict[str, Any]]:
        comment = finding.suppression
        if comment is not None:
            yield {
                "kind": "inSource",
                "status": "accepted",
                "justification": printable(comment.reason),
                "location": self.location(comment.place),
            }
        elif finding.baseline_state is BaselineState.UNCHANGED:
            yield {"kind": "external", "status": "accepted", "justification": "accepted by the baseline"}

    def flow(self, finding: Finding) -> dict[str, Any]:
        """The way from the boundary to the operation, which is the last step of every flow."""
        steps = [self.hop(hop, index, finding) for index, hop in enumerate(finding.call_path)]
        steps.append(
            {
                "location": self.location(finding.place, f"{finding.code} {finding.name}: {cause(finding)}"),
                "nestingLevel": len(finding.call_path),
                "importance": "essential",
            }
        )
        flow: dict[str, Any] = {"threadFlows": [{"locations": steps}]}
        boundary = self.boundaries.get(finding.boundary)
        if boundary is not None:
            flow["message"] = _text(_flow_title(boundary))
        return flow

    def hop(self, hop: Hop, index: int, finding: Finding) -> dict[str, Any]:
        text = f"{hop.function}: the boundary {finding.boundary} starts here" if index == 0 else f"calls {hop.function}"
        return {
            "location": self.line_location(hop.file, hop.line, text),
            "nestingLevel": index,
            "importance": "important" if index == 0 else "essential",
        }

    def related(self, finding: Finding) -> list[dict[str, Any]]:
        return [
            {"id": number, **self.location(related.place, related.message)}
            for number, related in enumerate(finding.related, 1)
        ]

    # -- places --------------------------------------------------------------------------------------------------

    def location(self, place: Place, message: str = "", owner: str = "") -> dict[str, Any]:
        made: dict[str, Any] = {
            "physicalLocation": {"artifactLocation": self.artifact(place.file), "region": _region(place)}
        }
        if owner:
            made["logicalLocations"] = [{"fullyQualifiedName": owner, "kind": "function"}]
        if message:
            made["message"] = _text(message)
        return made

    def line_location(self, file: str, line: int, message: str) -> dict[str, Any]:
        # A region of a line alone is the whole line.
        physical = {"artifactLocation": self.artifact(file), "region": {"startLine": max(line, 1)}}
        return {"physicalLocation": physical, "message": _text(message)}

    def artifact(self, file: str) -> dict[str, str]:
        path = repository_path(file, self.options)
        return {"uri": uri(path)} if is_absolute(path) else {"uri": uri(path), "uriBaseId": ROOT}


def _rule(rule: Rule) -> dict[str, Any]:
    page = rule.page.strip()
    old = {"deprecatedNames": list(rule.aliases)} if rule.aliases else {}
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": _text(f"{rule.title}."),
        "fullDescription": _text(f"{rule.message[:1].upper()}{rule.message[1:]}."),
        "help": {"text": plain_page(rule), "markdown": f"# {rule.code} {rule.name}\n\n{rule.remedy}\n\n{page}"},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["cuda-graphs", rule.ownership, rule.name], "precision": "high"},
        **old,
    }


def _region(place: Place) -> dict[str, int]:
    # A place that a renderer cannot trust (line 0 of an empty file) still has to be a valid region.
    start, end = max(place.line, 1), max(place.end_line, place.line, 1)
    region = {"startLine": start, "startColumn": max(place.column, 1), "endLine": end}
    last = max(place.end_column, 1)
    region["endColumn"] = max(last, region["startColumn"]) if end == start else last
    return region


def _owner(finding: Finding) -> str:
    return finding.call_path[-1].function if finding.call_path else ""


def _flow_title(boundary: Boundary) -> str:
    return f"From boundary {boundary.name}: {boundary_line(boundary)}"


def _text(text: str) -> dict[str, str]:
    return {"text": text}


def _replacement(edit: Edit) -> dict[str, Any]:
    place = edit.place
    region = {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
    return {"deletedRegion": region, "insertedContent": {"text": edit.text}}
