"""``capaudit boundaries``: what a check would audit, and who says so."""

from __future__ import annotations

import click

from capaudit.cli.options import audit_arguments, prepare
from capaudit.model import CaptureKind


@click.command()
@audit_arguments
def boundaries(
    paths: tuple[str, ...],
    entries: tuple[str, ...],
    capture: CaptureKind | None,
    config: str | None,
    isolated: bool,
) -> int:
    """List the capture boundaries that a check of PATHS would audit, and why each is one."""
    from capaudit.audit import find_boundaries
    from capaudit.report.words import NO_BOUNDARY, boundary_line

    found = find_boundaries(prepare(paths, entries, capture, config, isolated))
    for boundary in found:
        click.echo(f"{boundary.name}: {boundary_line(boundary)}")
    if not found:
        click.echo(NO_BOUNDARY, nl=False)
    return 0
