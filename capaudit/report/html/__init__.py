"""The report as one HTML file that works without a network: call tree, code with findings in place, evidence."""

from capaudit.report.html.page import render_page

__all__ = ["render_page"]
