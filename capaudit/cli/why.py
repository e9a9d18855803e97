"""``capaudit why``: what went wrong in a run, from its log."""

from __future__ import annotations

import click

from capaudit.cli.options import output_option
from capaudit.cli.output import parse_targets

RECOGNISED, UNKNOWN = 0, 1


@click.command()
@click.argument("log", metavar="LOG")
@click.option(
    "--report", metavar="FILE", help="A report of `capaudit check --output json`: name its findings that fit."
)
@output_option(("text", "json"))
def why(log: str, report: str | None, outputs: tuple[str, ...]) -> int:
    """Say why a capture failed: the hazard, the cause, the most likely place, and what to try.

    LOG is a file, or - for stdin. Exit status: 0 something was recognised, 1 nothing was, 2 the log or the
    report cannot be read.
    """
    from capaudit.knowledge import load
    from capaudit.knowledge.messages import load_messages
    from capaudit.logs import diagnose, load_findings, open_log
    from capaudit.report.why import render_json, render_text

    targets = parse_targets(outputs, ("text", "json"))
    findings = load_findings(report) if report is not None else ()
    knowledge = load()
    messages = load_messages(frozenset(knowledge.rules))
    with open_log(log) as lines:
        diagnosis = diagnose(lines, messages, knowledge, findings)
    for target in targets:
        if target.format == "json":
            target.write(render_json(diagnosis, knowledge.rules))
        else:
            target.write(render_text(diagnosis, knowledge.rules, asked=report is not None))
    return RECOGNISED if diagnosis.cause is not None else UNKNOWN
