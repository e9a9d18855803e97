"""Runs a folder of single-file programs with a declared outcome each, and compares.

The folder holds ``expected.json``: a list of programs with ``file``, ``capture`` (``ok``, ``fails``,
``wrong_on_replay``), ``lines`` and ``alt_lines``, ``probe`` (who captures), ``warmup``, and optionally
``observed_h200``. ``make(device)`` in each program returns the step; ``poke(fn, i)`` runs between steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capaudit.evidence import Environment, Event, Evidence, JsonScalar, Record
from capaudit.model import CaptureKind, InputError
from capaudit.probe.run import ModeResult, RunOptions, combined_verdict, probe_target, run_one
from capaudit.probe.targets.base import TargetOptions


@dataclass(frozen=True, slots=True)
class Case:
    """One program and what is declared about it; ``lines`` include the alternatives."""

    file: Path
    capture: CaptureKind
    warmup: int
    expected: str | None
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What the probe said about a program. ``line`` is the first place that it names, 0 where it names none."""

    case: Case
    outcome: str
    line: int
    suspects: tuple[int, ...]
    detail: str
    environment: Environment
    seconds: float


def load_cases(folder: Path, only: tuple[str, ...] = ()) -> tuple[Case, ...]:
    """Read the declarations. Raises InputError where there are none or a key is missing."""
    path = folder / "expected.json"
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        cases = tuple(_case(folder, row) for row in rows)
    except OSError as error:
        raise InputError(f"the declarations cannot be read: {error.strerror}", place=str(path)) from None
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(f"the declarations cannot be used: {type(error).__name__}: {error}", place=str(path)) from None
    return tuple(case for case in cases if not only or case.file.stem.startswith(only))


def run_cases(
    cases: tuple[Case, ...], device: str, jobs: int, timeout: float, progress: Callable[[int, int], None] | None = None
) -> Evidence:
    """Probe every program, ``jobs`` at a time, and return one document with a record for each."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    results: list[CaseResult] = []
    for number, result in enumerate(_each(cases, device, jobs, timeout), start=1):
        results.append(result)
        if progress is not None:
            progress(number, len(cases))
    agree = all(result.outcome == result.case.expected for result in results if result.case.expected is not None)
    return Evidence(
        kind="run",
        date=date,
        environment=results[0].environment if results else Environment(python="unknown", platform="unknown"),
        target={"name": "programs", "count": len(cases)},
        mode="cases",
        parameters={"device": device, "jobs": jobs},
        verdict="agrees" if agree else "disagrees",
        records=tuple(_record(result) for result in results),
    )


def judge_case(case: Case, device: str, timeout: float) -> CaseResult:
    """Probe one program: capture, where that succeeds replay, and where that is wrong look for escapes as well."""
    target = TargetOptions(
        target=f"{case.file}:make", device=device, capture=case.capture, warmup=case.warmup, seed=0, worlds=1
    )
    results = list(probe_target(RunOptions(target, ("capture", "replay"), timeout=timeout)))
    outcome = combined_verdict(results)
    unjoined = any("unjoined" in record.error for result in results for record in result.evidence.records)
    if outcome == "wrong_on_replay" or unjoined:
        error_mode = results[-1].error_mode
        results.append(run_one(RunOptions(target, ("escape",), timeout=timeout), "escape", error_mode))
    lines, detail = _explain(results, outcome)
    seconds = sum(result.child.seconds for result in results)
    first = lines[0] if lines else 0
    return CaseResult(case, outcome, first, tuple(lines), detail, results[0].evidence.environment, seconds)


def _each(cases: tuple[Case, ...], device: str, jobs: int, timeout: float) -> Iterator[CaseResult]:
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        yield from pool.map(lambda case: judge_case(case, device, timeout), cases)


def _case(folder: Path, row: dict[str, Any]) -> Case:
    observed = row.get("observed_h200")
    return Case(
        file=folder / row["file"],
        capture=row.get("probe") or "torch",
        warmup=int(row.get("warmup", 3)),
        expected=observed if observed is not None else row["capture"],
        lines=(*row.get("lines", ()), *row.get("alt_lines", ())),
    )


def _explain(results: list[ModeResult], outcome: str) -> tuple[list[int], str]:
    """Return the lines that the probe blames, the most certain first, and what it says."""
    by_mode: dict[str, ModeResult] = {}
    for result in results:
        by_mode[result.mode] = result
    details = [text for result in by_mode.values() for record in result.evidence.records for text in _texts(record)]
    events: list[Event] = []
    if outcome == "fails":
        events = [*_of_kind(by_mode, "escape", ("unjoined-stream",)), *_of_kind(by_mode, "capture", ("capture-fault",))]
    elif outcome == "wrong_on_replay":
        # Work that went to another stream explains a divergence more directly than what the host did.
        events = _of_kind(by_mode, "escape", ("escape",))
        if "replay" in by_mode:
            replay = by_mode["replay"].evidence
            place = next((str(r.values["place"]) for r in replay.records if "place" in r.values), "")
            first = [event for event in replay.events if place.endswith(f"/{event.file}:{event.line}")]
            events += [*first, *(event for event in replay.events if event not in first)]
        events += _of_kind(by_mode, "escape", ("eager-only",))
    return list(dict.fromkeys(event.line for event in events)), "; ".join(dict.fromkeys(details))


def _of_kind(by_mode: dict[str, ModeResult], mode: str, kinds: tuple[str, ...]) -> list[Event]:
    if mode not in by_mode:
        return []
    events = by_mode[mode].evidence.events
    return [event for kind in kinds for event in events if event.kind == kind]


def _texts(record: Record) -> list[str]:
    return [text for text in (record.error, record.note) if text]


def _record(result: CaseResult) -> Record:
    case = result.case
    values: dict[str, JsonScalar] = {"line": result.line, "seconds": round(result.seconds, 1)}
    if case.lines:
        values["line_agrees"] = result.line in case.lines
        values["any_line_agrees"] = any(line in case.lines for line in result.suspects)
    if len(result.suspects) > 1:
        values["suspects"] = ", ".join(str(line) for line in result.suspects[:6])
    return Record(
        id=case.file.name,
        subject=case.capture,
        outcome=result.outcome,
        expected=case.expected,
        note=result.detail[:300],
        values=values,
    )


def summarise(evidence: Evidence) -> tuple[int, int, int, int]:
    """Return (verdicts that agree, verdicts declared, lines that agree, lines declared for what went wrong)."""
    declared = [record for record in evidence.records if record.expected is not None]
    faulty = [record for record in declared if record.expected != "ok" and "line_agrees" in record.values]
    return (
        sum(record.outcome == record.expected for record in declared),
        len(declared),
        sum(bool(record.values["line_agrees"]) for record in faulty),
        len(faulty),
    )
