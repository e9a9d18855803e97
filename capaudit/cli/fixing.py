"""``--fix``, ``--diff`` and ``--unsafe-fixes`` of ``capaudit check``: what is said about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from capaudit.report.source import printable
from capaudit.report.words import count

if TYPE_CHECKING:
    from capaudit.audit.fixes.fixing import Fixed

_F = TypeVar("_F", bound=Callable[..., Any])


def fix_options(command: _F) -> _F:
    """Add the three options to a command."""
    for decorate in (
        click.option(
            "--unsafe-fixes", is_flag=True, help="With --fix and --diff: also fixes that a person must judge."
        ),
        click.option("--diff", is_flag=True, help="Print what --fix would change, and change nothing."),
        click.option("--fix", is_flag=True, help="Rewrite what has a certain fix, then report what remains."),
    ):
        command = decorate(command)
    return command


def refuse_contradictions(fix: bool, diff: bool, unsafe_fixes: bool) -> None:
    """Errors: ``click.UsageError`` for options that contradict each other."""
    if fix and diff:
        raise click.UsageError("--fix writes files and --diff shows what it would write; give one of them.")
    if unsafe_fixes and not (fix or diff):
        raise click.UsageError("--unsafe-fixes says which fixes --fix and --diff take; give one of them too.")


def print_diff(fixed: Fixed) -> bool:
    """Print the changes as one patch; true when there are any."""
    parts = [rewrite.diff() for rewrite in fixed.applied if rewrite.fixes]
    click.echo("".join(parts), nl=False)
    return bool(parts)


def tell(fixed: Fixed, *, written: bool) -> None:
    """Say on stderr what was done, what was left out and why, and what waits for a decision."""
    for fix, reason in fixed.dropped:
        place = fix.edits[0].place
        click.echo(f"capaudit: no fix at {printable(place.file)}:{place.line}: {reason} ({fix.name})", err=True)
    done = f"{count(len(fixed.fixes), 'fix', 'fixes')} in {count(len(fixed.files), 'file')}"
    verb = "applied" if written else "would apply"
    waiting = f"; {count(fixed.waiting, 'more needs', 'more need')} --unsafe-fixes" if fixed.waiting else ""
    click.echo(f"capaudit: {verb} {done}{waiting}", err=True)
