"""The trace mode: eager steps under every hook, with resets forced so that reset paths run."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext

from capaudit.evidence import Record
from capaudit.probe.coverage import ExecutedLines
from capaudit.probe.sync_hooks import SynchronizationHooks
from capaudit.probe.targets.base import Target
from capaudit.probe.trace_log import EventLog

RESET_EVERY = 10
"""Steps between forced resets, where the target can force one."""

FAULT_KINDS = frozenset(
    {
        "synchronization",
        "host-scalar-read",
        "explicit-synchronize",
        "dynamic-shape",
        "host-to-device-copy",
        "device-to-host-copy",
        "warp-synchronization",
        "warp-read",
        "graph-launch",
        "nested-capture",
    }
)
"""What no kind of capture allows. Warp's allocations and condition reads are legal in a capture that Warp knows."""


def run_trace(
    target: Target,
    steps: int,
    log: EventLog,
    device_kind: str,
    progress: Callable[[int], None] = lambda index: None,
    executed: ExecutedLines | None = None,
) -> Record:
    """Run ``steps`` eager steps after the warm-up and log what each did; return the summary.

    ``executed`` collects the lines that ran under the hooks.
    """
    for index in range(max(1, target.warmup)):
        # First calls compile and fill caches; that is not what a step costs.
        if target.before_step is not None:
            target.before_step(index)
        target.step()
    gc.collect()
    hooks = SynchronizationHooks(log, device_kind)
    resets = 0
    for index in range(steps):
        if target.before_step is not None:
            target.before_step(index)
        if target.force_reset is not None and index % RESET_EVERY == RESET_EVERY - 1:
            target.force_reset()
            resets += 1
        with hooks.active(), executed or nullcontext():
            target.step()
        progress(index + 1)
    events = log.events(stacks=False)
    faults = [event for event in events if event.hazard is not None and event.kind in FAULT_KINDS]
    return Record(
        id="trace",
        subject="trace",
        outcome="faults" if faults else "clean",
        values={
            "steps": steps,
            "forced_resets": resets,
            "lines": len({(event.root, event.file, event.line) for event in events}),
            "fault_lines": len({(event.root, event.file, event.line) for event in faults}),
            "events": sum(event.count for event in events),
        },
    )
