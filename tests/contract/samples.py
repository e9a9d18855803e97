"""Declarations and evidence of a collector that does everything right; tests change one thing at a time."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import replace
from typing import Any

from capaudit.contract import (
    AllocatorSnapshot,
    Boundary,
    Candidate,
    Capabilities,
    CaptureLifecycle,
    Carrier,
    CarrierManifest,
    CompletionReceipt,
    DriverFacts,
    IngressCounters,
    IngressShape,
    Preflight,
    RunManifest,
    Software,
    StreamContract,
    collector_layout,
    immediate_receipt,
    preflight,
)
from capaudit.contract.gate_p_evidence import (
    METRIC,
    GatePEvidence,
    PerformanceArm,
    PerformanceRun,
    Registration,
    RunSummary,
    Safety,
)
from capaudit.contract.gate_s_evidence import (
    ArmRun,
    AuditObservation,
    FaultObservation,
    GateSEvidence,
    Observation,
    OrderingObservation,
    Workload,
)
from capaudit.contract.gate_words import ABSENT_FIELDS, AUDITS, FAULTS, FIELDS, GROUPED_FIELDS, MASKS, TRAJECTORIES
from capaudit.contract.manifest import RngSummary

WORLDS = 8
HEAD = "0123456789abcdef0123456789abcdef01234567"
OTHER_HEAD = "f" * 40
GPU = "GPU-db468bab-1b15-2a0b-b5e6-7716e512d422"
GROUPS = ("actor", "critic")
LAYOUT = collector_layout(WORLDS, groups={"actor": 5, "critic": 7}, actions=3, controls=3, components=2)


def carriers() -> CarrierManifest:
    """The layout with addresses that do not overlap."""
    addresses = itertools.count(0x7F00_0000_0000, 1 << 20)
    return CarrierManifest(
        tuple(
            Carrier(
                name=spec.name,
                owner="robots.env.Environment",
                shape=spec.shape,
                dtype=spec.dtype,
                device="cpu" if spec.name == "rng_state" else "cuda:0",
                address=next(addresses),
                role=spec.role,
                writers=("robots.env.Environment.step",),
            )
            for spec in LAYOUT
        )
    )


def capabilities(**changes: Any) -> Capabilities:
    """Everything declared, everything supported."""
    declared: dict[str, Any] = {
        "contract_version": 1,
        "requested": True,
        "devices": ("cuda:0",),
        "stream": StreamContract("collector", 94_000),
        "stable_views": True,
        "stepping": True,
        "masked_reset": "masked",
        "deferred_validation": True,
        "allocator": AllocatorSnapshot(1 << 20, 1 << 22, 12),
        "generators": ("torch.cuda",),
        "semantic_owners": (),
        "driver": DriverFacts("580.159.04", "13.0", True),
    }
    return Capabilities(**(declared | changes))


BOUNDARY = Boundary(
    "tick", "robots.env:Environment.step", "shared", "configuration", inputs=("action",), outputs=("reward",)
)


def candidate(**changes: Any) -> Candidate:
    """A supported candidate; ``changes`` go to its capabilities."""
    return Candidate(BOUNDARY, capabilities(**changes), carriers(), LAYOUT)


def supported() -> Preflight:
    """The verdict on it."""
    return preflight(candidate())


def receipt(sequence: int, capture_id: str = "eager", **changes: Any) -> CompletionReceipt:
    """An immediate receipt with the identities that the sample lifecycle expects."""
    values: dict[str, Any] = {"operation": "collector.tick", "producer": "collector"}
    return immediate_receipt(**(values | {"sequence": sequence, "capture_id": capture_id} | changes))


def ready(fallback: Any = "eager", capture_id: str = "capture-1") -> CaptureLifecycle:
    """A lifecycle with a valid capture."""
    life = CaptureLifecycle("graph", fallback=fallback)
    life.allocate(carriers())
    life.warmed_up()
    life.preflighted(supported())
    with life.capturing(capture_id):
        pass
    return life


def tick(life: CaptureLifecycle, sequence: int) -> str:
    """One whole tick; returns how it ran."""
    kind = life.begin_tick()
    life.complete(receipt(sequence, life.capture_identity))
    life.publish()
    life.end_tick()
    return kind


SOFTWARE = Software("580.159.04", "13.0", "2.11.0+cu130", "1.19.0", "3.11.0", "4.0.0")


def manifest(mode: str = "graph", **changes: Any) -> RunManifest:
    """The manifest of a run of 12 ticks that went as planned, in mode ``eager`` or ``graph``."""
    graph = mode == "graph"
    values: dict[str, Any] = {
        "contract_version": 1,
        "mode": mode,
        "requested": graph,
        "enabled": graph,
        "state": "ready" if graph else "eager",
        "capture_id": "capture-1" if graph else None,
        "disable_reasons": () if graph else ("mode is eager",),
        "invalidation_reasons": (),
        "replays": 12 if graph else 0,
        "eager_ticks": 0 if graph else 12,
        "fallbacks": 0,
        "fallback_reasons": (),
        "ordering": IngressCounters(12, 12, 12),
        "last_sequence": 11,
        "stream": StreamContract("collector", 94_000),
        "rng": RngSummary("cuda:0", "ab" * 32, 1, 36),
        "seeds": {"env": 1, "algo": 1},
        "gpu_uuid": GPU,
        "software": SOFTWARE,
        "worlds": WORLDS,
        "shapes": {"action": (WORLDS, 3), "reward": (WORLDS,)},
        "ingress": IngressShape(2, WORLDS, 512 * WORLDS),
        "git_head": HEAD,
        "rehearsal": False,
    }
    return RunManifest(**(values | changes))


MANIFESTS = {
    "eager": manifest("eager"),
    "graph": manifest(),
    "warmup_replay": manifest(replays=9, eager_ticks=3),
}


def gate_s_evidence() -> GateSEvidence:
    """Evidence with which Gate S passes on the null arm; the MPS arm was not run."""
    return GateSEvidence(
        contract_version=1,
        date="2026-01-02T03:04:05+00:00",
        git_head=HEAD,
        workload=Workload("mjwarp:humanoid", WORLDS, GROUPS, {"empty": 0, "partial": 3, "full": WORLDS}, {}),
        arms=(
            ArmRun("null", "run", "", MANIFESTS, ()),
            ArmRun("mps", "not_run", "the MPS daemon cannot be started", {}, ()),
        ),
        observations=tuple(_observations()),
        faults=tuple(_faults()),
        orderings=tuple(_orderings()),
        audits=tuple(AuditObservation(name, (f"robots.{name}",), 5, 0, 0) for name in AUDITS),
    )


def _observations() -> list[Observation]:
    found = []
    for trajectory, mask, field in itertools.product(TRAJECTORIES, MASKS, FIELDS):
        for group in GROUPS if field in GROUPED_FIELDS else (None,):
            digest = hashlib.sha256(f"{mask} {field} {group}".encode()).hexdigest()
            elements = 0 if field in ABSENT_FIELDS else 96
            found.append(Observation("null", trajectory, mask, field, group, elements, digest, 0.0))
    return found


def _faults() -> list[FaultObservation]:
    found = []
    for fault, outcome in FAULTS.items():
        rolled_back = outcome in ("fell_back", "restored")
        found.append(
            FaultObservation(
                arm="null",
                fault=fault,
                outcome=outcome,
                reason=f"{fault} was planted",
                published=1 if fault == "replay_failed_published" else 0,
                replays_after=0,
                fallbacks=1 if outcome == "fell_back" else 0,
                rng_restored=True if rolled_back else None,
                draws_equal=True if rolled_back else None,
            )
        )
    return found


def _orderings() -> list[OrderingObservation]:
    identities = {"eager": ("eager",), "graph": ("capture-1",), "warmup_replay": ("eager", "capture-1")}
    return [
        OrderingObservation("null", trajectory, 0, 11, 12, 12, 12, 0, 0, identities[trajectory], 0)
        for trajectory in TRAJECTORIES
    ]


def registration(**changes: Any) -> Registration:
    """What was fixed before the performance runs."""
    values: dict[str, Any] = {
        "contract_version": 1,
        "registered_at": "2026-01-03T00:00:00+00:00",
        "git_head": HEAD,
        "collector": "mjwarp:humanoid",
        "k": 1,
        "worlds": WORLDS,
        "shapes": {"action": (WORLDS, 3), "reward": (WORLDS,)},
        "metric": METRIC,
        "repeats": 3,
        "iterations": 300,
        "tail": 100,
        "minimum_gain": 0.1,
        "arms": ("null", "mps"),
        "candidate": "graph",
        "baselines": ("eager_sync", "eager_graph_physics"),
        "decisive": ("eager_sync", "eager_graph_physics"),
        "semantic_surface": FIELDS,
        "mode_rules": {
            "graph": "the whole tick is replayed",
            "eager_sync": "managers synchronise",
            "eager_graph_physics": "physics alone is replayed",
        },
        "seeds": {"env": 1, "algo": 1},
    }
    return Registration(**(values | changes))


RATES = {"eager_sync": 1000.0, "eager_graph_physics": 4000.0, "graph": 4800.0}


def summary(rate: float) -> RunSummary:
    """A run that takes 200 iterations to reach its rate."""
    return RunSummary.of((rate / 2,) * 200 + (rate,) * 100)


def gate_p_evidence(rates: dict[str, float] = RATES, **changes: Any) -> GatePEvidence:
    """Evidence with which Gate P passes on the null arm; the MPS arm was not run."""
    fixed = registration(**changes)
    runs = []
    for repeat in range(fixed.repeats):
        for place, mode in enumerate(("eager_sync", "graph", "eager_graph_physics")):
            order = 3 * repeat + place
            graph = mode == "graph"
            counts = IngressCounters(300, 300, 300)
            runs.append(
                PerformanceRun(
                    arm="null",
                    mode=mode,
                    repeat=repeat,
                    order=order,
                    process=f"host/{4000 + order}/{order}",
                    started_at=f"2026-01-03T01:{order:02}:00+00:00",
                    registration_sha256=fixed.sha256,
                    summary=summary(rates[mode]),
                    safety=Safety(True, 0, 0, 0),
                    manifest=manifest(
                        "graph" if graph else "eager",
                        replays=300 if graph else 0,
                        eager_ticks=0 if graph else 300,
                        ordering=counts,
                        last_sequence=299,
                    ),
                )
            )
    arms = (PerformanceArm("null", "run", ""), PerformanceArm("mps", "not_run", "the MPS daemon cannot be started"))
    return GatePEvidence(fixed, fixed.sha256, arms, tuple(runs))


def with_run(evidence: GatePEvidence, index: int, **changes: Any) -> GatePEvidence:
    """The evidence with one run changed."""
    runs = list(evidence.runs)
    runs[index] = replace(runs[index], **changes)
    return replace(evidence, runs=tuple(runs))
