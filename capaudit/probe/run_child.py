"""The child process of ``capaudit probe run``: builds the target and runs one mode."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from capaudit.evidence import Event, Evidence, JsonObject, Record, SelfProof, Verdict, to_json
from capaudit.model import CaptureKind
from capaudit.probe.child import Channel, serve
from capaudit.probe.coverage import ExecutedLines, LinesByFile, ran_functions
from capaudit.probe.environment import describe_environment, require_cuda
from capaudit.probe.locator_roots import SourceRoots
from capaudit.probe.selfproof import is_proven, prove_detectors, prove_hooks
from capaudit.probe.targets import Target, TargetOptions, find_builder
from capaudit.probe.trace_log import EventLog

SNAPSHOT_EVERY = 5
"""Steps of a trace between two reports to the parent, which survive the child."""


@dataclass(frozen=True, slots=True)
class ModeRun:
    """What a mode gave: the records, whether they speak of a fault, and the lines that its detectors watched."""

    records: tuple[Record, ...]
    faulty: bool
    lines: LinesByFile = field(default_factory=dict)


def run_mode(payload: JsonObject, channel: Channel) -> JsonObject:
    """Handle one payload: ``mode``, ``options``, ``steps``, ``error_mode``, ``date``. Returns an evidence document."""
    mode = str(payload["mode"])
    options = TargetOptions.from_json(cast(JsonObject, payload["options"]))
    device_kind = options.device.partition(":")[0]
    if device_kind != "cpu" or mode != "trace":
        require_cuda(options.device)
    builder = find_builder(options.target)
    target = builder(options)
    log = EventLog(SourceRoots(target.roots))
    draft = Evidence(
        kind="run",
        date=str(payload["date"]),
        environment=describe_environment(options.device) if device_kind == "cuda" else describe_environment("cpu"),
        target={"name": options.label, "segment": options.segment, **target.facts},
        mode=mode,
        parameters=_parameters(options, target, payload),
        verdict="failed",
    )

    def finish(proofs: tuple[SelfProof, ...], run: ModeRun, events: tuple[Event, ...]) -> Evidence:
        verdict: Verdict = "faults" if run.faulty else "clean" if is_proven(proofs) else "inconclusive"
        ran = ran_functions(run.lines, log.roots, log.texts)
        return replace(draft, self_proof=proofs, verdict=verdict, events=events, records=run.records, sources=ran)

    def snapshot() -> None:
        events = log.events()
        channel.partial(to_json(replace(draft, events=events)))

    channel.partial(to_json(draft))
    if mode == "trace":
        run = _trace(target, int(cast(int, payload["steps"])), log, device_kind, snapshot)
    else:
        run = _captured(mode, lambda: builder(options), target, options, str(payload["error_mode"]), log)
    snapshot()
    # Last, because a plant warms libraries up and a target may ask for a cold process.
    proofs = _prove(device_kind, options.device)
    return to_json(finish(proofs, run, log.events()))


def _trace(target: Target, steps: int, log: EventLog, device_kind: str, snapshot: Callable[[], None]) -> ModeRun:
    from capaudit.probe.trace import run_trace

    def progress(index: int) -> None:
        sys.stderr.write(f"step {index} of {steps}\n")
        sys.stderr.flush()
        if index % SNAPSHOT_EVERY == 0:
            snapshot()

    executed = ExecutedLines(log.roots)
    record = run_trace(target, steps, log, device_kind, progress, executed)
    return ModeRun((record,), record.outcome == "faults", executed.lines)


def _captured(
    mode: str, build: Callable[[], Target], target: Target, options: TargetOptions, error_mode: str, log: EventLog
) -> ModeRun:
    from capaudit.probe.capture_kinds import open_streams

    kind: CaptureKind = options.capture or target.capture
    streams = open_streams(options.device, with_warp=target.uses_warp or kind != "torch")
    roots = log.roots
    if mode == "capture":
        from capaudit.probe.capture import attempt_capture, report_capture, warm_up

        hints = EventLog(roots)
        warm_up(target, streams, kind, hints)
        outcome = attempt_capture(target, streams, kind, error_mode, roots)
        record = report_capture(outcome, log, hints)
        return ModeRun((record,), record.outcome != "ok", outcome.harmless_lines())
    if mode == "escape":
        from capaudit.probe.escape import report_escapes, watch_capture

        record = report_escapes(watch_capture(target, streams, kind, error_mode, roots), roots, log, streams)
        return ModeRun((record,), record.outcome == "faults")
    from capaudit.probe.replay import run_replay

    first = [target]

    def once_then_build() -> Target:
        # The target that was built to learn its roots serves as the first side.
        return first.pop() if first else build()

    record = run_replay(once_then_build, streams, kind, error_mode, roots, log, seed=options.seed)
    return ModeRun((record,), record.outcome == "wrong_on_replay")


def _prove(device_kind: str, device: str) -> tuple[SelfProof, ...]:
    if device_kind == "cuda":
        return prove_detectors(device)
    import torch

    return tuple(prove_hooks(torch.ones(8), device_kind))


def _parameters(options: TargetOptions, target: Target, payload: JsonObject) -> JsonObject:
    return {
        "worlds": options.worlds,
        "seed": options.seed,
        "device": options.device,
        "capture": options.capture or target.capture,
        "error_mode": payload.get("error_mode"),
        "steps": payload.get("steps"),
        "warmup": target.warmup,
        "warp_shares_stream": target.share_warp_stream,
    }


def _main() -> None:
    # Warnings about rendering and logging belong to nobody here; a probe never renders.
    os.environ.setdefault("MUJOCO_GL", "disable")
    serve(cast(Any, run_mode))


if __name__ == "__main__":
    _main()
