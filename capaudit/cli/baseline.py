"""``capaudit baseline``: accept what is there today, and only ever let it become less."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capaudit.audit.gate import CLEAN, FINDINGS, audited_boundaries, place_of_baseline
from capaudit.cli.options import audit_arguments, evidence_option, prepare, selection_options, with_selection
from capaudit.model import BaselineEntry, CaptureKind, InputError

if TYPE_CHECKING:
    from capaudit.audit import AuditOptions

_FILE = click.option(
    "--file",
    "named",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The baseline; default: the configured one, else capaudit-baseline.json beside the configuration.",
)
_REASON = click.option("--reason", metavar="TEXT", help="Why these findings are accepted; kept with each entry.")


@click.group()
def baseline() -> None:
    """Accept the findings of today, so that only new ones fail; the file shrinks as they are settled."""


@baseline.command(name="write")
@audit_arguments
@selection_options
@evidence_option
@_FILE
@_REASON
@click.option("--force", is_flag=True, help="Replace a baseline that is there.")
def write_command(
    paths: tuple[str, ...],
    entries: tuple[str, ...],
    capture: CaptureKind | None,
    config: str | None,
    isolated: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    extend_select: tuple[str, ...],
    evidence: tuple[Path, ...],
    named: Path | None,
    reason: str | None,
    force: bool,
) -> int:
    """Write a baseline of every finding that a check would report."""
    from capaudit.audit import audit
    from capaudit.audit.baseline import entries_of, write_baseline
    from capaudit.audit.gate import Gate, judge

    text = _required(reason, "write")
    options = _options(paths, entries, capture, config, isolated, select, ignore, extend_select, evidence)
    file = place_of_baseline(named, options.configuration, options.working_directory)
    if file.exists() and not force:
        raise InputError(
            "there is a baseline already",
            place=str(file),
            remedy="take settled findings out with `capaudit baseline update`, or replace it with --force",
        )
    result = judge(audit(options), options, Gate())
    found = entries_of(result, file.absolute().parent, options.working_directory, text, options.today)
    write_baseline(found, file)
    click.echo(f"{file}: {_number(found)} accepted")
    return CLEAN


@baseline.command(name="update")
@audit_arguments
@selection_options
@evidence_option
@_FILE
@_REASON
@click.option("--grow", is_flag=True, help="Accept new findings too; needs --reason.")
def update_command(
    paths: tuple[str, ...],
    entries: tuple[str, ...],
    capture: CaptureKind | None,
    config: str | None,
    isolated: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    extend_select: tuple[str, ...],
    evidence: tuple[Path, ...],
    named: Path | None,
    reason: str | None,
    grow: bool,
) -> int:
    """Take out what is settled and follow code that has moved; new findings come in with --grow alone.

    Exit status: 1 where new findings were left out.
    """
    from capaudit.audit import audit
    from capaudit.audit.baseline import compare, entries_of, read_baseline, write_baseline
    from capaudit.audit.gate import Gate, judge

    if reason is not None and not grow:
        raise click.UsageError("--reason is for new entries; give --grow to accept some.")
    text = _required(reason, "update --grow") if grow else ""
    options = _options(paths, entries, capture, config, isolated, select, ignore, extend_select, evidence)
    file = place_of_baseline(named, options.configuration, options.working_directory)
    _require(file)
    before = read_baseline(file)
    result = judge(audit(options), options, Gate())
    folder, here = file.absolute().parent, options.working_directory
    comparison = compare(result, before, folder, here, audited_boundaries(result, options))
    after = [*comparison.kept, *comparison.unseen]
    fresh = entries_of(replace(result, findings=comparison.new), folder, here, text, options.today)
    if grow:
        after = _joined(after, fresh)
    if tuple(after) != before:
        write_baseline(after, file)
    parts = [f"{_number(after)} accepted", f"{_number(comparison.absent)} settled and taken out"]
    if comparison.unseen:
        parts.append(f"{_number(comparison.unseen)} of code that this audit did not look at stay")
    if fresh:
        parts.append(
            f"{_number(fresh)} new" + (" and accepted" if grow else ", left out (--grow --reason accepts them)")
        )
    click.echo(f"{file}: {'; '.join(parts)}")
    return FINDINGS if fresh and not grow else CLEAN


@baseline.command(name="show")
@click.option("--config", metavar="FILE", help="Read [tool.capaudit] from this file.")
@click.option("--isolated", is_flag=True, help="Ignore every pyproject.toml.")
@_FILE
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show_command(config: str | None, isolated: bool, named: Path | None, output: str) -> int:
    """List the accepted findings with reason and date."""
    from capaudit.audit.baseline import read_baseline
    from capaudit.cli.options import configure

    here = Path.cwd()
    file = place_of_baseline(named, configure(here, config, isolated), here)
    _require(file)
    found = read_baseline(file)
    if output == "json":
        click.echo(json.dumps([asdict(entry) for entry in found], indent=2))
        return CLEAN
    for entry in found:
        times = f" x{entry.count}" if entry.count > 1 else ""
        click.echo(f"{entry.file}: {entry.code} in {entry.function or 'the module'}{times}: {entry.text}")
        click.echo(f"    {entry.added}: {entry.reason}")
    click.echo(f"{_number(found)} accepted in {file}")
    return CLEAN


def _options(
    paths: tuple[str, ...],
    entries: tuple[str, ...],
    capture: CaptureKind | None,
    config: str | None,
    isolated: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    extend_select: tuple[str, ...],
    evidence: tuple[Path, ...],
) -> AuditOptions:
    from capaudit.audit.evidence_files import load_evidence

    options = prepare(paths, entries, capture, config, isolated)
    configuration = with_selection(options.configuration, select, ignore, extend_select)
    documents = load_evidence(evidence, configuration, options.working_directory)
    return replace(options, configuration=configuration, evidence=documents)


def _required(reason: str | None, command: str) -> str:
    text = (reason or "").strip()
    if not text or not text.isprintable():
        raise click.UsageError(f"baseline {command} needs --reason: one line that says why the findings are accepted.")
    return text


def _require(file: Path) -> None:
    if not file.exists():
        raise InputError(
            "there is no such baseline",
            place=str(file),
            remedy="write it with `capaudit baseline write --reason TEXT`, or correct the path",
        )


def _number(entries: list[BaselineEntry] | tuple[BaselineEntry, ...]) -> str:
    number = sum(entry.count for entry in entries)
    return f"{number} finding{'' if number == 1 else 's'}"


def _joined(old: list[BaselineEntry], new: tuple[BaselineEntry, ...]) -> list[BaselineEntry]:
    """Old and new entries; a fingerprint that is in both keeps its reason and counts all."""
    found = {entry.fingerprint: entry for entry in old}
    for entry in new:
        before = found.get(entry.fingerprint)
        found[entry.fingerprint] = entry if before is None else replace(before, count=before.count + entry.count)
    return list(found.values())
