"""The structural questions of the decision record about MJWarp, each in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from capaudit.evidence import Environment, Evidence, JsonObject, Record, from_json
from capaudit.model import NoDeviceError
from capaudit.probe.child import ChildJob, ChildResult, run_children
from capaudit.probe.matrix_questions import QUESTIONS, Question, agrees, judge_statements

CHILD = "capaudit.probe.matrix_child"


@dataclass(frozen=True, slots=True)
class MatrixOptions:
    """``sites`` are folders put in front of the module path, one per further line of mujoco_warp."""

    worlds: int = 64
    device: str = "cuda"
    jobs: int = 2
    timeout: float = 300.0
    sites: tuple[Path, ...] = ()
    questions: tuple[str, ...] = ()


def probe_matrix(options: MatrixOptions, progress: Callable[[int, int], None] | None = None) -> Evidence:
    """Ask every question on every line and judge the three statements. Raises NoDeviceError."""
    asked = [item for item in QUESTIONS if not options.questions or item.id in options.questions]
    sites: list[Path | None] = [None, *options.sites]
    date = datetime.now(UTC).isoformat(timespec="seconds")
    jobs = [_job(question, site, options, date) for site in sites for question in asked]
    records: dict[str, list[Record]] = {}
    environments: dict[int, Environment] = {}
    for number, (result, (index, question)) in enumerate(
        zip(
            run_children(jobs, options.jobs),
            [(index, question) for index in range(len(sites)) for question in asked],
            strict=True,
        ),
        start=1,
    ):
        environment, record = _read(result, question)
        if environment is not None:
            environments.setdefault(index, environment)
        records.setdefault(question.id, []).append(replace(record, id=f"{record.id}#{index}"))
        if progress is not None:
            progress(number, len(jobs))
    return _conclude(records, environments, asked, options, date)


def _job(question: Question, site: Path | None, options: MatrixOptions, date: str) -> ChildJob:
    payload: JsonObject = {
        "question": question.id,
        "worlds": options.worlds,
        "device": options.device,
        "date": date,
    }
    environment = {}
    if site is not None:
        path = os.environ.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = f"{site}{os.pathsep}{path}" if path else str(site)
    return ChildJob(CHILD, payload, options.timeout, environment)


def _read(result: ChildResult, question: Question) -> tuple[Environment | None, Record]:
    if result.result is not None:
        evidence = from_json(result.result, "the child's result")
        return evidence.environment, evidence.records[0]
    if result.error is not None and result.error.kind == "NoDeviceError":
        message, _, remedy = result.error.message.partition("\n  remedy: ")
        raise NoDeviceError(message, remedy=remedy or None)
    return None, Record(
        id=question.id,
        subject=question.subject,
        outcome="not run",
        expected=question.expected,
        hazard=question.hazard,
        error=result.message,
    )


def _conclude(
    records: dict[str, list[Record]],
    environments: dict[int, Environment],
    asked: Sequence[Question],
    options: MatrixOptions,
    date: str,
) -> Evidence:
    lines = {index: item.mujoco_warp or "unknown" for index, item in environments.items()}
    named = {
        question.id: [replace(record, id=_name_line(record.id, lines)) for record in records.get(question.id, ())]
        for question in asked
    }
    statements = judge_statements(named)
    flat = [record for question in asked for record in named[question.id]]
    unanswered = any(record.outcome == "not run" for record in flat)
    contrary = any(
        not agrees(question, record)
        for question in asked
        for record in named[question.id]
        if record.outcome != "not run"
    )
    return Evidence(
        kind="matrix",
        date=date,
        environment=next(iter(environments.values()), Environment(python="unknown", platform="unknown")),
        target={"model": "humanoid", "mujoco_warp": [lines[index] for index in sorted(lines)]},
        mode="matrix",
        parameters={"worlds": options.worlds, "device": options.device},
        verdict="disagrees" if contrary else "failed" if unanswered else "agrees",
        records=(*flat, *statements),
    )


def _name_line(identifier: str, lines: dict[int, str]) -> str:
    name, _, index = identifier.rpartition("#")
    return f"{name}@{lines.get(int(index), f'line {index}')}"
