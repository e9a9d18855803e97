"""``capaudit report``: a page to look through."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capaudit.cli.options import audit_arguments, prepare
from capaudit.cli.output import Target
from capaudit.model import CaptureKind

if TYPE_CHECKING:
    from capaudit.evidence import Evidence


@click.command()
@audit_arguments
@click.option(
    "--html", "page", metavar="FILE", required=True, help="Write one self-contained HTML file (- for stdout)."
)
@click.option("--from", "source", metavar="RESULT.json", help="Show this JSON report instead of auditing.")
@click.option(
    "--evidence",
    multiple=True,
    metavar="FILE|FOLDER",
    help="Show what probes saw, and graph nodes per line. Repeatable.",
)
def report(
    paths: tuple[str, ...],
    entries: tuple[str, ...],
    capture: CaptureKind | None,
    config: str | None,
    isolated: bool,
    page: str,
    source: str | None,
    evidence: tuple[str, ...],
) -> int:
    """Write what an audit found as a page: call tree, code with findings in place, evidence.

    Audits PATHS as `capaudit check` does, or takes a report that `capaudit check --operations
    --output json:FILE` wrote. Findings do not change the exit status here.
    """
    from capaudit.evidence import load, load_folder
    from capaudit.report.html import render_page
    from capaudit.report.json import document as as_document
    from capaudit.report.options import RenderOptions
    from capaudit.report.reading import read_report

    documents: list[tuple[str, Evidence]] = []
    for path in map(Path, evidence):
        documents += load_folder(path) if path.is_dir() else [(path.name, load(path))]
    if source is not None:
        if paths or entries or capture:
            raise click.UsageError("--from takes a finished report; PATHS, --entry and --capture belong to an audit.")
        folder = Path.cwd()
        document = read_report(Path(source))
    else:
        from capaudit.audit import audit

        options = prepare(paths, entries, capture, config, isolated)
        folder = options.working_directory
        result = audit(replace(options, collect_operations=True))
        document = as_document(result, RenderOptions(working_directory=folder, operations=True))
    text = render_page(document, folder, documents)
    Target("html", None if page == "-" else Path(page)).write(text)
    if page != "-":
        click.echo(f"wrote {page}: {len(document['findings'])} findings", err=True)
    return 0
