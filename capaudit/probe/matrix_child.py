"""The child process of ``capaudit probe matrix``: answers one question about MJWarp."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from capaudit.evidence import Evidence, JsonObject, JsonScalar, Record, to_json
from capaudit.model import CaptureKind, InputError
from capaudit.probe import matrix_pairs as pairs
from capaudit.probe.capture import CaptureOutcome, attempt_capture, hazard_of, warm_up
from capaudit.probe.capture_kinds import Streams, open_streams
from capaudit.probe.child import Channel, serve
from capaudit.probe.environment import describe_environment, require_cuda
from capaudit.probe.locator_roots import PROBE_FOLDER, SourceRoots
from capaudit.probe.matrix_questions import QUESTIONS
from capaudit.probe.matrix_tick import CollectorTick
from capaudit.probe.targets.base import Target
from capaudit.probe.targets.humanoid import Humanoid

REPLAYS = 3
PARITY = 1e-4
"""Largest difference of positions and velocities after the replays that still counts as parity."""


@dataclass(slots=True)
class Setup:
    """One capture to make: what the question needs beside the streams."""

    step: Callable[[], Any]
    kind: CaptureKind = "torch"
    mode: str = "global"
    warmup: int = 2
    humanoid: Humanoid | None = None
    twin: Callable[[], tuple[Humanoid, Callable[[], Any]]] | None = None
    check: Callable[[], str] | None = None
    share_warp: bool = True


def answer(payload: JsonObject, channel: Channel) -> JsonObject:
    """Handle one payload: ``question``, ``worlds``, ``device``, ``date``. Returns an evidence document."""
    device = str(payload["device"])
    require_cuda(device)
    import mujoco_warp
    import warp as wp

    wp.init()
    name = str(payload["question"])
    question = next((item for item in QUESTIONS if item.id == name), None)
    if question is None:
        raise InputError(f"the matrix has no question {name!r}")
    streams = open_streams(device, with_warp=True)
    setup = _set_up(name, int(cast(int, payload["worlds"])), device, streams)
    roots = SourceRoots([(Path(mujoco_warp.__file__).parent, "mujoco_warp"), (PROBE_FOLDER, "capaudit/probe")])
    target = Target(
        name=name,
        step=setup.step,
        owner=None,
        roots=(),
        uses_warp=True,
        share_warp_stream=setup.share_warp,
        warmup=setup.warmup,
    )
    warm_up(target, streams, setup.kind)
    start = _state(setup.humanoid) if setup.humanoid is not None else {}
    outcome = attempt_capture(target, streams, setup.kind, setup.mode, roots)
    record = _record(name, outcome, setup, roots)
    if outcome.succeeded:
        record = _replay(record, outcome, setup, start)
    record = replace(record, expected=question.expected, hazard=question.hazard, subject=question.subject)
    document = Evidence(
        kind="matrix",
        date=str(payload["date"]),
        environment=describe_environment(device),
        target={"question": name},
        mode="matrix",
        parameters={"worlds": payload["worlds"], "capture": setup.kind, "error_mode": setup.mode},
        verdict="measured",
        records=(record,),
    )
    return to_json(document)


def _set_up(name: str, worlds: int, device: str, streams: Streams) -> Setup:
    import warp as wp

    warp_device = wp.device_from_torch(streams.torch_stream.device)
    if name.startswith("nested-"):
        return _nested(name, streams, warp_device)
    kept: list[Any] = []
    array = wp.zeros(64, dtype=wp.float32, device=warp_device)
    if name == "torch-transient-array":
        return Setup(lambda: pairs.free_inside(warp_device))
    if name == "torch-kept-array":
        return Setup(lambda: pairs.keep_alive(warp_device, kept))
    if name == "torch-older-array-freed":
        kept.append(array)
        del array
        return Setup(lambda: pairs.free_older(kept), warmup=0)
    if name == "scoped-stream-sync-enter":
        # Entering makes the capturing stream wait for the one that was current: Warp's own, outside the capture.
        return Setup(lambda: pairs.enter_stream_with_sync(streams.warp_stream, array), share_warp=False)
    if name == "warp-captures-step-without-pool":
        wp.set_mempool_enabled(warp_device, False)
    return _physics(name, worlds, device)


def _physics(name: str, worlds: int, device: str) -> Setup:
    humanoid = Humanoid(worlds, device)
    unrolled = name.endswith("-unrolled")
    humanoid.model.opt.graph_conditional = not unrolled
    if name == "reset-by-mask":
        return _reset(humanoid)
    if name == "collector-tick":
        tick = CollectorTick(humanoid)

        def twin_tick() -> tuple[Humanoid, Callable[[], Any]]:
            other = CollectorTick(Humanoid(worlds, device))
            return other.humanoid, other.step

        return Setup(tick.step, "shared", humanoid=humanoid, twin=twin_tick)

    def twin() -> tuple[Humanoid, Callable[[], Any]]:
        other = Humanoid(worlds, device)
        return other, other.step

    kind: CaptureKind = "warp" if name.startswith("warp") else "shared" if name.startswith("registered") else "torch"
    mode = "relaxed" if "relaxed" in name else "thread_local" if kind == "warp" else "global"
    return Setup(humanoid.step, kind, mode, humanoid=humanoid, twin=twin)


def _reset(humanoid: Humanoid) -> Setup:
    import warp as wp

    mask = wp.to_torch(humanoid.reset_mask)
    mask[::2] = True
    position = wp.to_torch(humanoid.data.qpos)

    def check() -> str:
        return "" if _only_masked_rows_change(position, mask, moved) else "rows that the mask does not name changed"

    humanoid.step()
    moved = position.clone()
    return Setup(humanoid.reset_masked, "torch", warmup=0, humanoid=humanoid, check=check)


def _only_masked_rows_change(position: Any, mask: Any, moved: Any) -> bool:
    changed = (position != moved).any(1)
    return bool((changed == mask).all())


def _nested(name: str, streams: Streams, warp_device: Any) -> Setup:
    import torch
    import warp as wp

    _, inner, _, _, outer, _ = name.split("-")
    if inner == "warp":
        array = wp.zeros(64, dtype=wp.float32, device=warp_device)
        with wp.ScopedCapture(device=warp_device) as capture:
            array.zero_()

        def step() -> Any:
            pairs.launch_warp_graph(capture.graph, streams.warp_stream)
            return array  # the graph writes to it, so it has to live as long
    else:
        x = torch.ones(64, device=streams.torch_stream.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x.add_(1.0)

        def step() -> Any:
            pairs.launch_torch_graph(graph)
            return x

    kind = cast(CaptureKind, outer)
    return Setup(step, kind, "thread_local" if kind == "warp" else "global")


def _record(name: str, outcome: CaptureOutcome, setup: Setup, roots: SourceRoots) -> Record:
    values: dict[str, JsonScalar] = {f"nodes_{kind}": number for kind, number in sorted(outcome.nodes.items())}
    assert outcome.locator is not None
    values["polls"] = outcome.locator.events
    values["poll_seconds"] = round(outcome.locator.seconds, 3)
    note = ""
    located = outcome.located
    if located is not None and located.stack:
        place = located.place or located.stack[0]
        where, cause = roots.locate(place[0]), located.stack[0]
        values["place"] = f"{where.root}/{where.file}:{place[1]}"
        inner = roots.locate(cause[0])
        values["cause"] = f"{inner.root}/{inner.file}:{cause[1]} {cause[2]}"
    if not outcome.succeeded:
        note = f"the error message speaks of {hazard_of(outcome.first_error, located)}"
    verdict = "fails" if not outcome.succeeded else "unbalanced" if _pins_memory(name, outcome) else "ok"
    return Record(id=name, subject=name, outcome=verdict, error=outcome.first_error, note=note, values=values)


def _pins_memory(name: str, outcome: CaptureOutcome) -> bool:
    # The question of the kept array is whether the capture survives; its one allocation is the point of it.
    return bool(outcome.unbalanced) and name != "torch-kept-array"


def _replay(record: Record, outcome: CaptureOutcome, setup: Setup, start: dict[str, Any]) -> Record:
    import torch

    assert outcome.captured is not None
    if outcome.captured.replay is None or (setup.twin is None and setup.check is None) or record.outcome != "ok":
        return record
    if setup.check is not None:
        outcome.captured.replay()
        torch.cuda.synchronize()
        problem = setup.check()
        return replace(record, outcome="wrong_on_replay", note=problem) if problem else record
    assert setup.humanoid is not None
    assert setup.twin is not None
    _restore(setup.humanoid, start)
    for _ in range(REPLAYS):
        outcome.captured.replay()
    torch.cuda.synchronize()
    graph = _state(setup.humanoid)
    other, step = setup.twin()
    other.model.opt.graph_conditional = setup.humanoid.model.opt.graph_conditional
    # The same number of eager steps first: warm starts and contact counters are state as well.
    for _ in range(setup.warmup):
        step()
    _restore(other, start)
    for _ in range(REPLAYS):
        step()
    torch.cuda.synchronize()
    eager = _state(other)
    difference = max(float((graph[name] - eager[name]).abs().max()) for name in ("qpos", "qvel"))
    moved = max(float((graph[name] - start[name]).abs().max()) for name in ("qpos", "qvel"))
    values = {**record.values, "difference": difference, "moved": moved, "replays": REPLAYS}
    agrees = difference <= PARITY and moved > PARITY
    note = record.note if agrees else f"after {REPLAYS} replays the state differs from eager by {difference:.3g}"
    return replace(record, outcome="ok" if agrees else "wrong_on_replay", values=values, note=note)


def _state(humanoid: Humanoid) -> dict[str, Any]:
    import warp as wp

    names = ("qpos", "qvel", "qacc_warmstart", "ctrl", "time")
    return {name: wp.to_torch(getattr(humanoid.data, name)).clone() for name in names}


def _restore(humanoid: Humanoid, state: dict[str, Any]) -> None:
    import torch
    import warp as wp

    for name, saved in state.items():
        wp.to_torch(getattr(humanoid.data, name)).copy_(saved)
    torch.cuda.synchronize()


def _main() -> None:
    os.environ.setdefault("MUJOCO_GL", "disable")
    serve(cast(Any, answer))


if __name__ == "__main__":
    _main()
