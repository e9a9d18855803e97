"""``capaudit inventory``: the table of operations, owners and classes."""

from __future__ import annotations

from dataclasses import replace

import click

from capaudit.cli.options import audit_arguments, output_option, prepare
from capaudit.cli.output import output_file, parse_targets
from capaudit.model import CaptureKind

_FORMATS = ("text", "markdown")
GRAPHS = ("dot", "mermaid")


@click.command()
@audit_arguments
@output_option(_FORMATS)
@click.option("--md", "comment", metavar="FILE", help="Write Markdown for a pull request's comment (- for stdout).")
@click.option("--html", "page", metavar="FILE", help="Write one HTML file (- for stdout).")
@click.option("--graph", type=click.Choice(GRAPHS), help="Print the boundary's call graph instead of the table.")
def inventory(
    paths: tuple[str, ...],
    entries: tuple[str, ...],
    capture: CaptureKind | None,
    config: str | None,
    isolated: bool,
    outputs: tuple[str, ...],
    comment: str | None,
    page: str | None,
    graph: str | None,
) -> int:
    """List every operation that a boundary reaches with its owner, ownership class and reason.

    Findings do not change the exit status here; `capaudit check` judges.
    """
    from capaudit.audit import audit
    from capaudit.report.inventory import render_markdown, render_text
    from capaudit.report.inventory_page import render_comment, render_html

    pages = [(file, render) for file, render in ((comment, render_comment), (page, render_html)) if file is not None]
    # Without a wish of its own the table goes to stdout only where nothing else was asked for.
    targets = parse_targets(outputs, _FORMATS) if outputs or not (pages or graph) else ()
    files = [output_file("html", file, "--html" if render is render_html else "--md") for file, render in pages]
    places = [*(target.file for target in (*targets, *files)), *([None] if graph else [])]
    if len(set(places)) < len(places):
        raise click.UsageError("two reports would go to one place; give them files of their own.")
    options = prepare(paths, entries, capture, config, isolated)
    result = audit(replace(options, collect_operations=True))
    for target in targets:
        target.write(render_markdown(result) if target.format == "markdown" else render_text(result))
    for target, (_, render) in zip(files, pages, strict=True):
        target.write(render(result))
    if graph:
        from capaudit.report.graph import render_graph

        click.echo(render_graph(result, graph), nl=False)
    return 0
