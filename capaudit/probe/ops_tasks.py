"""What a forked child does, and how the parent reads what it left, also when it died."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from capaudit.evidence import JsonObject
from capaudit.model import NoDeviceError
from capaudit.probe.child import Channel, ChildResult

if TYPE_CHECKING:
    from capaudit.probe.ops_backend import Backend
    from capaudit.probe.ops_measure import Measurement

CUDA_BACKEND = "capaudit.probe.ops_backend:CudaBackend"
CAPTURED = ("ok", "advances")
"""Outcomes after which a process is as good as before."""


def describe(task: JsonObject, channel: Channel) -> JsonObject:
    """Return the environment, or why there is no device to measure on."""
    from capaudit.probe.environment import describe_environment, require_cuda

    device = str(task["device"])
    if task["backend"] == CUDA_BACKEND:
        try:
            require_cuda(device)
        except NoDeviceError as error:
            return {"no_device": error.message, "remedy": error.remedy}
    return cast("JsonObject", asdict(describe_environment(device)))


def measure_idioms(task: JsonObject, channel: Channel) -> JsonObject:
    """Measure the task's idioms one after the other, until one does not capture: that may spoil this process."""
    backend = _make_backend(task)
    for number, entry in enumerate(cast("list[JsonObject]", task["entries"])):
        channel.partial({"entry": number, "stage": "setup"})
        folder = Path.cwd() / str(number)
        folder.mkdir()
        measured = _measure_idiom(entry, backend, folder, channel)
        channel.partial({"measured": measured.to_json()})
        if measured.outcome not in CAPTURED:
            break
    return {}


def _measure_idiom(entry: JsonObject, backend: Backend, folder: Path, channel: Channel) -> Measurement:
    from capaudit.probe.ops_measure import Measurement, error_text, measure
    from capaudit.probe.ops_program import IdiomProgram

    setup, body, mutate = (str(entry[key]) for key in ("setup", "body", "mutate"))
    try:
        program = IdiomProgram(setup, body, mutate, backend.device, folder)
    except ModuleNotFoundError as error:
        return Measurement("not-run", note=f"{error.name} is not installed")
    except Exception as error:
        return Measurement("broken", error_text(error))
    return measure(program, backend, lambda stage: channel.partial({"stage": stage}))


def measure_operators(found: Sequence[Any], task: JsonObject, channel: Channel) -> JsonObject:
    """Measure samples of the task's operators one after the other, until a capture fails: that spoils this process."""
    from capaudit.probe import opinfo
    from capaudit.probe.ops_measure import measure

    backend = _make_backend(task)
    count = cast("int", task["samples"])
    for number, entry in enumerate(cast("list[JsonObject]", task["entries"])):
        channel.partial({"entry": number, "stage": "setup"})
        operator, first = found[cast("int", entry["operator"])], cast("int", entry["first"])
        try:
            for index, program in opinfo.programs(operator, first, count, backend.device):
                channel.partial({"entry": number, "sample": index, "input": program.description})
                with opinfo.without_reseeding():
                    measured = measure(program, backend, lambda stage: channel.partial({"stage": stage}))
                channel.partial({"measured": measured.to_json()})
                if measured.outcome not in CAPTURED:
                    return {}
        except opinfo.UnsupportedError as error:
            channel.partial({"measured": {"outcome": "not-run", "note": str(error)}})
    return {}


def read_outcomes(task: JsonObject, ended: ChildResult) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return what was measured, one outcome per idiom or sample, and the entries that are left to measure."""
    entries = cast("list[JsonObject]", task["entries"])
    outcomes: list[JsonObject] = []
    number, position = 0, {"sample": entries[0].get("first", 0), "input": ""}
    is_open = ended.result is None
    for line in ended.partial:
        if "entry" in line:
            number, is_open = cast("int", line["entry"]), True
            position = {"sample": line.get("sample", entries[number].get("first", 0)), "input": line.get("input", "")}
        elif "measured" in line:
            is_open = False
            outcomes.append(_identify(entries[number]) | position | cast("JsonObject", line["measured"]))
    if is_open and ended.result is None:
        outcomes.append(_identify(entries[number]) | position | _died(ended))
    if not outcomes or (ended.result is not None and outcomes[-1]["outcome"] in (*CAPTURED, "not-run")):
        return outcomes, []
    following = cast("int", position["sample"]) + 1
    # A child that died before it had a sample would do so again, and an idiom has none.
    again = (
        [entries[number] | {"first": following}]
        if position["input"] and following < cast("int", task["samples"])
        else []
    )
    return outcomes, again + entries[number + 1 :]


def _identify(entry: JsonObject) -> JsonObject:
    return {"id": entry["id"], "subject": entry.get("subject", "")}


def _make_backend(task: JsonObject) -> Backend:
    module, _, name = str(task["backend"]).partition(":")
    return cast("Backend", getattr(importlib.import_module(module), name)(str(task["device"])))


def _died(ended: ChildResult) -> JsonObject:
    """Judge a child that brought no result by the stage in which it ended."""
    stage = next((str(line["stage"]) for line in reversed(ended.partial) if "stage" in line), "setup")
    outcome = {"capture": "fails", "replay": "wrong-on-replay"}.get(stage, "broken")
    if ended.status in ("timed-out", "out-of-memory"):
        outcome = "broken"
    lines = ended.message.splitlines()
    return {"outcome": outcome, "error": lines[0][:300] if lines else "", "note": f"the process ended during {stage}"}
