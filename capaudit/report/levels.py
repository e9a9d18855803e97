"""How serious a finding is, for formats that grade: one answer for all of them."""

from __future__ import annotations

from typing import Final, Literal

from capaudit.model import Finding, OwnershipClass, Severity

Level = Literal["error", "warning", "note"]


def level(finding: Finding) -> Level:
    """Return the finding's severity; what the audit could not decide is a warning unless somebody graded it lower."""
    if finding.severity is Severity.ERROR and finding.ownership is OwnershipClass.UNRESOLVED:
        return "warning"
    return _LEVELS[finding.severity]


_LEVELS: Final[dict[Severity, Level]] = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.NOTE: "note",
}
