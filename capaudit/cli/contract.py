"""``capaudit contract``: declarations and evidence of a collector, judged. Each subcommand is imported when it runs."""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

import click

# Module and object of the subcommands, and their lines in --help.
_COMMANDS: Final = {
    "preflight": ("contract_preflight", "preflight_command", "Say whether a declared candidate may be captured."),
    "manifest": ("contract_manifest", "manifest_group", "Validate run manifests, or print their JSON schema."),
    "gate-s": ("contract_gate_s", "gate_s_command", "Judge semantics: captured trajectories against eager ones."),
    "gate-p": ("contract_gate_p", "gate_p_command", "Judge throughput by what was registered before the runs."),
}


class _ContractGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name, _ = _COMMANDS[cmd_name]
        return cast("click.Command", getattr(import_module(f"capaudit.cli.{module}"), name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in _COMMANDS.items()])


@click.group(cls=_ContractGroup)
def contract() -> None:
    """Hold a collector to the capture contract; `capaudit explain contract` tells what that is.

    Exit status: 0 supported, valid or passed; 1 unsupported, failed or not reached; 2 a document is malformed.
    """
