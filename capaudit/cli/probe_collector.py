"""``capaudit probe collector PART``: the reference collector before its gates, and its negative controls."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from capaudit.cli.output import Target
    from capaudit.contract.verdicts import GateVerdict
    from capaudit.probe.gates.gate_s import GateOptions

_PARTS: Final = ("gate-s", "gate-p", "controls")


@click.command(name="collector")
@click.argument("part", type=click.Choice(_PARTS))
@click.option("--robot", type=click.Choice(["humanoid", "g1"]), default="humanoid", show_default=True)
@click.option("--worlds", type=click.IntRange(2), default=2048, show_default=True, help="Parallel worlds.")
@click.option("--device", default="cuda", show_default=True, help="A CUDA device; cpu rehearses without graphs.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--arm", "arms", multiple=True, type=click.Choice(["null", "mps"]), help="Repeatable; default: both.")
@click.option("--hazard", "hazards", multiple=True, metavar="RULE", help="controls: only this one; repeatable.")
@click.option("--jobs", type=click.IntRange(1), default=4, show_default=True, help="controls: so many at a time.")
@click.option("--iterations", type=click.IntRange(1), default=300, show_default=True, help="gate-p: of each run.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="gate-p: of each mode.")
@click.option("--budget", type=click.FloatRange(1), default=3600.0, show_default=True, help="gate-p: seconds in all.")
@click.option(
    "--gate-s", "gate_s", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="gate-p: its evidence."
)
@click.option("--timeout", type=click.FloatRange(1), default=300.0, show_default=True, help="Seconds for each child.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the evidence to this file.")
def collector_command(
    part: str,
    robot: str,
    worlds: int,
    device: str,
    seed: int,
    arms: tuple[str, ...],
    hazards: tuple[str, ...],
    jobs: int,
    iterations: int,
    repeats: int,
    budget: float,
    gate_s: Path | None,
    timeout: float,
    output: Path | None,
) -> int:
    """Run the reference collector for Gate S or Gate P, or its negative controls, and write the evidence.

    `capaudit contract gate-s` and `gate-p` judge the same files again, with the same exit status: 0 passed (controls:
    all three agree or the row says why not), 1 failed or not reached, 2 bad input, 3 there is no CUDA device.
    """
    from capaudit.contract.gate_words import ARMS
    from capaudit.probe.gates.gate_s import GateOptions

    chosen = tuple(arm for arm in ARMS if not arms or arm in arms)
    options = GateOptions(robot=robot, worlds=worlds, device=device, seed=seed, timeout=timeout, arms=chosen)
    target = _target(output)
    if part == "gate-s":
        return _gate_s(options, target)
    if part == "gate-p":
        return _gate_p(options, iterations, repeats, budget, gate_s, target)
    return _controls(options, jobs, hazards, target)


def _gate_s(options: GateOptions, output: Target | None) -> int:
    from capaudit.contract.documents import dumps
    from capaudit.contract.gate_s import judge_gate_s
    from capaudit.contract.gate_s_evidence import GATE_S_SCHEMA
    from capaudit.probe.gates.gate_s import gather_gate_s

    evidence, spread = gather_gate_s(options, _progress)
    if output is not None:
        output.write(dumps(evidence, GATE_S_SCHEMA))
    if spread:
        click.echo("largest difference from an eager run: " + ", ".join(f"{k} {v:.3g}" for k, v in spread.items()))
    return _verdict(judge_gate_s(evidence))


def _gate_p(
    options: GateOptions, iterations: int, repeats: int, budget: float, gate_s: Path | None, output: Target | None
) -> int:
    from capaudit.contract.documents import dumps, load
    from capaudit.contract.gate_p import judge_gate_p
    from capaudit.contract.gate_p_evidence import GATE_P_SCHEMA
    from capaudit.contract.gate_s import judge_gate_s
    from capaudit.contract.gate_s_evidence import GATE_S_SCHEMA, GateSEvidence
    from capaudit.probe.gates.gate_p import gather_gate_p, register

    semantics = None
    if gate_s is not None:
        semantics = judge_gate_s(load(GateSEvidence, gate_s, GATE_S_SCHEMA, "Gate S evidence"))
    registration = register(options, iterations, repeats)
    click.echo(f"registered {registration.sha256}")
    evidence = gather_gate_p(options, registration, _progress, budget)
    if output is not None:
        output.write(dumps(evidence, GATE_P_SCHEMA))
    return _verdict(judge_gate_p(evidence, semantics))


def _controls(options: GateOptions, jobs: int, hazards: tuple[str, ...], output: Target | None) -> int:
    from capaudit.evidence import Evidence
    from capaudit.evidence.storage import dumps
    from capaudit.probe.gates.control_table import probe_controls, render

    def keep(found: Evidence) -> None:
        if output is not None:
            output.write(dumps(found))

    found = probe_controls(options, jobs, hazards, _progress, keep)
    click.echo("\n".join(render(found)))
    return 0 if found.verdict == "agrees" else 1


def _verdict(found: GateVerdict) -> int:
    for arm in found.arms:
        click.echo(f"{arm.arm} arm: {arm.verdict}")
        for check in arm.checks:
            if check.verdict != "pass":
                click.echo(f"  {check.verdict}: {check.subject}: {check.detail}")
        for figure in arm.figures:
            gains = ", ".join(f"{gain:+.1%}" for gain in figure.gains)
            decisive = ", decisive" if figure.decisive else ""
            click.echo(
                f"  {figure.candidate_rate:,.0f} against {figure.baseline_rate:,.0f} env steps/s of {figure.baseline}: "
                f"{figure.gain:+.1%} (pairs {gains}{decisive})"
            )
    click.echo(f"gate {found.gate}: {found.verdict}; {found.claim}")
    return 0 if found.verdict == "pass" else 1


def _target(output: Path | None) -> Target | None:
    """Say before the run, and not after it, where the evidence cannot go."""
    if output is None:
        return None
    from capaudit.cli.output import output_file
    from capaudit.model import InputError

    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the evidence cannot be written: {error.strerror}", place=str(output)) from None
    return output_file("json", str(output), "--output")


def _progress(text: str) -> None:
    click.echo(text, err=True)
    sys.stderr.flush()
