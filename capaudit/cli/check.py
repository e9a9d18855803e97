"""``capaudit check``: the main job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from capaudit.audit.configuration import Configuration
from capaudit.audit.gate import CLEAN, FINDINGS, Gate, evidence_gaps, find_baseline, judge, status
from capaudit.audit.selection import select as selected_findings
from capaudit.cli.fixing import fix_options, print_diff, refuse_contradictions, tell
from capaudit.cli.options import (
    audit_arguments,
    evidence_option,
    jobs_option,
    output_option,
    prepare,
    selection_options,
    with_selection,
)
from capaudit.cli.output import parse_targets, repository_root
from capaudit.cli.stdin import read_stdin
from capaudit.cli.terminal import terminal
from capaudit.model import CaptureKind, InputError, Result
from capaudit.report import FORMATS, RenderOptions, render

__all__ = ["CLEAN", "FINDINGS", "check", "selected", "status"]

_WITH_FIXES = ("json", "sarif")


@click.command()
@audit_arguments
@output_option(tuple(FORMATS))
@selection_options
@click.option("--severity", multiple=True, metavar="RULE=LEVEL", help="Weigh a rule as error, warning or note.")
@click.option("--strict", is_flag=True, help="Unresolved operations and warnings fail, and so does nothing to audit.")
@evidence_option
@click.option("--require-evidence", is_flag=True, help="Fail where no run on a device decided a boundary or finding.")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Accept the findings of this baseline; default: the configured one, else capaudit-baseline.json.",
)
@click.option("--no-baseline", is_flag=True, help="Leave every baseline out.")
@click.option("--since", metavar="REV", help="Report only findings that were not there at this git revision.")
@click.option("--add-suppressions", metavar="REASON", help="Write a suppression comment for every finding.")
@fix_options
@click.option("--stdin-filename", metavar="FILE", help="The text on stdin stands for this file.")
@click.option("--operations", is_flag=True, help="Add every classified operation to the JSON report.")
@jobs_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 in spite of findings.")
@click.option("--statistics", is_flag=True, help="Add counts per rule and wall time (which differs between runs).")
@click.option("--show-settings", is_flag=True, help="Print the settings that would be used, and stop.")
@click.option("--show-files", is_flag=True, help="Print the files that would be read, and stop.")
@click.option("-v", "--verbose", is_flag=True, help="List every unresolved call and every branch left out.")
@click.option("--no-color", is_flag=True, help="No colours on a terminal.")
def check(
    paths: tuple[str, ...],
    entries: tuple[str, ...],
    capture: CaptureKind | None,
    config: str | None,
    isolated: bool,
    outputs: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    extend_select: tuple[str, ...],
    severity: tuple[str, ...],
    strict: bool,
    evidence: tuple[Path, ...],
    require_evidence: bool,
    baseline: Path | None,
    no_baseline: bool,
    since: str | None,
    add_suppressions: str | None,
    fix: bool,
    diff: bool,
    unsafe_fixes: bool,
    stdin_filename: str | None,
    operations: bool,
    jobs: int | None,
    exit_zero: bool,
    statistics: bool,
    show_settings: bool,
    show_files: bool,
    verbose: bool,
    no_color: bool,
) -> int:
    """Audit everything that a capture boundary in PATHS (default: this folder) reaches.

    Boundaries come from --entry, else from configuration, decorators and comments, else from what
    the code shows. PATHS may be `-` for source text on stdin. Exit status: 0 clean, 1 findings, 2 the job
    could not be done.
    """
    from capaudit.audit import audit
    from capaudit.audit.evidence_files import load_evidence

    if baseline is not None and no_baseline:
        raise click.UsageError("--no-baseline leaves every baseline out and --baseline names one; give one of them.")
    refuse_contradictions(fix, diff, unsafe_fixes)
    targets = parse_targets(outputs, tuple(FORMATS))
    if diff and outputs and any(target.file is None for target in targets):
        raise click.UsageError("--diff prints the patch to stdout; give the report a file: --output FORMAT:FILE.")
    paths, given = read_stdin(paths, stdin_filename)
    if given is not None and (fix or add_suppressions is not None):
        option = "--fix" if fix else "--add-suppressions"
        raise click.UsageError(f"{option} changes files, and the text on stdin is in none.")
    options = prepare(paths, entries, capture, config, isolated)
    if given is not None:
        options = given.options(options)
    configuration = with_selection(options.configuration, select, ignore, extend_select, severity)
    strict = strict or configuration.strict
    options = replace(
        options,
        configuration=configuration,
        collect_operations=operations,
        jobs=jobs,
        collect_fixes=any(target.format in _WITH_FIXES for target in targets),
        evidence=load_evidence(evidence, configuration, options.working_directory),
    )
    if show_settings or show_files:
        from capaudit.cli.settings import files_text, settings_text

        click.echo(files_text(options) if show_files else settings_text(options, strict, baseline), nl=False)
        return CLEAN
    wanted = not no_baseline and (not isolated or baseline is not None)
    gate = Gate(find_baseline(baseline, configuration, options.working_directory) if wanted else None, since)
    if fix or diff:
        from capaudit.audit.fixes.fixing import fix_program

        fixed = fix_program(options, lambda found: judge(found, options, gate), unsafe=unsafe_fixes, write_files=fix)
        tell(fixed, written=fix)
        if diff and print_diff(fixed) and not outputs:
            return CLEAN if exit_zero else FINDINGS
        if diff and not outputs:
            return CLEAN
        result = fixed.result
    else:
        result = judge(audit(options), options, gate)
    if add_suppressions is not None:
        from capaudit.audit.suppress import add_suppressions as write_comments

        written = write_comments(result, options, add_suppressions)
        number = f"{written.comments} suppression{'' if written.comments == 1 else 's'}"
        click.echo(f"capaudit: wrote {number} to {', '.join(written.files) or 'no file'}", err=True)
        result = judge(audit(options), options, gate)
    if given is not None:
        result = given.only(result, options.working_directory)
    gaps = evidence_gaps(result) if require_evidence or configuration.require_evidence else ()
    rendering = RenderOptions(
        working_directory=options.working_directory,
        operations=operations,
        statistics=statistics,
        verbose=verbose,
        strict=strict,
        root=repository_root(options.working_directory),
        sources=given.lines(options.working_directory) if given is not None else {},
        status=CLEAN if exit_zero else FINDINGS if gaps else status(result, strict),
    )
    for target in targets:
        screen = terminal(no_color, target)
        fitted = replace(rendering, color=screen.color, links=screen.links, width=screen.width)
        target.write(render(target.format, result, fitted), color=screen.color or None)
    for gap in gaps:
        click.echo(f"capaudit: evidence is required: {gap}", err=True)
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
    """Return the result with the findings that the configuration wants reported; see ``audit.selection``."""
    return selected_findings(result, configuration, working_directory)
