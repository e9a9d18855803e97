"""``capaudit contract gate-s EVIDENCE``: semantics."""

from __future__ import annotations

from pathlib import Path

import click

from capaudit.cli.options import output_option
from capaudit.cli.output import parse_targets
from capaudit.contract.gate_words import ARMS

_FORMATS = ("text", "json")


@click.command(name="gate-s")
@click.argument("evidence", type=click.Path(path_type=Path))
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    help="A report of `capaudit check --output json` with the three audits, in place of those in EVIDENCE.",
)
@click.option("--arm", type=click.Choice(ARMS), help="Let the exit status speak of this arm alone.")
@output_option(_FORMATS)
def gate_s_command(evidence: Path, report: Path | None, arm: str | None, outputs: tuple[str, ...]) -> int:
    """Judge a capaudit-gate-s/1 document. What is missing is "not reached" and never a pass.

    Exit status: 0 passed, 1 failed or not reached, 2 a document is malformed.
    """
    from capaudit.contract.gate_s import judge_gate_s
    from capaudit.contract.gate_s_documents import load_gate_s
    from capaudit.report.gates import gate_json, gate_text

    targets = parse_targets(outputs, _FORMATS)
    verdict = judge_gate_s(load_gate_s(evidence, report))
    for target in targets:
        target.write((gate_json if target.format == "json" else gate_text)(verdict))
    judged = verdict.verdict if arm is None else next(item.verdict for item in verdict.arms if item.arm == arm)
    return 0 if judged == "pass" else 1
