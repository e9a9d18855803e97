"""``capaudit ordering``: the ordering replay contract. Each subcommand is imported when it runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, Final, TypeVar, cast

import click

_F = TypeVar("_F", bound=Callable[..., Any])

_LINES: Final = {
    "record": "Write ordering.yaml from a model, a run folder, JSON or a live environment.",
    "verify": "Compare a record with a model, another record, a LEAPP file or what a framework stored.",
    "resolve": "Carry a recorded order to a live backend: verdict, index arrays, gather direction.",
    "show": "Print a record as a table.",
}


class _OrderingGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_LINES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _LINES:
            return None
        module = import_module(f"capaudit.cli.ordering_{cmd_name}")
        return cast("click.Command", getattr(module, f"{cmd_name}_command"))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_LINES.items()))


@click.group(cls=_OrderingGroup)
def ordering() -> None:
    """The joint and body order that a policy was trained against: record it once, replay it anywhere.

    `capaudit explain ordering` is the guide. Exit status: 0 ok, 2 usage, 3 no record, 4 digest or corrupt
    record, 5 unsupported schema, 6 not a permutation, 7 conflict.
    """


def reports_failures(command: str) -> Callable[[_F], _F]:
    """Make expected failures of a command print their verdict, as JSON with ``--json``; the status is the error's."""

    def decorate(function: _F) -> _F:
        @wraps(function)
        def run(*args: Any, **options: Any) -> int:
            from capaudit.ordering.errors import OrderingError

            try:
                return int(function(*args, **options))
            except OrderingError as error:
                if options.get("as_json"):
                    from capaudit.report.ordering import error_json

                    click.echo(error_json(command, error), nl=False)
                    return error.status
                click.echo(f"verdict: {error.verdict}")
                raise

        return cast("_F", run)

    return decorate


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, failures too.")

live_options = (
    click.option("--from-env", metavar="MODULE:FACTORY", help="Call this factory and read the environment it returns."),
    click.option("--articulation", metavar="KEY", help="Scene key, where there is more than one."),
    click.option("--root", metavar="BODY", help="Root body of the articulation in a MuJoCo model."),
    click.option("--backend", metavar="NAME", help="Name of the physics backend."),
    click.option("--no-bodies", is_flag=True, help="Leave the bodies of a MuJoCo model out."),
)


def with_live_options(command: _F) -> _F:
    """Add the options that say what the live side is."""
    for decorate in reversed(live_options):
        command = decorate(command)
    return command


def live_entries(path: str | None, options: dict[str, Any], *, required: bool = True) -> Any:
    """Return what stands behind a path or ``--from-env``. Errors: ``click.UsageError`` for none or both."""
    from capaudit.ordering import live

    factory = options["from_env"]
    if (path is None) == (factory is None):
        if path is None and not required:
            return None
        raise click.UsageError("Give exactly one source: a path or --from-env MODULE:FACTORY.")
    if factory is not None:
        return live.entries_from_factory(factory, backend=options["backend"])
    return live.entries_from_path(
        path or "",
        name=options["articulation"],
        backend=options["backend"],
        root=options["root"],
        bodies=not options["no_bodies"],
    )
