"""Why capture forbids what a rule names: the sentence of the rule's page, for readers who meet it the first time."""

from __future__ import annotations

from capaudit.knowledge import shipped_rules
from capaudit.model import Finding


def reason(finding: Finding) -> str:
    """Return the general reason behind a finding; empty for meta findings, whose message says it itself."""
    rule = shipped_rules().get(finding.code) if finding.hazard is not None else None
    return rule.message if rule is not None and rule.message != finding.message else ""
