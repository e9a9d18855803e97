"""Gate S's evidence from files: its own document, and the three audits from a report of ``check``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capaudit.contract.documents import load, member
from capaudit.contract.errors import MalformedError
from capaudit.contract.gate_s_evidence import GATE_S_SCHEMA, AuditObservation, GateSEvidence, require_unique
from capaudit.contract.strict import check_fields
from capaudit.evidence.reading import parse_json, read_text

_REPORT_SCHEMA = "capaudit-report/1"
_ASK = "write it with `capaudit check --output json:FILE` where [tool.capaudit.audits] names the packages"


@dataclass(frozen=True, slots=True)
class _Audits:
    audits: tuple[AuditObservation, ...]

    def __post_init__(self) -> None:
        check_fields(self)
        require_unique("audits", [item.audit for item in self.audits])


def load_gate_s(path: Path, report: Path | None = None) -> GateSEvidence:
    """Read the evidence; with ``report`` its audits come from there. Raises InputError or MalformedError."""
    evidence = load(GateSEvidence, path, GATE_S_SCHEMA, "Gate S evidence")
    return evidence if report is None else replace(evidence, audits=load_audits(report))


def load_audits(path: Path) -> tuple[AuditObservation, ...]:
    """Read the three audits out of a JSON report of ``check``. Raises InputError or MalformedError."""
    document: Any = parse_json(read_text(path, "report", _ASK, follow_links=False), str(path), _ASK)
    if not isinstance(document, dict) or document.get("schema") != _REPORT_SCHEMA:
        raise MalformedError(f"this is no {_REPORT_SCHEMA} document", place=f"{path}: $.schema", remedy=_ASK)
    if "audits" not in document:
        raise MalformedError("the report has no audits", place=f"{path}: $.audits", remedy=_ASK)
    return member(_Audits, {"audits": document["audits"]}, str(path), "$").audits
