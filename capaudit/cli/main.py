"""The ``capaudit`` command: a table of commands that are imported when they run, and the one place where errors end."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Final, cast

import click

from capaudit import __version__
from capaudit.model import CapauditError

STATUS_FAILED: Final = 2
STATUS_INTERRUPTED: Final = 130
STATUS_BROKEN_PIPE: Final = 141

# Name of the command (and of its module in this package and of the object in it), and its line in --help.
# The lines stand here, so that --help imports no command.
COMMANDS: Final = {
    "check": "Audit everything that a capture boundary reaches (the main job).",
    "inventory": "List every reachable operation with owner, class and reason.",
    "report": "Write a page: call tree, code with findings in place, evidence.",
    "boundaries": "List the capture boundaries that a check would audit, and why.",
    "baseline": "Accept what is there today; the file only shrinks.",
    "ledger": "List suppression comments with reason, age and evidence.",
    "explain": "Print the page of a rule, or what is known about an operation.",
    "rules": "List the rules.",
    "cache": "Show or empty the cache that makes the next run fast.",
    "why": "Say why a capture failed, from the run's log.",
    "lsp": "Run the language server for an editor.",
    "probe": "Run the program on a GPU and see what capture does to it.",
    "ordering": "Record, verify and replay the joint and body order of a policy.",
    "contract": "Judge a collector's declarations, manifests and gate evidence.",
}


class LazyGroup(click.Group):
    """A group whose commands live in modules that nobody imports before one is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return cast("click.Command", getattr(import_module(f"capaudit.cli.{cmd_name}"), cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else f" Commands: {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="capaudit", message="%(prog)s %(version)s")
def cli() -> None:
    """Audit GPU robot-learning code for what may run inside a captured CUDA graph, and what may not.

    Exit status: 0 clean, 1 findings, 2 the job could not be done, 3 a probe found no CUDA device.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Every error ends here as one message on stderr."""
    # File names that are no valid text must not turn a report into an encoding error.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _invoke(sys.argv[1:] if arguments is None else arguments)
        if sys.stdout is not None:  # a caller may have closed it
            sys.stdout.flush()
        return status
    except (Exception, KeyboardInterrupt) as error:
        return ended(error)


def ended(error: BaseException) -> int:
    """Say on stderr what ended a command and return its exit status."""
    if isinstance(error, click.ClickException):
        error.show()
        return STATUS_FAILED
    if isinstance(error, KeyboardInterrupt):
        click.echo("capaudit: interrupted", err=True)
        return STATUS_INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _abandon_stdout()
        return STATUS_BROKEN_PIPE
    return _failed(error)


def _invoke(arguments: Sequence[str]) -> int:
    # Not through click's own main(): it ends a broken pipe with 1, which means findings here.
    try:
        with cli.make_context("capaudit", list(arguments)) as context:
            status = cli.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return status if isinstance(status, int) else 0


def _abandon_stdout() -> None:
    """Python flushes stdout once more at exit; what cannot be written must not change the status there."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: BaseException) -> int:
    if os.environ.get("CAPAUDIT_TRACEBACK"):
        traceback.print_exception(error)
    if isinstance(error, CapauditError):
        click.echo(f"capaudit: error: {error}", err=True)
        return error.status
    if isinstance(error, OSError):
        # A file vanished, lost its permissions, or the disk is full: bad surroundings, not a defect.
        _abandon_stdout()
        place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        click.echo(f"capaudit: error: {place}{error.strerror or error}", err=True)
        return STATUS_FAILED
    detail = " ".join(str(error).split())[:200]
    click.echo(
        f"capaudit: internal error: {type(error).__name__}: {detail} "
        "(run again with CAPAUDIT_TRACEBACK=1 for the place, and please report it)",
        err=True,
    )
    return STATUS_FAILED
