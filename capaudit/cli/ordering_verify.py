"""``capaudit ordering verify``: does an order agree with another one?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from capaudit.cli.ordering import json_option, live_entries, reports_failures, with_live_options

if TYPE_CHECKING:
    from capaudit.ordering.verifying import Comparison

EQUAL, OTHER_NAMES, CONFLICT = 0, 6, 7


@click.command(name="verify")
@click.argument("source", metavar="SOURCE")
@click.option(
    "--against",
    "path",
    metavar="PATH",
    help="Model, record, checkpoint, run folder, .onnx, run_config.json, LEAPP file.",
)
@click.option("--leapp", metavar="FILE", help="LEAPP file: full tensors have to be equal, selections to exist.")
@with_live_options
@json_option
@reports_failures("verify")
def verify_command(source: str, path: str | None, leapp: str | None, as_json: bool, **live: Any) -> int:
    """Check the record behind SOURCE, alone or against something else.

    Alone: schema, names and digests. With --against, --leapp or --from-env: the public orders are compared
    axis by axis. Exit status: 0 equal, 6 other names, 7 another order, and those of the errors.
    """
    from capaudit.ordering.leapp import load_leapp
    from capaudit.ordering.reading_any import any_source, source_of_entries
    from capaudit.ordering.verifying import compare_sources
    from capaudit.report import ordering as report

    given = [option for option in (path, leapp, live["from_env"]) if option is not None]
    if len(given) > 1:
        raise click.UsageError("Give one of --against, --leapp and --from-env.")
    first = any_source(source)
    if not given:
        verdict = "valid" if first.signed else "unsigned"
        fields = report.source_fields(first)
        text = f"verdict: {verdict}\n{report.source_line(first)}\n"
        click.echo(report.as_json("verify", verdict, 0, fields) if as_json else text, nl=False)
        return 0
    if leapp is not None:
        second = load_leapp(leapp)
    elif live["from_env"] is not None:
        second = source_of_entries(live_entries(None, live).entries, live["from_env"])
    else:
        only = next(iter(first.articulations)) if len(first.articulations) == 1 else None
        name = live["articulation"] or only
        second = any_source(path or "", name=name, root=live["root"], bodies=not live["no_bodies"])
    comparisons = compare_sources(first, second)
    verdict, status = _verdict(comparisons)
    fields = {**report.source_fields(first), "against": report.source_fields(second)["source"]}
    fields["comparisons"] = [item.as_dict() for item in comparisons]
    if as_json:
        click.echo(report.as_json("verify", verdict, status, fields), nl=False)
    else:
        click.echo(report.comparison_text(verdict, comparisons), nl=False)
    return status


def _verdict(comparisons: tuple[Comparison, ...]) -> tuple[str, int]:
    if any(item.verdict in ("different", "unknown-names") for item in comparisons):
        return "not-a-permutation", OTHER_NAMES
    if all(item.agrees for item in comparisons):
        return "equal", EQUAL
    return "conflict", CONFLICT
