"""``capaudit check``: the main job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from capaudit.audit.configuration import Configuration
from capaudit.cli.options import audit_arguments, output_option, prepare, with_selection
from capaudit.cli.output import colored, parse_targets, repository_root
from capaudit.model import CaptureKind, InputError, OwnershipClass, Result
from capaudit.report import FORMATS, RenderOptions, render

CLEAN, FINDINGS = 0, 1


@click.command()
@audit_arguments
@output_option(tuple(FORMATS))
@click.option("--operations", is_flag=True, help="Add every classified operation to the JSON report.")
@click.option("--strict", is_flag=True, help="Unresolved operations fail, and so does having nothing to audit.")
@click.option("--select", multiple=True, metavar="RULE", help="Report only these codes, names or prefixes of codes.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Leave these out.")
@click.option("--extend-select", multiple=True, metavar="RULE", help="Add to the selection.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 in spite of findings.")
@click.option("--statistics", is_flag=True, help="Add wall time (the report then differs between runs).")
@click.option("-v", "--verbose", is_flag=True, help="List every unresolved call and every branch left out.")
@click.option("--no-color", is_flag=True, help="No colours on a terminal.")
def check(
    paths: tuple[str, ...],
    entries: tuple[str, ...],
    capture: CaptureKind | None,
    config: str | None,
    isolated: bool,
    outputs: tuple[str, ...],
    operations: bool,
    strict: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    extend_select: tuple[str, ...],
    exit_zero: bool,
    statistics: bool,
    verbose: bool,
    no_color: bool,
) -> int:
    """Audit everything that a capture boundary in PATHS (default: this folder) reaches.

    Boundaries come from --entry, else from configuration, decorators and comments, else from what
    the code shows. Exit status: 0 clean, 1 findings, 2 the job could not be done.
    """
    from capaudit.audit import audit

    targets = parse_targets(outputs, tuple(FORMATS))
    options = prepare(paths, entries, capture, config, isolated)
    configuration = with_selection(options.configuration, select, ignore, extend_select)
    strict = strict or configuration.strict
    result = audit(replace(options, configuration=configuration, collect_operations=operations))
    result = selected(result, configuration, options.working_directory)
    rendering = RenderOptions(
        working_directory=options.working_directory,
        operations=operations,
        statistics=statistics,
        verbose=verbose,
        strict=strict,
        root=repository_root(options.working_directory),
        status=CLEAN if exit_zero else status(result, strict),
    )
    for target in targets:
        target.write(render(target.format, result, replace(rendering, color=colored(no_color, target))))
    if not result.boundaries:
        nothing = InputError(
            "no capture boundary was found, so nothing was audited",
            remedy="declare one, or name it with --entry",
        )
        if strict:
            raise nothing
        if all(target.format != "text" for target in targets):  # the text report says it itself
            click.echo(f"capaudit: warning: {nothing}", err=True)
    return rendering.status


def selected(result: Result, configuration: Configuration, working_directory: Path) -> Result:
    """Return the result with the findings that the configuration wants reported; counts of operations stay."""
    wanted = [
        finding
        for finding in result.findings
        if configuration.reports(finding.code, finding.name, working_directory / finding.place.file)
    ]
    return replace(result, findings=tuple(wanted))


def status(result: Result, strict: bool) -> int:
    """Return 1 for rejected operations and meta findings; what is unresolved counts only when strict."""
    if any(finding.ownership is not OwnershipClass.UNRESOLVED for finding in result.findings):
        return FINDINGS
    unresolved = bool(result.findings) or result.statistics.unresolved > 0
    return FINDINGS if strict and unresolved else CLEAN
