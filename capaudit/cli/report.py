"""``capaudit report``: a page to look through."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from capaudit.audit.configuration import Configuration
from capaudit.cli.options import audit_arguments, evidence_option, prepare
from capaudit.cli.output import output_file
from capaudit.model import CaptureKind
from capaudit.report.words import count


@click.command()
@audit_arguments
@click.option(
    "--html", "page", metavar="FILE", required=True, help="Write one self-contained HTML file (- for stdout)."
)
@click.option("--from", "source", metavar="RESULT.json", help="Show this JSON report instead of auditing.")
@evidence_option
def report(
    paths: tuple[str, ...],
    entries: tuple[str, ...],
    capture: CaptureKind | None,
    config: str | None,
    isolated: bool,
    page: str,
    source: str | None,
    evidence: tuple[Path, ...],
) -> int:
    """Write what an audit found as a page: call tree, code with findings in place, evidence.

    Audits PATHS as `capaudit check` does, with the configured rules and baseline, or takes a report
    that `capaudit check --operations --output json:FILE` wrote. Findings do not change the exit
    status here.
    """
    from capaudit.audit.evidence_files import load_evidence
    from capaudit.report.html import render_page
    from capaudit.report.json import document as as_document
    from capaudit.report.options import RenderOptions
    from capaudit.report.reading import read_report

    target = output_file("html", page, "--html")
    if source is not None:
        if paths or entries or capture:
            raise click.UsageError("--from takes a finished report; PATHS, --entry and --capture belong to an audit.")
        folder = Path.cwd()
        document = read_report(Path(source))
        documents = load_evidence(evidence, Configuration(), folder)
    else:
        from capaudit.audit import audit
        from capaudit.audit.gate import Gate, find_baseline, judge

        options = prepare(paths, entries, capture, config, isolated)
        folder, configuration = options.working_directory, options.configuration
        documents = load_evidence(evidence, configuration, folder)
        options = replace(options, collect_operations=True, collect_fixes=True, evidence=documents)
        # What a check would report, so that both speak of the same findings.
        gate = Gate(None if isolated else find_baseline(None, configuration, folder), None)
        result = judge(audit(options), options, gate)
        document = as_document(result, RenderOptions(working_directory=folder, operations=True))
    target.write(render_page(document, folder, documents))
    if page != "-":
        click.echo(f"capaudit: wrote {page} with {count(len(document['findings']), 'finding')}", err=True)
    return 0
