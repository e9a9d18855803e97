"""``capaudit ordering record``: write the record of a run."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click

from capaudit.cli.ordering import json_option, live_entries, reports_failures, with_live_options


@click.command(name="record")
@click.option("--from", "path", metavar="PATH", help="MuJoCo model (.xml, .mjb), run folder, .onnx, or explicit .json.")
@with_live_options
@click.option("--run-dir", type=click.Path(path_type=Path), help="Write params/ordering.yaml of this run folder.")
@click.option("--output", type=click.Path(path_type=Path), help="Write this file.")
@click.option("--applies-to", multiple=True, metavar="FILE", help="Checkpoint that the record belongs to; repeatable.")
@click.option(
    "--resumed-from", metavar="CHECKPOINT", help="Refuse an order that differs from this checkpoint's record."
)
@click.option("--allow-checkpoint-folder", is_flag=True, help="Write even into checkpoints/ or nn/.")
@json_option
@reports_failures("record")
def record_command(
    path: str | None,
    run_dir: Path | None,
    output: Path | None,
    applies_to: tuple[str, ...],
    resumed_from: str | None,
    allow_checkpoint_folder: bool,
    as_json: bool,
    **live: Any,
) -> int:
    """Record the joint and body order of every articulation, once.

    A run folder given with --from is also where the record goes; without --run-dir and --output a model's
    record is printed. A record that stands there already is left alone when it is equal, and is an error
    when it differs: there is no force.
    """
    from capaudit.ordering.record import Record, validated
    from capaudit.ordering.recorder import check_resumed, default_provenance, record_entries
    from capaudit.ordering.writing import dump_record
    from capaudit.report import ordering as report

    if run_dir is not None and output is not None:
        raise click.UsageError("--run-dir and --output both say where the record goes; give one of them.")
    given = live_entries(path, live)
    if output is None and run_dir is None and path is not None and Path(path).is_dir():
        run_dir = Path(path)
    target = output if output is not None else run_dir / "params" / "ordering.yaml" if run_dir is not None else None
    if target is None:
        if resumed_from is not None:
            check_resumed(given.entries, resumed_from)
        record = validated(Record(given.entries, {**default_provenance(), **given.provenance}, applies_to), path)
        click.echo(
            report.as_json("record", "recorded", 0, report.record_fields(record)) if as_json else dump_record(record),
            nl=False,
        )
        return 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        outcome = record_entries(
            given.entries,
            target,
            resumed_from=resumed_from,
            applies_to=applies_to,
            provenance=given.provenance,
            rank=0,
            allow_checkpoint_folder=allow_checkpoint_folder,
        )
    for warning in caught:
        click.echo(f"capaudit: warning: {warning.message}", err=True)
    if as_json:
        click.echo(report.as_json("record", outcome.action, 0, report.record_fields(outcome.record)), nl=False)
        return 0
    click.echo(f"{outcome.action}: {outcome.path}")
    for key, entry in outcome.record.articulations.items():
        click.echo(
            f"  {report.shown(key)}: {len(entry.public_joint_names)} joints, {len(entry.public_body_names)} bodies "
            f"({entry.backend})"
        )
    return 0
