"""``capaudit probe run TARGET``: trace, capture, escape and replay on a real device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import click

if TYPE_CHECKING:
    from capaudit.evidence import Event
    from capaudit.probe.run import ModeResult

_MODES: Final = ("trace", "capture", "escape", "replay")
_SHOWN_EVENTS: Final = 60


@click.command(name="run")
@click.argument("target")
@click.option("--mode", "modes", multiple=True, type=click.Choice(_MODES), help="Repeatable; default: all that apply.")
@click.option("--segment", help="Capture one part of the step, such as reward_manager.compute.")
@click.option("--worlds", type=click.IntRange(1), default=64, show_default=True, help="Parallel environments.")
@click.option("--steps", type=click.IntRange(1), default=20, show_default=True, help="Eager steps of the trace.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--device", default="cuda", show_default=True, help="A CUDA device; the trace alone also runs on cpu.")
@click.option("--capture", type=click.Choice(["torch", "warp", "shared"]), help="Who captures; default: the target's.")
@click.option("--warmup", type=click.IntRange(0), help="Eager steps before the capture; default: the target's.")
@click.option(
    "--error-mode",
    "error_modes",
    multiple=True,
    type=click.Choice(["global", "thread_local", "relaxed"]),
    help="Capture modes to try in turn; default: the strictest, then the library's own.",
)
@click.option("--root", "roots", multiple=True, metavar="FOLDER", help="Folder of the user's own source; repeatable.")
@click.option("--timeout", type=click.FloatRange(1), default=600.0, show_default=True, help="Seconds for each mode.")
@click.option("--cases", is_flag=True, help="TARGET is a folder of programs with an expected.json; compare with it.")
@click.option("--jobs", type=click.IntRange(1), default=4, show_default=True, help="Programs at a time, with --cases.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for the evidence files.")
def run_command(
    target: str,
    modes: tuple[str, ...],
    segment: str | None,
    worlds: int,
    steps: int,
    seed: int,
    device: str,
    capture: str | None,
    warmup: int | None,
    error_modes: tuple[str, ...],
    roots: tuple[str, ...],
    timeout: float,
    cases: bool,
    jobs: int,
    output: Path | None,
) -> int:
    """Run TARGET under real capture, each mode in a process of its own.

    TARGET is mjwarp:humanoid, mjwarp:collector, mjlab:TASK, module:factory or path/file.py:make; a factory returns a
    callable without arguments or an object with step().

    Exit status: 0 clean, 1 faults, 2 inconclusive or the target could not be run, 3 there is no CUDA device.
    """
    if cases:
        return _run_cases(Path(target), device, jobs, timeout, output)
    from capaudit.model import CaptureKind
    from capaudit.probe.run import Mode, RunOptions, combined_verdict, probe_target
    from capaudit.probe.targets.base import TargetOptions

    chosen = cast("tuple[Mode, ...]", modes or (("trace",) if device.startswith("cpu") else _MODES))
    options = RunOptions(
        TargetOptions(
            target=target,
            worlds=worlds,
            seed=seed,
            device=device,
            segment=segment,
            capture=cast("CaptureKind | None", capture),
            warmup=warmup,
            roots=roots,
        ),
        chosen,
        steps,
        timeout,
        error_modes,
    )
    results = []
    for result in probe_target(options, _progress, output):
        results.append(result)
        _clear()
        _show(result)
    click.echo(f"verdict: {combined_verdict(results)}")
    verdicts = {result.evidence.verdict for result in results}
    if verdicts & {"failed", "inconclusive"}:
        return 2
    return 1 if "faults" in verdicts else 0


def _run_cases(folder: Path, device: str, jobs: int, timeout: float, output: Path | None) -> int:
    from capaudit.evidence import write
    from capaudit.probe.run_cases import load_cases, run_cases, summarise

    found = run_cases(load_cases(folder), device, jobs, timeout, lambda done, total: _progress(f"{done} of {total}"))
    _clear()
    if output is not None:
        write(found, output / "run-cases.json")
    for record in found.records:
        differs = "" if record.outcome == record.expected else f" (expected {record.expected})"
        click.echo(f"{record.outcome:16}{record.id}:{record.values['line']}{differs}")
        if record.note:
            click.echo(f"{'':16}{record.note}")
    verdicts, declared, lines, faulty = summarise(found)
    click.echo(f"{verdicts} of {declared} verdicts and {lines} of {faulty} lines agree")
    return 0 if found.verdict == "agrees" else 1


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{text}", nl=False, err=True)
    else:
        click.echo(text, err=True)


def _clear() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)


def _show(result: ModeResult) -> None:
    evidence = result.evidence
    title = result.mode if result.error_mode is None else f"{result.mode} ({result.error_mode})"
    click.echo(f"{title}: {evidence.verdict}")
    for record in evidence.records:
        values = ", ".join(f"{name} {value}" for name, value in record.values.items())
        for text in (record.error, record.note, values):
            if text:
                click.echo(f"  {text}")
    for proof in evidence.self_proof:
        if not proof.seen:
            click.echo(
                f"  the detector {proof.detector} missed its planted fault ({proof.planted}) {proof.detail}".rstrip()
            )
    shown = [event for event in evidence.events if event.hazard is not None]
    for event in sorted(shown, key=lambda event: -event.count)[:_SHOWN_EVENTS]:
        click.echo(_line(event))
    if len(shown) > _SHOWN_EVENTS:
        click.echo(f"  and {len(shown) - _SHOWN_EVENTS} more places in the evidence file")


def _line(event: Event) -> str:
    cause = ""
    if event.stack and (event.stack[0].root, event.stack[0].file) != (event.root, event.file):
        inner = event.stack[0]
        cause = f", in {inner.root}/{inner.file}:{inner.line}"
    detail = f" ({event.detail})" if event.detail else ""
    return f"  {event.root}/{event.file}:{event.line} {event.hazard} {event.kind} x{event.count}{detail}{cause}"
