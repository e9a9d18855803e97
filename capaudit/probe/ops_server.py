"""The process that measures: it imports torch once and forks children, each with a CUDA context of its own.

CUDA cannot be used on both sides of a fork, so this process itself never touches the device, not even
to ask whether there is one.
"""

from __future__ import annotations

import gc
from collections import deque
from typing import cast

from capaudit.evidence import JsonObject
from capaudit.probe.child import Channel, serve
from capaudit.probe.ops_fork import fork_each
from capaudit.probe.ops_tasks import CAPTURED, describe, measure_idioms, measure_operators, read_outcomes

_OPERATORS_EACH = 6
"""Operators that share a child, as long as their captures succeed."""


def handle(payload: JsonObject, channel: Channel) -> JsonObject:
    """Measure everything the payload names; one partial line per outcome, the environment and the number first."""
    import torch

    # OpenMP's threads do not survive a fork, and the children share the cores anyway.
    torch.set_num_threads(1)
    common: JsonObject = {"device": payload["device"], "backend": payload["backend"]}
    ((_, described),) = fork_each(deque([common | {"id": "environment"}]), describe, 1, 120)
    environment = described.require()
    if "no_device" in environment:
        return environment
    channel.partial({"environment": environment})
    jobs, timeout = cast("int", payload["jobs"]), cast("float", payload["timeout"])
    run = _run_operators if payload["kind"] == "opinfo" else _run_idioms
    run(payload, common, channel, jobs, timeout)
    return {"finished": True}


def _run_idioms(payload: JsonObject, common: JsonObject, channel: Channel, jobs: int, timeout: float) -> None:
    entries = cast("list[JsonObject]", payload["tasks"])
    channel.partial({"total": len(entries)})
    common |= {"id": "idioms", "samples": 1}
    tasks: deque[JsonObject] = deque(common | {"entries": [entry]} for entry in entries if not entry["shareable"])
    shareable = [entry for entry in entries if entry["shareable"]]
    share = cast("int", payload["share"])
    for start in range(0, len(shareable), share):
        tasks.append(common | {"entries": [*shareable[start : start + share]]})
    _freeze()
    for task, ended in fork_each(tasks, measure_idioms, jobs, timeout):
        outcomes, rest = read_outcomes(task, ended)
        shared = {str(entry["id"]): entry for entry in cast("list[JsonObject]", task["entries"])}
        for outcome in outcomes:
            if len(shared) > 1 and outcome["outcome"] not in CAPTURED:
                # Company may be to blame.
                tasks.append(task | {"entries": [shared[str(outcome["id"])]]})
            else:
                channel.partial(outcome)
        if rest:
            tasks.append(task | {"entries": [*rest]})


def _run_operators(payload: JsonObject, common: JsonObject, channel: Channel, jobs: int, timeout: float) -> None:
    from capaudit.probe import opinfo
    from capaudit.probe.ops_idioms import matches

    found = opinfo.operators()
    wanted = cast("list[str]", payload["select"])
    entries = opinfo.to_entries(found)
    kept = [entry for entry in entries if not wanted or any(matches(str(entry["id"]), name) for name in wanted)]
    channel.partial({"total": len(kept)})
    common |= {"id": "operators", "samples": payload["samples"]}
    tasks: deque[JsonObject] = deque()
    for start in range(0, len(kept), _OPERATORS_EACH):
        tasks.append(common | {"entries": [*kept[start : start + _OPERATORS_EACH]]})

    def work(task: JsonObject, child: Channel) -> JsonObject:
        return measure_operators(found, task, child)

    _freeze()
    for task, ended in fork_each(tasks, work, jobs, timeout):
        outcomes, rest = read_outcomes(task, ended)
        for outcome in outcomes:
            channel.partial(outcome)
        if rest:
            tasks.append(task | {"entries": [*rest]})


def _freeze() -> None:
    """Take what is loaded out of the collector's sight: the children's collections would visit, and so copy, it."""
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    serve(handle)
