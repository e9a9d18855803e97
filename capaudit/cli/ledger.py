"""``capaudit ledger``: who has accepted what, since when, and whether it still holds."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capaudit.cli.options import audit_arguments, evidence_option, prepare
from capaudit.model import CaptureKind

if TYPE_CHECKING:
    from capaudit.audit.ledger import LedgerRow


@click.command(name="ledger")
@audit_arguments
@evidence_option
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def ledger(
    paths: tuple[str, ...],
    entries: tuple[str, ...],
    capture: CaptureKind | None,
    config: str | None,
    isolated: bool,
    evidence: tuple[Path, ...],
    output: str,
) -> int:
    """List every suppression and ownership comment with reason, age, and what evidence says of it.

    The age is that of the line in git. `capaudit baseline show` lists what the baseline accepts.
    """
    from capaudit.audit.evidence_files import load_evidence
    from capaudit.audit.ledger import ledger as rows_of

    options = prepare(paths, entries, capture, config, isolated)
    documents = load_evidence(evidence, options.configuration, options.working_directory)
    rows = rows_of(replace(options, evidence=documents))
    if output == "json":
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return 0
    for row in rows:
        click.echo("\n".join(_lines(row)))
    click.echo(f"{len(rows)} comment{'' if len(rows) == 1 else 's'}")
    return 0


def _lines(row: LedgerRow) -> list[str]:
    from capaudit.report.source import printable

    rules = f"[{', '.join(row.rules)}]" if row.kind == "ignore" else ""
    until = f" until {row.expires}" if row.expires else ""
    lines = [f"{row.file}:{row.line}: {row.kind}{rules}{until} -- {row.reason or '(no reason)'}"]
    age = "age unknown: not in git" if row.since is None else f"since {row.since}, {row.age_days} days"
    silences = f"silences {', '.join(row.silences)} ({', '.join(row.evidence)})" if row.silences else "silences nothing"
    lines.append(f"    {age}" + (f"; {silences}" if row.kind == "ignore" else ""))
    lines += [f"    {problem}" for problem in row.problems]
    return [printable(line) for line in lines]
