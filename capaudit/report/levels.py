"""How serious a finding is, for formats that grade: one answer for all of them."""

from __future__ import annotations

from typing import Literal

from capaudit.model import Finding, OwnershipClass

Level = Literal["error", "warning", "note"]


def level(finding: Finding) -> Level:
    """Return ``error`` for what fails a check, ``warning`` for what fails it only when strict."""
    return "warning" if finding.ownership is OwnershipClass.UNRESOLVED else "error"
