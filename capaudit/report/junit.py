"""JUnit XML, for servers that show test results: a suite per boundary, a failing case per finding."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree as Tree

from capaudit.model import BaselineState, Boundary, Finding, Result
from capaudit.report.levels import level
from capaudit.report.options import RenderOptions
from capaudit.report.paths import repository_path
from capaudit.report.sentences import cause, paragraph
from capaudit.report.words import boundary_line

# What XML 1.0 cannot hold, not even as a character reference.
_ILLEGAL: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_ABOUT_THE_AUDIT: Final = "the audit itself"


def render(result: Result, options: RenderOptions) -> str:
    """Return the document in ASCII, so that no locale can contradict its declaration."""
    names = [boundary.name for boundary in result.boundaries]
    apart = [finding for finding in result.findings if finding.boundary not in names]
    suites = [_boundary(boundary, result, options) for boundary in result.boundaries]
    if apart:
        suites.append(_suite(_ABOUT_THE_AUDIT, [_case(finding, options) for finding in apart]))
    root = Tree.Element("testsuites", {"name": "capaudit", **_totals(suites)})
    root.extend(suites)
    Tree.indent(root)
    document: bytes = Tree.tostring(root, encoding="us-ascii", xml_declaration=True)
    return document.decode("ascii") + "\n"


def _boundary(boundary: Boundary, result: Result, options: RenderOptions) -> Tree.Element:
    every = sorted((*result.findings, *result.suppressed, *result.baselined), key=lambda finding: finding.sort_key)
    cases = [_case(finding, options) for finding in every if finding.boundary == boundary.name]
    if not cases:
        # A suite without a case reads as one that did not run.
        cases = [Tree.Element("testcase", {"classname": _legal(boundary.entry), "name": "no findings"})]
    suite = _suite(boundary.name, cases)
    properties = Tree.Element("properties")
    Tree.SubElement(properties, "property", {"name": "boundary", "value": _legal(boundary_line(boundary))})
    suite.insert(0, properties)
    return suite


def _suite(name: str, cases: list[Tree.Element]) -> Tree.Element:
    suite = Tree.Element("testsuite", {"name": _legal(name)})
    suite.extend(cases)
    failures = sum(case.find("failure") is not None for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)
    counts = {"tests": len(cases), "failures": failures, "errors": 0, "skipped": skipped}
    suite.attrib.update({name: str(value) for name, value in counts.items()})
    return suite


def _totals(suites: list[Tree.Element]) -> dict[str, str]:
    return {
        name: str(sum(int(suite.attrib[name]) for suite in suites))
        for name in ("tests", "failures", "errors", "skipped")
    }


def _case(finding: Finding, options: RenderOptions) -> Tree.Element:
    place = finding.place
    file = _legal(repository_path(place.file, options))
    case = Tree.Element(
        "testcase",
        {
            "classname": file,
            "name": _legal(f"{finding.code}[{finding.name}] {place.line}:{place.column}"),
            "file": file,
            "line": str(max(place.line, 1)),
        },
    )
    body = _legal(f"{file}:{place.line}:{place.column}\n{paragraph(finding)}")
    accepted = _accepted(finding)
    if accepted:
        Tree.SubElement(case, "skipped", {"message": _legal(accepted)}).text = body
    elif level(finding) == "error":
        failure = Tree.SubElement(case, "failure", {"type": finding.code, "message": _legal(cause(finding))})
        failure.text = body
    else:
        Tree.SubElement(case, "system-out").text = body
    return case


def _accepted(finding: Finding) -> str:
    if finding.suppression is not None:
        return f"suppressed: {finding.suppression.reason}"
    return "accepted by the baseline" if finding.baseline_state is BaselineState.UNCHANGED else ""


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
