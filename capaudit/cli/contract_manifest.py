"""``capaudit contract manifest``: run manifests, held to their schema and to themselves."""

from __future__ import annotations

from pathlib import Path

import click

from capaudit.cli.options import output_option
from capaudit.cli.output import parse_targets
from capaudit.model import CapauditError

_FORMATS = ("text", "json")


@click.group(name="manifest")
def manifest_group() -> None:
    """Run manifests (capaudit-run-manifest/1)."""


@manifest_group.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@output_option(_FORMATS)
def validate(files: tuple[Path, ...], outputs: tuple[str, ...]) -> int:
    """Validate run manifests: types, keys, counters, and that no field contradicts another.

    Every malformed file is an error of its own on stderr. Exit status: 0 all are valid, 2 one is not.
    """
    from capaudit.contract.documents import load
    from capaudit.contract.manifest import SCHEMA, RunManifest
    from capaudit.report.gates import manifests_json, manifests_text

    targets = parse_targets(outputs, _FORMATS)
    valid = []
    errors: list[CapauditError] = []
    for file in files:
        try:
            valid.append((str(file), load(RunManifest, file, SCHEMA, "run manifest")))
        except CapauditError as error:
            errors.append(error)
    if valid:
        for target in targets:
            target.write((manifests_json if target.format == "json" else manifests_text)(valid))
    for earlier in errors[:-1]:
        click.echo(f"capaudit: error: {earlier}", err=True)
    if errors:
        raise errors[-1]
    return 0


@manifest_group.command()
def schema() -> int:
    """Print the JSON schema (draft 2020-12) of a run manifest."""
    import json

    from capaudit.contract.schemas import manifest_schema

    click.echo(json.dumps(manifest_schema(), indent=2))
    return 0
