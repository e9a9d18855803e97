"""``capaudit probe matrix``: what MuJoCo Warp allows inside a capture, question by question."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command(name="matrix")
@click.option("--worlds", type=click.IntRange(1), default=64, show_default=True, help="Parallel worlds of the model.")
@click.option("--device", default="cuda", show_default=True, help="The CUDA device to run on.")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Questions asked at a time.")
@click.option(
    "--timeout", type=click.FloatRange(1), default=300.0, show_default=True, help="Seconds for each question."
)
@click.option(
    "--site",
    "sites",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with another line of mujoco_warp, put in front of the module path; repeatable.",
)
@click.option("--question", "questions", multiple=True, metavar="ID", help="Ask this question alone; repeatable.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the evidence to this file.")
def matrix_command(
    worlds: int,
    device: str,
    jobs: int,
    timeout: float,
    sites: tuple[Path, ...],
    questions: tuple[str, ...],
    output: Path | None,
) -> int:
    """Ask the structural questions about MuJoCo Warp, and judge the three statements that rest on them.

    Exit status: 0 all as expected, 1 something differs, 2 a question could not be run, 3 there is no CUDA device.
    """
    from capaudit import evidence
    from capaudit.probe.matrix import MatrixOptions, probe_matrix
    from capaudit.probe.matrix_questions import QUESTIONS

    unknown = sorted(set(questions) - {question.id for question in QUESTIONS})
    if unknown:
        raise click.UsageError(
            f"No such question: {', '.join(unknown)}. Questions: {', '.join(q.id for q in QUESTIONS)}."
        )
    options = MatrixOptions(worlds, device, jobs, timeout, sites, questions)
    found = probe_matrix(options, _progress if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    if output is not None:
        evidence.write(found, output)
    for record in found.records:
        expected = f" (expected {record.expected})" if record.expected not in (None, record.outcome) else ""
        click.echo(f"{record.outcome:16}{record.id}: {record.subject}{expected}")
        for detail in (record.error, record.note):
            if detail:
                click.echo(f"{'':16}{detail}")
    return {"agrees": 0, "disagrees": 1}.get(found.verdict, 2)


def _progress(done: int, total: int) -> None:
    click.echo(f"\r\x1b[Kasked {done} of {total}", nl=False, err=True)
