"""A forked child per task: what the parent has imported costs the children nothing."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from capaudit.evidence import JsonObject
from capaudit.probe.child import Channel, ChildResult, Lines, answer, conclude, read_tail

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
