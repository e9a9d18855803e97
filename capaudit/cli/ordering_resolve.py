"""``capaudit ordering resolve``: a recorded order on a live backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from capaudit.cli.options import split
from capaudit.cli.ordering import json_option, live_entries, reports_failures, with_live_options


@click.command(name="resolve")
@click.argument("source", metavar="SOURCE")
@click.option("--live", "path", metavar="PATH", help="The live side: MuJoCo model, explicit .json, or another record.")
@click.option("--joints", multiple=True, metavar="NAMES", help="Live joint names, separated by commas; repeatable.")
@click.option("--bodies", multiple=True, metavar="NAMES", help="Live body names, separated by commas; repeatable.")
@with_live_options
@click.option(
    "--axis", type=click.Choice(["joint", "body"]), multiple=True, help="Resolve this axis alone; repeatable."
)
@json_option
@reports_failures("resolve")
def resolve_command(
    source: str,
    path: str | None,
    joints: tuple[str, ...],
    bodies: tuple[str, ...],
    axis: tuple[str, ...],
    as_json: bool,
    **live: Any,
) -> int:
    """Resolve SOURCE (checkpoint, run folder, ordering.yaml or LEAPP file) against a live backend.

    The live side is --live, --from-env, or --joints and --bodies. Prints the verdict (identity, permutation,
    not-a-permutation, no-record, conflict, ...), both index arrays and the gather direction.
    """
    from capaudit.ordering.resolving import from_checkpoint
    from capaudit.report import ordering as report

    joint_names, body_names, backend = _live_names(path, split(joints), split(bodies), live, set(axis))
    resolution = from_checkpoint(
        source,
        articulation=live["articulation"],
        joint_names=joint_names,
        body_names=body_names,
        backend=backend,
    )
    text = report.resolution_json(resolution) if as_json else report.resolution_text(resolution)
    click.echo(text, nl=False)
    return 0


def _live_names(
    path: str | None, joints: tuple[str, ...], bodies: tuple[str, ...], live: dict[str, Any], axes: set[str]
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None, str | None]:
    from capaudit.ordering.live import only
    from capaudit.ordering.locating import load_source, require_record

    backend = live["backend"]
    if joints or bodies:
        if path is not None or live["from_env"] is not None:
            raise click.UsageError("--joints and --bodies are the live side; leave --live and --from-env out.")
        joint_names, body_names = joints or None, bodies or None
    else:
        if path is not None and Path(path).suffix.lower() in (".yaml", ".yml"):
            entries = require_record(load_source(path)).articulations
        else:
            # A source with one articulation is matched whatever its key, so the key does not select here.
            given = live_entries(path, live)
            entries = given.entries
        key = live["articulation"] if live["articulation"] in entries else None
        if key is None and len(entries) > 1:
            key = live["articulation"] or "robot"
        _, entry = only(entries, key, path or live["from_env"] or "")
        joint_names, body_names = entry.backend_joint_names, entry.backend_body_names or None
        backend = backend or entry.backend
    if axes:
        joint_names = joint_names if "joint" in axes else None
        body_names = body_names if "body" in axes else None
    return joint_names, body_names, backend
