"""``capaudit contract gate-p EVIDENCE``: performance."""

from __future__ import annotations

from pathlib import Path

import click

from capaudit.cli.options import output_option
from capaudit.cli.output import parse_targets

_FORMATS = ("text", "json")


@click.command(name="gate-p")
@click.argument("evidence", type=click.Path(path_type=Path))
@click.option(
    "--gate-s",
    "gate_s",
    type=click.Path(path_type=Path),
    help="Gate S's evidence for the same collector; it is judged again. Without it no arm is reached.",
)
@click.option("--report", type=click.Path(path_type=Path), help="The report with the three audits, as for gate-s.")
@output_option(_FORMATS)
def gate_p_command(evidence: Path, gate_s: Path | None, report: Path | None, outputs: tuple[str, ...]) -> int:
    """Judge a capaudit-gate-p/1 document. An arm counts only where Gate S has passed for it and the same commit.

    Exit status: 0 passed on at least one arm, 1 failed or not reached, 2 a document is malformed.
    """
    from capaudit.contract.documents import load
    from capaudit.contract.gate_p import judge_gate_p
    from capaudit.contract.gate_p_evidence import GATE_P_SCHEMA, GatePEvidence
    from capaudit.contract.gate_s import judge_gate_s
    from capaudit.contract.gate_s_documents import load_gate_s
    from capaudit.report.gates import gate_json, gate_text

    if report is not None and gate_s is None:
        raise click.UsageError("--report belongs to Gate S's evidence; give --gate-s too.")
    targets = parse_targets(outputs, _FORMATS)
    found = load(GatePEvidence, evidence, GATE_P_SCHEMA, "Gate P evidence")
    semantics = None if gate_s is None else judge_gate_s(load_gate_s(gate_s, report))
    verdict = judge_gate_p(found, semantics)
    for target in targets:
        target.write((gate_json if target.format == "json" else gate_text)(verdict))
    return 0 if verdict.verdict == "pass" else 1
