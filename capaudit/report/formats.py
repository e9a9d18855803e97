"""The table of output formats. A renderer's module is imported when its format is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, cast

from capaudit.model import InputError, Result
from capaudit.report.options import RenderOptions

FORMATS: Final = {
    "text": "capaudit.report.text",
    "json": "capaudit.report.json",
    "sarif": "capaudit.report.sarif",
    "github": "capaudit.report.github",
    "gitlab": "capaudit.report.gitlab",
    "junit": "capaudit.report.junit",
    "markdown": "capaudit.report.summary",
}


def render(name: str, result: Result, options: RenderOptions) -> str:
    """Return the report text, ending with a line break. Errors: ``InputError`` for an unknown format."""
    if name not in FORMATS:
        raise InputError(f"there is no output format {name!r}", remedy=f"choose one of {', '.join(FORMATS)}")
    renderer = cast("Callable[[Result, RenderOptions], str]", import_module(FORMATS[name]).render)
    return renderer(result, options)
