"""``capaudit inventory``: the table of operations, owners and classes."""

from __future__ import annotations

from dataclasses import replace

import click

from capaudit.cli.options import audit_arguments, output_option, prepare
from capaudit.cli.output import parse_targets
from capaudit.model import CaptureKind

_FORMATS = ("text", "markdown")


@click.command()
@audit_arguments
@output_option(_FORMATS)
def inventory(
    paths: tuple[str, ...],
    entries: tuple[str, ...],
    capture: CaptureKind | None,
    config: str | None,
    isolated: bool,
    outputs: tuple[str, ...],
) -> int:
    """List every operation that a boundary reaches with its owner, ownership class and reason.

    Findings do not change the exit status here; `capaudit check` judges.
    """
    from capaudit.audit import audit
    from capaudit.report.inventory import render_markdown, render_text

    targets = parse_targets(outputs, _FORMATS)
    options = prepare(paths, entries, capture, config, isolated)
    result = audit(replace(options, collect_operations=True))
    for target in targets:
        target.write(render_markdown(result) if target.format == "markdown" else render_text(result))
    return 0
