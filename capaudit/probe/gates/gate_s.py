"""The parent of Gate S: one child per arm, the static audits, and the evidence of both together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import cast

from capaudit.contract import CONTRACT_VERSION
from capaudit.contract.documents import from_document
from capaudit.contract.gate_s_evidence import GATE_S_SCHEMA, ArmRun, GateSEvidence, Workload
from capaudit.contract.gate_words import ARMS, Arm
from capaudit.evidence import JsonObject
from capaudit.model import NoDeviceError
from capaudit.probe.child import ChildResult, run_child
from capaudit.probe.gates.audits import Audited, audit_tick
from capaudit.probe.gates.machine import git_head
from capaudit.probe.gates.mps import mps_service
from capaudit.probe.targets.controls import Control

CHILD = "capaudit.probe.gates.gate_s_child"
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class GateOptions:
    """What is run. ``timeout`` is in seconds for each child."""

    robot: str = "humanoid"
    worlds: int = 2048
    device: str = "cuda"
    seed: int = 1
    timeout: float = 300.0
    arms: tuple[Arm, ...] = ARMS


def gather_gate_s(
    options: GateOptions, progress: Progress = lambda text: None
) -> tuple[GateSEvidence, Mapping[str, float]]:
    """Run the arms side by side and return the evidence, with how far eager and captured runs of the null arm spread.

    An arm that could not be run says why in the evidence. Raises NoDeviceError without a CUDA device.
    """
    date, head = datetime.now(UTC).isoformat(timespec="seconds"), git_head()
    audited = audit_tick()
    parts: list[GateSEvidence] = []
    missing: list[ArmRun] = []
    spread: dict[str, float] = {}

    def run(arm: Arm) -> tuple[JsonObject | None, str]:
        return _run_arm(arm, options, date, head, None) if arm in options.arms else (None, "the arm was not asked for")

    with ThreadPoolExecutor(max_workers=len(ARMS)) as pool:
        for arm, (document, reason) in zip(ARMS, pool.map(run, ARMS), strict=True):
            progress(f"gate S: {arm} arm {'ran' if document is not None else f'did not run: {reason}'}")
            if document is None:
                missing.append(ArmRun(arm, "not_run", reason, {}, ()))
                continue
            parts.append(_evidence(document))
            if arm == "null":
                spread = cast("dict[str, float]", document["spread"])
    return _together(parts, missing, audited, options, date, head), spread


def gather_control(control: Control, options: GateOptions, audited: Audited) -> tuple[GateSEvidence, str]:
    """Run the null arm with one hazard switched on; what stopped it is the second value."""
    date, head = datetime.now(UTC).isoformat(timespec="seconds"), git_head()
    document, reason = _run_arm("null", options, date, head, control)
    parts = [] if document is None else [_evidence(document)]
    missing = [ArmRun("mps", "not_run", "a control is run on the null arm", {}, ())]
    if document is None:
        missing.append(ArmRun("null", "not_run", reason, {}, ()))
    return _together(parts, missing, audited, options, date, head), reason


def _evidence(document: JsonObject) -> GateSEvidence:
    return from_document(GateSEvidence, document["evidence"], GATE_S_SCHEMA, "the child's result")


def _run_arm(
    arm: Arm, options: GateOptions, date: str, head: str, control: Control | None
) -> tuple[JsonObject | None, str]:
    payload: JsonObject = {
        "arm": arm,
        "robot": options.robot,
        "worlds": options.worlds,
        "device": options.device,
        "seed": options.seed,
        "date": date,
        "head": head,
        "control": None if control is None else control.hazard,
        "faults": control is None,
    }
    if arm == "null":
        return _read(run_child(CHILD, payload, options.timeout))
    if not options.device.startswith("cuda"):
        return None, "MPS shares a CUDA device, and there is none"
    with mps_service() as service:
        if service.variables is None:
            return None, service.reason
        return _read(run_child(CHILD, payload, options.timeout, environment=service.variables))


def _read(result: ChildResult) -> tuple[JsonObject | None, str]:
    if result.result is not None:
        return result.result, ""
    if result.error is not None and result.error.kind == "NoDeviceError":
        message, _, remedy = result.error.message.partition("\n  remedy: ")
        raise NoDeviceError(message, remedy=remedy or None)
    return None, " ".join(result.message.split())[:240] or result.status


def _together(
    parts: list[GateSEvidence],
    missing: list[ArmRun],
    audited: Audited,
    options: GateOptions,
    date: str,
    head: str,
) -> GateSEvidence:
    arms = [*(run for part in parts for run in part.arms), *missing]
    workload = (
        parts[0].workload
        if parts
        else Workload(f"reference-collector/{options.robot}", options.worlds, ("all",), {}, {})
    )
    joined = GateSEvidence(
        contract_version=CONTRACT_VERSION,
        date=date,
        git_head=head,
        workload=workload,
        arms=tuple(sorted(arms, key=lambda run: ARMS.index(run.arm))),
        observations=tuple(item for part in parts for item in part.observations),
        faults=tuple(item for part in parts for item in part.faults),
        orderings=tuple(item for part in parts for item in part.orderings),
        audits=audited.observations,
    )
    return replace(joined)
