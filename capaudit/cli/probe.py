"""``capaudit probe``: what a GPU says. Each subcommand is imported when it runs."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import click

from capaudit.model import NoDeviceError

if TYPE_CHECKING:
    from capaudit.evidence import Evidence

# Module and object of the subcommands that live elsewhere, and their lines in --help.
_ELSEWHERE: Final = {
    "run": ("capaudit.cli.probe_run", "run_command", "Probe one environment or callable, mode by mode."),
    "collector": ("capaudit.cli.probe_collector", "collector_command", "Run the reference collector for its gates."),
    "matrix": ("capaudit.cli.probe_matrix", "matrix_command", "Run the structural questions about MuJoCo Warp."),
}
_OPS_LINE: Final = "Capture every idiom, or PyTorch's operator database, and compare with what is declared."


class _ProbeGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["run", "ops", "matrix", "collector"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, name, _ = _ELSEWHERE[cmd_name]
        return cast("click.Command", getattr(import_module(module), name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = {name: line for name, (_, _, line) in _ELSEWHERE.items()} | {"ops": _OPS_LINE}
        with formatter.section("Commands"):
            formatter.write_dl([(name, lines[name]) for name in self.list_commands(ctx)])


@click.group(cls=_ProbeGroup)
def probe() -> None:
    """Run code under real CUDA-graph capture, in processes of its own. Exits 3 where there is no CUDA device."""


@probe.command(short_help=_OPS_LINE)
@click.option("--device", default="cuda", show_default=True, help="The CUDA device to measure on.")
@click.option("--select", "patterns", multiple=True, metavar="PATTERN", help="A glob or a prefix of an id; repeatable.")
@click.option("--jobs", type=click.IntRange(1), default=4, show_default=True, help="Programs measured at a time.")
@click.option("--timeout", type=click.FloatRange(1), default=120.0, show_default=True, help="Seconds for each program.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the evidence to this file.")
@click.option("--opinfo", is_flag=True, help="Measure PyTorch's operator database in place of the idioms.")
@click.option("--samples", type=click.IntRange(1), default=3, show_default=True, help="Samples of each operator.")
@click.option(
    "--share",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Idioms expected to capture that may share a process; one that does not capture is measured again alone.",
)
@click.option(
    "--update",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Keep what this evidence file has shown of unchanged idioms, and measure the rest.",
)
@click.option(
    "--facts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Measure the programs of this JSON-lines file (name, setup, body, capture) in place of the idioms.",
)
def ops(
    device: str,
    patterns: tuple[str, ...],
    jobs: int,
    timeout: float,
    output: Path | None,
    opinfo: bool,
    samples: int,
    share: int,
    update: Path | None,
    facts: Path | None,
) -> int:
    """Capture every idiom of the knowledge, or every operator of PyTorch's database.

    Each idiom runs in a process of its own: eager warm-up, synchronisation watch, capture, inputs changed in place,
    replay, comparison with eager. Lists the entries whose declared verdict disagrees with what happened.

    Exit status: 0 all agree, 1 some disagree, 2 the run could not be finished, 3 there is no CUDA device.
    """
    if opinfo and facts:
        raise click.UsageError("--opinfo and --facts each say what to measure; give one of them.")
    if opinfo and update:
        raise click.UsageError("--update continues a run over idioms; --opinfo measures operators.")
    if find_spec("torch") is None:
        raise NoDeviceError(
            "the probe needs torch, which is not installed",
            remedy="install capaudit[probe] on a machine with an NVIDIA GPU",
        )
    from capaudit import evidence
    from capaudit.knowledge.idioms import load_idioms
    from capaudit.probe.ops import OpsOptions, probe_idioms, probe_operators
    from capaudit.probe.ops_idioms import load_facts, select

    options = OpsOptions(device=device, jobs=jobs, timeout=timeout, samples=samples, share=share)
    progress = _show_progress if sys.stderr.isatty() else None
    if opinfo:
        found = probe_operators(patterns, options, progress)
    else:
        idioms = load_facts(facts) if facts else tuple(load_idioms().values())
        earlier = evidence.load(update) if update else None
        found = probe_idioms(select(idioms, patterns), options, progress, earlier=earlier)
    if progress:
        click.echo("\r\x1b[K", nl=False, err=True)
    if output is not None:
        evidence.write(found, output)
    return _report(found)


def _show_progress(done: int, total: int) -> None:
    click.echo(f"\r\x1b[Kmeasured {done} of {total}", nl=False, err=True)


def _report(found: Evidence) -> int:
    from capaudit.probe.ops_table import render

    click.echo(render(found), nl=False)
    return {"failed": 2, "disagrees": 1}.get(found.verdict, 0)
