"""The process that measures: it imports torch once and forks a child per program, each with a CUDA context of its own.

CUDA cannot be used on both sides of a fork, so this process itself never touches the device, not even
to ask whether there is one.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from capaudit.evidence import JsonObject
from capaudit.model import NoDeviceError
from capaudit.probe.child import Channel, ChildResult, Lines, answer, conclude, read_tail, serve

CUDA_BACKEND = "capaudit.probe.ops_backend:CudaBackend"
_POLL_SECONDS = 0.005
Work = Callable[[JsonObject, Channel], JsonObject]


def fork_each(
    tasks: deque[JsonObject], work: Work, jobs: int, timeout: float
) -> Iterator[tuple[JsonObject, ChildResult]]:
    """Fork a child per task, ``jobs`` at a time, and yield each task with how its child ended.

    The caller may append to ``tasks`` while it reads. ``timeout`` is in seconds, per child.
    """
    with tempfile.TemporaryDirectory(prefix="capaudit-ops-") as name:
        running: list[_Fork] = []
        started = 0
        try:
            while tasks or running:
                while tasks and len(running) < jobs:
                    folder = Path(name) / str(started)
                    started += 1
                    running.append(_Fork.start(tasks.popleft(), work, folder, timeout))
                ended = [fork for fork in running if fork.has_ended()]
                running = [fork for fork in running if fork not in ended]
                for fork in ended:
                    yield fork.task, fork.conclude()
                if not ended:
                    time.sleep(_POLL_SECONDS)
        finally:
            for fork in running:
                fork.kill()


@dataclass(slots=True, eq=False)
class _Fork:
    """One forked child. It stays in this process's group, so that it ends with it."""

    task: JsonObject
    pid: int
    folder: Path
    begin: float
    timeout: float
    timed_out: bool = False
    code: int = 0

    @classmethod
    def start(cls, task: JsonObject, work: Work, folder: Path, timeout: float) -> _Fork:
        folder.mkdir()
        pid = os.fork()
        if pid == 0:
            _be_child(task, work, folder)
        return cls(task, pid, folder, time.monotonic(), timeout)

    def has_ended(self) -> bool:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0 and time.monotonic() - self.begin > self.timeout:
            self.timed_out = True
            os.kill(self.pid, signal.SIGKILL)
            pid, status = os.waitpid(self.pid, 0)
        if pid:
            self.code = os.waitstatus_to_exitcode(status)
        return pid != 0

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def conclude(self) -> ChildResult:
        lines = Lines(None)
        lines.read((self.folder / "result").read_bytes())
        tail, seconds = read_tail(self.folder / "output"), time.monotonic() - self.begin
        return conclude(str(self.task["id"]), lines, self.timed_out, self.timeout, self.code, tail, seconds)


def _be_child(task: JsonObject, work: Work, folder: Path) -> None:
    # Nothing may escape from here into the parent's code, which this process is a copy of.
    try:
        result = os.open(folder / "result", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(folder)
        channel = Channel(result)
        answer(channel, lambda: work(task, channel))
    finally:
        os._exit(1)


def handle(payload: JsonObject, channel: Channel) -> JsonObject:
    """Measure every task of the payload; one partial line per outcome, the environment first."""
    import torch

    # OpenMP's threads do not survive a fork, and the children share the cores anyway.
    torch.set_num_threads(1)
    device, backend = str(payload["device"]), str(payload["backend"])
    environment = _run_one({"id": "environment", "device": device, "backend": backend}, _describe)
    if "no_device" in environment:
        return environment
    channel.partial({"environment": environment})
    tasks: deque[JsonObject] = deque(cast("list[JsonObject]", payload["tasks"]))
    work: Work = _measure_idiom
    if payload["kind"] == "opinfo":
        work, tasks = _prepare_opinfo(payload)
    channel.partial({"total": len(tasks)})
    for task in tasks:
        task |= {"device": device, "backend": backend}
    gc.collect()
    gc.freeze()  # The children's collections then need not visit, and so copy, what they inherit.
    for task, ended in fork_each(tasks, work, cast("int", payload["jobs"]), cast("float", payload["timeout"])):
        for outcome in _outcomes(task, ended):
            channel.partial(outcome)
        rest = _rest(task, ended)
        if rest is not None:
            tasks.append(rest)
    return {"finished": True}


def _prepare_opinfo(payload: JsonObject) -> tuple[Work, deque[JsonObject]]:
    from capaudit.probe import opinfo
    from capaudit.probe.ops_idioms import matches

    found = opinfo.operators()
    wanted = cast("list[str]", payload["select"])
    tasks = opinfo.to_tasks(found, cast("int", payload["samples"]))
    kept = (task for task in tasks if not wanted or any(matches(str(task["id"]), pattern) for pattern in wanted))

    def work(task: JsonObject, channel: Channel) -> JsonObject:
        return _measure_operator(found[cast("int", task["operator"])], task, channel)

    return work, deque(kept)


def _run_one(task: JsonObject, work: Work) -> JsonObject:
    ((_, ended),) = fork_each(deque([task]), work, 1, 120)
    return ended.require()


def _describe(task: JsonObject, channel: Channel) -> JsonObject:
    from capaudit.probe.environment import describe_environment, require_cuda

    device = str(task["device"])
    if task["backend"] == CUDA_BACKEND:
        try:
            require_cuda(device)
        except NoDeviceError as error:
            return {"no_device": error.message, "remedy": error.remedy}
    return cast("JsonObject", asdict(describe_environment(device)))


def _backend(task: JsonObject) -> Any:
    module, _, name = str(task["backend"]).partition(":")
    return getattr(importlib.import_module(module), name)(str(task["device"]))


def _measure_idiom(task: JsonObject, channel: Channel) -> JsonObject:
    from capaudit.probe.ops_measure import Measurement, error_text, measure
    from capaudit.probe.ops_program import IdiomProgram

    def entering(stage: str) -> None:
        channel.partial({"stage": stage})

    backend = _backend(task)
    entering("setup")
    setup, body, mutate = (str(task[key]) for key in ("setup", "body", "mutate"))
    try:
        program = IdiomProgram(setup, body, mutate, backend.device, Path.cwd())
    except ModuleNotFoundError as error:
        return Measurement("not-run", note=f"{error.name} is not installed").to_json()
    except Exception as error:
        return Measurement("broken", error_text(error)).to_json()
    return measure(program, backend, entering).to_json()


def _measure_operator(operator: Any, task: JsonObject, channel: Channel) -> JsonObject:
    """Measure samples one after the other until one fails: a failed capture spoils this process."""
    from capaudit.probe import opinfo
    from capaudit.probe.ops_measure import measure

    backend = _backend(task)
    first, count = cast("int", task["first"]), cast("int", task["samples"])
    channel.partial({"stage": "setup"})
    try:
        for index, program in opinfo.programs(operator, first, count, backend.device):
            channel.partial({"sample": index, "description": program.description})
            with opinfo.without_reseeding():
                measured = measure(program, backend, lambda stage: channel.partial({"stage": stage}))
            channel.partial({"sample": index, "measured": measured.to_json()})
            if measured.outcome not in ("ok", "advances"):
                break
    except opinfo.UnsupportedError as error:
        return {"unsupported": str(error)}
    return {}


def _outcomes(task: JsonObject, ended: ChildResult) -> Iterator[JsonObject]:
    """Yield what one child found: one outcome for an idiom, one per sample for an operator."""
    identity: JsonObject = {"id": task["id"], "subject": task.get("subject", "")}
    if "operator" not in task:
        yield identity | (ended.result if ended.result is not None else _died(ended))
        return
    described: dict[int, str] = {}
    open_sample: int | None = None
    for line in ended.partial:
        if "description" in line:
            open_sample = cast("int", line["sample"])
            described[open_sample] = str(line["description"])
        elif "measured" in line:
            open_sample = None
            index = cast("int", line["sample"])
            yield identity | {"sample": index, "input": described[index]} | cast("JsonObject", line["measured"])
    if ended.result is not None and "unsupported" in ended.result:
        yield identity | {"outcome": "not-run", "note": ended.result["unsupported"]}
    elif ended.result is None:
        index = open_sample if open_sample is not None else len(described)
        yield identity | {"sample": index, "input": described.get(index, "")} | _died(ended)


def _died(ended: ChildResult) -> JsonObject:
    """Judge a child that brought no result by the stage in which it ended."""
    stage = next((str(line["stage"]) for line in reversed(ended.partial) if "stage" in line), "setup")
    outcome = {"capture": "fails", "replay": "wrong-on-replay"}.get(stage, "broken")
    if ended.status in ("timed-out", "out-of-memory"):
        outcome = "broken"
    lines = ended.message.splitlines()
    return {"outcome": outcome, "error": lines[0][:300] if lines else "", "note": f"the process ended during {stage}"}


def _rest(task: JsonObject, ended: ChildResult) -> JsonObject | None:
    """Return the task for the samples that a failed one kept from being measured, if there are any."""
    if "operator" not in task:
        return None
    tried = [cast("int", line["sample"]) for line in ended.partial if "description" in line]
    following = max(tried, default=cast("int", task["samples"])) + 1
    if following >= cast("int", task["samples"]) or not _failed(ended):
        return None
    return task | {"first": following}


def _failed(ended: ChildResult) -> bool:
    measured = [cast("JsonObject", line["measured"]) for line in ended.partial if "measured" in line]
    return ended.result is None or bool(measured and measured[-1]["outcome"] not in ("ok", "advances"))


if __name__ == "__main__":
    serve(handle)
