"""Renderers: one file per format, all from the one result, none with a judgement of its own."""

from capaudit.report.formats import FORMATS, render
from capaudit.report.options import RenderOptions

__all__ = ["FORMATS", "RenderOptions", "render"]
