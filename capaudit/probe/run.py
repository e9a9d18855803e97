"""The parent of ``capaudit probe run``: one child per mode, one evidence document per mode."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from capaudit.evidence import Environment, Evidence, JsonObject, JsonScalar, Record, from_json, write
from capaudit.model import CaptureKind, InputError, NoDeviceError
from capaudit.probe.child import ChildJob, ChildResult, run_child, run_children
from capaudit.probe.targets.base import TargetOptions

Mode = Literal["trace", "capture", "escape", "replay"]
MODES: tuple[Mode, ...] = get_args(Mode)
CHILD = "capaudit.probe.run_child"

# Strictest first. What each kind's own library would use gives the verdict; see ``default_error_modes``.
_STRICTEST = "global"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What to run. ``timeout`` is in seconds for each mode; ``error_modes`` empty means the default order."""

    target: TargetOptions
    modes: tuple[Mode, ...] = MODES
    steps: int = 20
    timeout: float = 600.0
    error_modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModeResult:
    """The evidence of one mode, and how its child ended."""

    mode: Mode
    error_mode: str | None
    evidence: Evidence
    child: ChildResult


def default_error_modes(kind: CaptureKind | None) -> tuple[str, ...]:
    """Return the capture modes to try in turn: the strictest, then what Warp itself would use."""
    return (_STRICTEST, "thread_local") if kind == "warp" else (_STRICTEST,)


def probe_target(
    options: RunOptions, progress: Callable[[str], None] = lambda text: None, folder: Path | None = None
) -> Iterator[ModeResult]:
    """Run the modes one after the other and yield each as it ends, written to ``folder`` if there is one.

    A capture that fails in the strictest mode is tried again in the mode that the library would use. The
    differential modes are left out when the capture failed, but for a stream that was left unjoined. Raises
    NoDeviceError and InputError for what the child says about the device and the target.
    """
    usable: str | None = None
    failed = unjoined = False
    for mode in options.modes:
        # The launches name the stream that was left unjoined; the error at the end of the capture cannot.
        if failed and (mode == "replay" or (mode == "escape" and not unjoined)):
            continue
        for error_mode in _error_modes(options, mode, usable):
            progress(f"{options.target.target}: {mode}" + (f", {error_mode} capture mode" if error_mode else ""))
            result = run_one(options, mode, error_mode)
            if folder is not None:
                write(result.evidence, folder / evidence_name(options.target, mode, error_mode))
            yield result
            if mode == "capture":
                failed = result.evidence.verdict == "failed" or any(
                    record.outcome == "fails" for record in result.evidence.records
                )
                unjoined = any("unjoined" in record.error for record in result.evidence.records)
                if not failed:
                    usable = error_mode
                    break


def run_one(options: RunOptions, mode: Mode, error_mode: str | None) -> ModeResult:
    """Run one mode in a child and return its evidence; whatever the child did, there is one result."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    payload = _payload(options, mode, error_mode, date)
    child = run_child(CHILD, payload, options.timeout)
    return ModeResult(mode, error_mode, _conclude(child, options, mode, error_mode, date), child)


def run_many(jobs: Iterable[tuple[RunOptions, Mode, str | None]], workers: int) -> Iterator[ModeResult]:
    """Run independent jobs, ``workers`` at a time, and yield them in order."""
    listed = list(jobs)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    children = (
        ChildJob(CHILD, _payload(options, mode, error, date), options.timeout) for options, mode, error in listed
    )
    for (options, mode, error_mode), child in zip(listed, run_children(children, workers), strict=True):
        yield ModeResult(mode, error_mode, _conclude(child, options, mode, error_mode, date), child)


def evidence_name(options: TargetOptions, mode: Mode, error_mode: str | None) -> str:
    """Return the file name for one mode's evidence."""
    parts = ["run", options.label, options.segment or "", mode, options.capture or "", error_mode or ""]
    plain = "-".join(part for part in parts if part)
    return re.sub(r"[^A-Za-z0-9.]+", "-", plain).strip("-").lower() + ".json"


def combined_verdict(results: Iterable[ModeResult]) -> str:
    """Return what the modes together say.

    ``fails``, ``wrong_on_replay``, ``escapes``, ``ok``, ``inconclusive``, ``failed``, or the trace's own ``faults`` or
    ``clean`` where nothing was captured.
    """
    outcomes: dict[str, str] = {}
    weak: str | None = None
    for result in results:
        if result.evidence.verdict in ("failed", "inconclusive"):
            weak = weak or result.evidence.verdict
        for record in result.evidence.records:
            # A later, laxer capture mode replaces the verdict of a stricter one.
            outcomes[record.subject] = record.outcome
    if outcomes.get("capture") == "fails":
        return "fails"
    if outcomes.get("replay") == "wrong_on_replay":
        return "wrong_on_replay"
    if outcomes.get("escape") == "faults" or outcomes.get("capture") == "empty":
        return "escapes"
    if weak is not None:
        return weak
    return "ok" if outcomes.get("capture") or outcomes.get("replay") else outcomes.get("trace", "inconclusive")


def _error_modes(options: RunOptions, mode: Mode, usable: str | None) -> tuple[str | None, ...]:
    if mode == "trace":
        return (None,)
    if usable is not None:
        return (usable,)
    return options.error_modes or default_error_modes(options.target.capture)


def _payload(options: RunOptions, mode: Mode, error_mode: str | None, date: str) -> JsonObject:
    return {
        "mode": mode,
        "options": options.target.to_json(),
        "steps": options.steps if mode == "trace" else None,
        "error_mode": error_mode,
        "date": date,
    }


def _conclude(child: ChildResult, options: RunOptions, mode: Mode, error_mode: str | None, date: str) -> Evidence:
    if child.result is not None:
        return from_json(child.result, "the child's result")
    if child.error is not None and child.error.kind == "NoDeviceError":
        message, _, remedy = child.error.message.partition("\n  remedy: ")
        raise NoDeviceError(message, remedy=remedy or None)
    if child.error is not None and child.error.kind in ("InputError", "CapauditError"):
        message, _, remedy = child.error.message.partition("\n  remedy: ")
        raise InputError(message, remedy=remedy or None)
    values: dict[str, JsonScalar] = {"seconds": round(child.seconds, 1), "exit_code": child.exit_code}
    record = Record(id="child", subject="child", outcome=child.status, error=child.message, values=values)
    if child.partial:
        # What the child had reported before it ended is whole and stays.
        reported = from_json(child.partial[-1], "the child's report")
        return replace(reported, verdict="failed", records=(*reported.records, record))
    return Evidence(
        kind="run",
        date=date,
        environment=Environment(python="unknown", platform="unknown"),
        target={"name": options.target.label, "segment": options.target.segment},
        mode=mode,
        parameters={
            "worlds": options.target.worlds,
            "seed": options.target.seed,
            "device": options.target.device,
            "error_mode": error_mode,
        },
        verdict="failed",
        records=(record,),
    )
