"""The child process of Gate S: one arm, or one negative control on it."""

from __future__ import annotations

import os
import sys
from typing import Any, cast

from capaudit.contract import CONTRACT_VERSION, RunManifest
from capaudit.contract.documents import to_document
from capaudit.contract.gate_s_evidence import GATE_S_SCHEMA, ArmRun, GateSEvidence, Workload
from capaudit.contract.gate_words import FAULTS, TRAJECTORIES, Arm, Trajectory
from capaudit.contract.lifecycle import Fallback
from capaudit.contract.reasons import Mode
from capaudit.evidence import JsonObject
from capaudit.probe.child import Channel, serve
from capaudit.probe.environment import require_cuda


def run_arm(payload: JsonObject, channel: Channel) -> JsonObject:
    """Handle one payload: ``arm``, ``robot``, ``worlds``, ``device``, ``seed``, ``date``, ``head``, ``control``
    (a hazard or nothing), ``faults`` (whether to plant them).

    Returns the arm's part of the evidence as a whole document, without audits, and how far runs spread.
    """
    device = str(payload["device"])
    if device != "cpu":
        require_cuda(device)
    from capaudit.probe.gates.faults import Bench, plant_all
    from capaudit.probe.gates.fields import GROUPS, TOLERANCES
    from capaudit.probe.gates.machine import gpu_uuid, software
    from capaudit.probe.gates.plan import airborne, mask_rows
    from capaudit.probe.gates.trajectories import observe, order_of, run_trajectory, spread_of
    from capaudit.probe.targets.collector.collector import ReferenceCollector
    from capaudit.probe.targets.collector.plant import Plant, load_plant
    from capaudit.probe.targets.collector.tick import CollectorTick
    from capaudit.probe.targets.controls import control, control_class

    arm = cast(Arm, payload["arm"])
    worlds, seed = int(cast(int, payload["worlds"])), int(cast(int, payload["seed"]))
    grounded = load_plant(str(payload["robot"]))
    plant = airborne(grounded)
    chosen = control(str(payload["control"])) if payload.get("control") else None
    make = CollectorTick if chosen is None else control_class(chosen)
    head = str(payload["head"])

    def build(mode: Mode, fallback: Fallback = "eager", where: Plant = plant) -> ReferenceCollector:
        return ReferenceCollector(
            where,
            worlds=worlds,
            device=device,
            seed=seed,
            mode=mode,
            fallback=fallback,
            make=make,
            kind="shared" if chosen is None else chosen.capture,
        )

    def build_for(trajectory: Trajectory, where: Plant = plant) -> ReferenceCollector:
        collector = build("eager" if trajectory == "eager" else "graph", "eager", where)
        collector.prepare(record=trajectory == "graph")
        return collector

    versions, uuid = software(device), gpu_uuid(device)
    manifests: dict[Trajectory, RunManifest] = {}
    observations: list[Any] = []
    orderings: list[Any] = []
    progress("trajectory eager")
    reference = run_trajectory(build_for("eager"), "eager", seed)
    for name in TRAJECTORIES:
        progress(f"trajectory {name}")
        ran = reference if name == "eager" else run_trajectory(build_for(name), name, seed, reference)
        if ran.wrong_rows:
            raise RuntimeError(f"the {name} trajectory does not follow the plan: {'; '.join(ran.wrong_rows)}")
        observations += observe(arm, ran, reference, seed)
        orderings.append(order_of(arm, ran))
        manifests[name] = ran.collector.manifest(gpu_uuid=uuid, software=versions, git_head=head)
        ran.ticks = ran.ticks if ran is reference else []
    spread: dict[str, float] = {}
    faults = []
    if payload.get("faults", True):
        progress("spread on the ground")
        spread |= {f"ground_{key}": value for key, value in spread_of(lambda t: build_for(t, grounded), seed).items()}
        spread |= {f"air_{key}": value for key, value in spread_of(build_for, seed, reference).items()}
        bench = Bench(arm, build, seed, uuid, versions, head)
        faults = list(plant_all(bench, progress))
        assert len(faults) == len(FAULTS)
    evidence = GateSEvidence(
        contract_version=CONTRACT_VERSION,
        date=str(payload["date"]),
        git_head=head,
        workload=Workload(
            name=f"reference-collector/{plant.name}/airborne" + ("" if chosen is None else f"/{chosen.hazard}"),
            worlds=worlds,
            groups=GROUPS,
            mask_rows=mask_rows(worlds),
            tolerances=dict(TOLERANCES),
        ),
        arms=(ArmRun(arm, "run", "", manifests, ()),),
        observations=tuple(observations),
        faults=tuple(faults),
        orderings=tuple(orderings),
        audits=(),
    )
    return {"evidence": to_document(evidence, GATE_S_SCHEMA), "spread": cast(JsonObject, spread)}


def progress(text: str) -> None:
    """Say on stderr what is being done."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    os.environ.setdefault("MUJOCO_GL", "disable")
    serve(cast(Any, run_arm))
