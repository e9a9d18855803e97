"""The parent of Gate P: registers what is asked for, then runs fresh processes in turn."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from capaudit.contract import CONTRACT_VERSION, RunManifest
from capaudit.contract.documents import from_document
from capaudit.contract.gate_p_evidence import (
    ITERATIONS,
    METRIC,
    MINIMUM_GAIN,
    REPEATS,
    TAIL,
    GatePEvidence,
    PerformanceArm,
    PerformanceRun,
    Registration,
    RunSummary,
    Safety,
)
from capaudit.contract.gate_words import ARMS, FIELDS, Arm
from capaudit.contract.manifest import SCHEMA
from capaudit.evidence import JsonObject
from capaudit.model import NoDeviceError
from capaudit.probe.child import run_child
from capaudit.probe.gates.gate_s import GateOptions, Progress
from capaudit.probe.gates.machine import git_head
from capaudit.probe.gates.mps import mps_service

CHILD = "capaudit.probe.gates.gate_p_child"
CANDIDATE = "graph"
MODE_RULES = {
    "graph": "the whole tick is one graph; per tick one replay, one receipt, no host read",
    "eager_sync": "physics step, reset and forward are graphs; managers wait 15 times a tick, 15 more on a reset",
    "eager_graph_physics": "physics step, reset and forward are graphs; managers are eager and read nothing back",
}
BASELINES = ("eager_sync", "eager_graph_physics")
DECISIVE = ("eager_sync",)
"""The decision record measures against a collector whose simulator owns its graphs and whose managers wait."""


def register(options: GateOptions, iterations: int = ITERATIONS, repeats: int = REPEATS) -> Registration:
    """Fix everything before the first run. Raises NoDeviceError or, for a failed set-up, ChildFailureError."""
    with tempfile.TemporaryDirectory() as folder:
        payload = _payload(options, CANDIDATE, iterations, git_head(), folder)
        result = run_child(CHILD, {**payload, "shapes": True}, options.timeout)
    if result.error is not None and result.error.kind == "NoDeviceError":
        message, _, remedy = result.error.message.partition("\n  remedy: ")
        raise NoDeviceError(message, remedy=remedy or None)
    answer = result.require()
    shapes = cast("dict[str, list[int]]", answer["shapes"])
    return Registration(
        contract_version=CONTRACT_VERSION,
        registered_at=datetime.now(UTC).isoformat(),
        git_head=git_head(),
        collector=f"reference-collector/{options.robot}",
        k=1,
        worlds=options.worlds,
        shapes={name: tuple(shape) for name, shape in shapes.items()},
        metric=METRIC,
        repeats=repeats,
        iterations=iterations,
        tail=min(TAIL, iterations),
        minimum_gain=MINIMUM_GAIN,
        arms=options.arms,
        candidate=CANDIDATE,
        baselines=BASELINES,
        decisive=DECISIVE,
        semantic_surface=FIELDS,
        mode_rules=MODE_RULES,
        seeds={"env": options.seed},
    )


def gather_gate_p(
    options: GateOptions, registration: Registration, progress: Progress = lambda text: None, budget: float = 1e9
) -> GatePEvidence:
    """Run every mode in turn, repeat by repeat. An arm whose run fails, or for which ``budget`` seconds do not last,
    is recorded as not run, with the reason."""
    digest = registration.sha256
    begin = time.monotonic()
    arms, runs = [], []
    for arm in ARMS:
        if arm not in registration.arms:
            arms.append(PerformanceArm(arm, "not_run", "the arm was not asked for"))
            continue
        found, reason = _arm(arm, options, registration, digest, progress, begin + budget)
        runs += found
        arms.append(PerformanceArm(arm, "not_run" if reason else "run", reason))
    return GatePEvidence(registration, digest, tuple(arms), tuple(runs))


def _arm(
    arm: Arm, options: GateOptions, registration: Registration, digest: str, progress: Progress, until: float
) -> tuple[list[PerformanceRun], str]:
    if arm == "null":
        return _runs(arm, options, registration, digest, progress, until, {})
    if not options.device.startswith("cuda"):
        return [], "MPS shares a CUDA device, and there is none"
    with mps_service() as service:
        if service.variables is None:
            return [], service.reason
        return _runs(arm, options, registration, digest, progress, until, service.variables)


def _runs(
    arm: Arm,
    options: GateOptions,
    registration: Registration,
    digest: str,
    progress: Progress,
    until: float,
    variables: Mapping[str, str],
) -> tuple[list[PerformanceRun], str]:
    runs: list[PerformanceRun] = []
    for repeat in range(registration.repeats):
        for mode in registration.modes:
            if time.monotonic() > until:
                return runs, f"the time for it ran out after {len(runs)} runs"
            with tempfile.TemporaryDirectory(prefix="capaudit-gate-p-") as folder:
                payload = _payload(options, mode, registration.iterations, registration.git_head, folder)
                result = run_child(CHILD, payload, options.timeout, environment=variables)
                if result.result is None:
                    return runs, f"{mode} {repeat + 1}: {' '.join(result.message.split())[:200]}"
                summary = _summary(Path(folder))
            run = _run(arm, mode, repeat, len(runs), digest, summary, result.result)
            progress(f"gate P: {arm} arm, {mode} {repeat + 1}: {summary.tail_env_steps_per_sec:,.0f} env steps/s")
            runs.append(run)
    return runs, ""


def _run(
    arm: Arm, mode: str, repeat: int, order: int, digest: str, summary: RunSummary, result: JsonObject
) -> PerformanceRun:
    return PerformanceRun(
        arm=arm,
        mode=mode,
        repeat=repeat,
        order=order,
        process=str(result["process"]),
        started_at=str(result["started_at"]),
        registration_sha256=digest,
        summary=summary,
        safety=Safety(**cast("dict[str, int]", result["safety"])),  # type: ignore[arg-type]
        manifest=from_document(RunManifest, result["manifest"], SCHEMA, "the child's manifest"),
    )


def _summary(folder: Path) -> RunSummary:
    found = json.loads((folder / "run_summary.json").read_text(encoding="utf-8"))
    return RunSummary(
        found["iterations"], found["tail"], tuple(found["env_steps_per_sec"]), found["tail_env_steps_per_sec"]
    )


def _payload(options: GateOptions, mode: str, iterations: int, head: str, folder: str) -> JsonObject:
    return {
        "mode": mode,
        "robot": options.robot,
        "worlds": options.worlds,
        "device": options.device,
        "seed": options.seed,
        "iterations": iterations,
        "head": head,
        "folder": folder,
    }
