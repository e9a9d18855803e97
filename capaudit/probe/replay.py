"""The replay mode: capture once, replay several times, compare with eager from the same state."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from capaudit.evidence import JsonScalar, Record
from capaudit.model import CaptureKind
from capaudit.probe.capture import CaptureOutcome, attempt_capture, eager_stream, warm_up
from capaudit.probe.capture_kinds import Streams
from capaudit.probe.carriers import as_tensor, find_carriers
from capaudit.probe.locator_roots import SourceRoots
from capaudit.probe.replay_differential import (
    Divergence,
    Side,
    addresses,
    compare,
    find_frozen,
    poison,
    record_trajectory,
    save_state,
    synchronize_states,
)
from capaudit.probe.replay_suspects import BindingWatch, HostReads, Suspect, compare_paths
from capaudit.probe.targets.base import Target
from capaudit.probe.trace_log import EventLog

REPLAYS = 4
WATCHED_STEPS = 3


def run_replay(
    build: Callable[[], Target],
    streams: Streams,
    kind: CaptureKind,
    mode: str,
    roots: SourceRoots,
    log: EventLog,
    *,
    seed: int = 0,
    replays: int = REPLAYS,
) -> Record:
    """Run the differential and return its record; divergences and the lines behind them go into the log."""
    import torch

    seed_everything(seed)
    target = build()
    warm_up(target, streams, kind)
    state = save_state(target.owner, "cuda")
    originals = _tensors_of(target.owner)
    before = addresses(target.owner, "cuda")
    outcome = attempt_capture(target, streams, kind, mode, roots)
    if not outcome.succeeded or outcome.captured is None or outcome.captured.replay is None:
        return Record(id="replay", subject="replay", outcome="not captured", error=outcome.first_error)
    after = addresses(target.owner, "cuda")
    kept = _storages_of(target.owner)
    poisoned = poison(outcome.output, kept, "cuda")
    graph_side = Side(target.owner, outcome.captured.replay, target.before_step, outcome.output)
    synchronize = torch.cuda.synchronize
    error = ""
    divergences: tuple[Divergence, ...] = ()
    copied = 0
    try:
        options: dict[str, Any] = {
            "inputs": target.inputs,
            "outputs": target.outputs,
            "mutate": target.mutate,
            "spared": frozenset(after) - frozenset(before),
            "synchronize": synchronize,
        }
        seed_everything(seed + 1)
        graph = record_trajectory(graph_side, replays, "cuda", **options)
        side, copied = _eager_side(build, state, streams, kind, seed)
        eager = record_trajectory(side, replays, "cuda", **options)
        repeated = None
        if target.repeatable:
            side, _ = _eager_side(build, state, streams, kind, seed)
            repeated = record_trajectory(side, replays, "cuda", **options)
        rebound = frozenset(name for name, address in after.items() if name in before and before[name] != address)
        divergences = compare(graph, eager, repeated, target.tolerance, rebound, poisoned)
        loose = frozenset(item.name for item in divergences if not item.is_fault)
        if loose:
            restore = (restorer(originals), restorer(_tensors_of(side.owner)))
            frozen = find_frozen(graph_side, side, restore, loose, "cuda", target.tolerance, synchronize)
            divergences = tuple(replace(item, kind="frozen") if item.name in frozen else item for item in divergences)
    except RuntimeError as failure:
        error = f"{type(failure).__name__}: {failure}".split("\n", 1)[0]
    faults = [item for item in divergences if item.is_fault]
    values: dict[str, JsonScalar] = {
        "replays": replays,
        "carriers": len(before),
        "carriers_moved": sum(1 for name, address in after.items() if name in before and before[name] != address),
        "carriers_aligned": copied,
        "nodes": sum(outcome.nodes.values()),
        "alloc": outcome.nodes["alloc"],
        "free": outcome.nodes["free"],
        "diverging": len(faults),
        "random": len(divergences) - len(faults),
    }
    if faults or error:
        suspects = find_suspects(build, outcome, streams, kind, roots, seed) if not error else []
        for suspect in suspects:
            log.add(suspect.kind, suspect.hazard, suspect.detail, stack=suspect.stack)
        if suspects and suspects[0].stack:
            place = roots.innermost_user(suspects[0].stack) or suspects[0].stack[0]
            where = roots.locate(place[0])
            values["place"] = f"{where.root}/{where.file}:{place[1]}"
            values["suspect"] = suspects[0].kind
    note = ""
    if faults:
        first = faults[0]
        note = f"{first.name} is {first.kind} from replay {first.step + 1} on: {first.detail}"
        values["first_diverging"], values["divergence"] = first.name, first.kind
    elif outcome.unbalanced:
        note = f"{outcome.nodes['alloc']} allocation and {outcome.nodes['free']} free nodes"
    return Record(
        id="replay",
        subject="replay",
        outcome="wrong_on_replay" if faults or error else "ok",
        error=error,
        note=note,
        values=values,
    )


def find_suspects(
    build: Callable[[], Target],
    outcome: CaptureOutcome,
    streams: Streams,
    kind: CaptureKind,
    roots: SourceRoots,
    seed: int,
) -> list[Suspect]:
    """Watch an eager run line by line and return the suspects, the most certain first."""
    assert outcome.locator is not None
    seed_everything(seed)
    target = build()
    warm_up(target, streams, kind)
    watch = BindingWatch(target.owner, roots, "cuda")
    reads = HostReads(roots)
    paths = []
    with eager_stream(target, streams, kind):
        for index in range(WATCHED_STEPS):
            if target.before_step is not None:
                watch.outside = True
                with watch:
                    target.before_step(index)
                watch.outside = False
            watch.path = []
            with ExitStack() as stack:
                stack.enter_context(reads.active())
                stack.enter_context(watch)
                target.step()
            paths.append(watch.path)
    suspects = [*watch.suspects, *reads.suspects, *compare_paths(outcome.locator.path, paths[-2], paths[-1], roots)]
    unique: dict[tuple[str, object], Suspect] = {}
    for suspect in sorted(suspects, key=lambda item: item.rank):
        place = roots.innermost_user(suspect.stack)
        unique.setdefault((suspect.kind, place[:2] if place is not None else None), suspect)
    return list(unique.values())


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's generators, on the device too."""
    random.seed(seed)
    if "numpy" in sys.modules:
        import numpy as np

        np.random.seed(seed)
    import torch

    torch.manual_seed(seed)


def restorer(saved: list[tuple[Any, Any]]) -> Callable[[], None]:
    """Return a function that puts tensors back to saved values, in place."""

    def restore() -> None:
        import torch

        with torch.no_grad():
            for tensor, values in saved:
                # A broadcast tensor cannot be written to as a whole, and its element has another name as well.
                if not any(
                    stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
                ):
                    tensor.copy_(values)

    return restore


def _eager_side(
    build: Callable[[], Target], state: dict[Any, Any], streams: Streams, kind: CaptureKind, seed: int
) -> tuple[Side, int]:
    seed_everything(seed)
    target = build()
    warm_up(target, streams, kind)
    copied = synchronize_states(state, target.owner, "cuda")

    def step() -> Any:
        with eager_stream(target, streams, kind):
            return target.step()

    seed_everything(seed + 1)
    return Side(target.owner, step, target.before_step), copied


def _storages_of(owner: Any) -> set[int]:
    """Return the addresses of the carriers' storages. Reads no element: memory of the graph is none before a replay."""
    tensors = (as_tensor(carrier.value) for carrier in find_carriers(owner, "cuda"))
    return {int(tensor.untyped_storage().data_ptr()) for tensor in tensors if tensor is not None}


def _tensors_of(owner: Any) -> list[tuple[Any, Any]]:
    """Return the carriers' memory as tensors, each with a copy of its values."""
    tensors = (as_tensor(carrier.value) for carrier in find_carriers(owner, "cuda"))
    return [(tensor, tensor.clone()) for tensor in tensors if tensor is not None]
