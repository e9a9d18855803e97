"""The child process of Gate P: one mode, once, in a process that has run nothing before."""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from capaudit.contract.documents import to_document
from capaudit.contract.gate_p_evidence import TAIL, RunSummary, Safety
from capaudit.contract.manifest import SCHEMA
from capaudit.evidence import JsonObject
from capaudit.probe.child import Channel, serve
from capaudit.probe.environment import require_cuda

_ACTIONS = 16
"""Actions are prepared on the device before the clock starts: inference is no part of the tick."""


def run_once(payload: JsonObject, channel: Channel) -> JsonObject:
    """Handle one payload: ``mode``, ``robot``, ``worlds``, ``device``, ``seed``, ``iterations``, ``head``, ``folder``.

    ``shapes`` true asks for the carriers' shapes alone. Writes ``run_summary.json`` into ``folder``; returns safety,
    manifest, process and starting time.
    """
    device = str(payload["device"])
    if device != "cpu":
        require_cuda(device)
    started = datetime.now(UTC).isoformat()
    from capaudit.probe.targets.collector.declare import describe_carriers

    collector = _build(payload, device)
    if payload.get("shapes"):
        found = {item.name: list(item.shape) for item in describe_carriers(collector.tick) if item.role != "ingress"}
        return {"shapes": cast(JsonObject, found)}
    collector.prepare()
    rates, reordered = _measure(collector, int(cast(int, payload["iterations"])))
    summary = RunSummary.of(tuple(rates), min(TAIL, len(rates)))
    text = json.dumps(
        {
            "iterations": summary.iterations,
            "tail": summary.tail,
            "env_steps_per_sec": list(summary.env_steps_per_sec),
            "tail_env_steps_per_sec": summary.tail_env_steps_per_sec,
        }
    )
    Path(str(payload["folder"]), "run_summary.json").write_text(text, encoding="utf-8")
    from capaudit.probe.gates.machine import gpu_uuid, software

    finite = bool(collector.tick.carriers.finite.all())
    safety = Safety(finite_outputs=finite, validation_failures=int(not finite), stale_receipts=0, reordered=reordered)
    manifest = collector.manifest(gpu_uuid=gpu_uuid(device), software=software(device), git_head=str(payload["head"]))
    return {
        "process": f"{socket.gethostname()}-{os.getpid()}-{started}",
        "started_at": started,
        "safety": cast(JsonObject, {name: getattr(safety, name) for name in Safety.__dataclass_fields__}),
        "manifest": to_document(manifest, SCHEMA),
    }


def _build(payload: JsonObject, device: str) -> Any:
    from capaudit.probe.targets.collector.collector import ReferenceCollector
    from capaudit.probe.targets.collector.plant import load_plant
    from capaudit.probe.targets.collector.tick import CollectorTick
    from capaudit.probe.targets.controls.baselines import GraphedPhysics, SynchronisingManagers

    ticks = {"eager_sync": SynchronisingManagers, "eager_graph_physics": GraphedPhysics}
    mode = str(payload["mode"])
    return ReferenceCollector(
        load_plant(str(payload["robot"])),
        worlds=int(cast(int, payload["worlds"])),
        device=device,
        seed=int(cast(int, payload["seed"])),
        mode="graph" if mode == "graph" else "eager",
        evidence=False,
        make=ticks.get(mode, CollectorTick),
    )


def _measure(collector: Any, iterations: int) -> tuple[list[float], int]:
    """Run the iterations: action in, tick, transition into the replay buffer, and the wait for all of it."""
    import torch

    tick, worlds = collector.tick, collector.tick.worlds
    c = tick.carriers
    generator = torch.Generator().manual_seed(collector.seed)
    shape = (_ACTIONS, *c.action.shape)
    actions = (torch.rand(shape, generator=generator) * 2.0 - 1.0).to(c.action.device)
    replay = torch.zeros_like(c.ingress[0])
    rates = []
    collector.runner.synchronize()
    for number in range(iterations):
        begin = time.perf_counter()
        c.action.copy_(actions[number % _ACTIONS])
        collector.step()
        real, _ = collector.take()
        replay.copy_(real)
        collector.runner.synchronize()
        rates.append(worlds / (time.perf_counter() - begin))
    return rates, int(int(c.published) != iterations)


if __name__ == "__main__":
    os.environ.setdefault("MUJOCO_GL", "disable")
    serve(cast(Any, run_once))
