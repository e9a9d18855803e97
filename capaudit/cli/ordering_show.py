"""``capaudit ordering show``: a record as a table."""

from __future__ import annotations

import click

from capaudit.cli.ordering import json_option, reports_failures


@click.command(name="show")
@click.argument("source", metavar="SOURCE")
@json_option
@reports_failures("show")
def show_command(source: str, as_json: bool) -> int:
    """Print the orders behind SOURCE: a checkpoint, run folder, ordering.yaml, LEAPP file, or exported policy."""
    from capaudit.ordering.reading_any import any_source
    from capaudit.report import ordering as report

    found = any_source(source)
    if as_json:
        fields = report.orders_fields(found) if found.record is None else report.record_fields(found.record)
        click.echo(report.as_json("show", found.kind, 0, {**report.source_fields(found), **fields}), nl=False)
        return 0
    click.echo(report.orders_text(found) if found.record is None else report.record_text(found.record), nl=False)
    return 0
