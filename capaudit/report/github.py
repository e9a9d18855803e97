"""Annotations of GitHub Actions: workflow commands that the runner turns into marks on the changed lines."""

from __future__ import annotations

from typing import Final

from capaudit.model import Finding, Result
from capaudit.report.levels import level
from capaudit.report.options import RenderOptions
from capaudit.report.paths import repository_path
from capaudit.report.sentences import paragraph
from capaudit.report.source import printable

_COMMAND: Final = {"error": "error", "warning": "warning", "note": "notice"}


def render(result: Result, options: RenderOptions) -> str:
    """Return one workflow command per finding; nothing for a clean result."""
    return "".join(_annotation(finding, options) + "\n" for finding in result.findings)


def _annotation(finding: Finding, options: RenderOptions) -> str:
    place = finding.place
    properties = {
        "title": f"{finding.code} {finding.name}",
        "file": printable(repository_path(place.file, options)),
        "line": str(max(place.line, 1)),
        "endLine": str(max(place.end_line, place.line, 1)),
    }
    if place.end_line == place.line:  # the service knows columns within one line only
        properties["col"] = str(max(place.column, 1))
        properties["endColumn"] = str(max(place.end_column, place.column, 1))
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_COMMAND[level(finding)]} {written}::{_message(paragraph(finding))}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
