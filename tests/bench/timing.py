"""Run a command and say what it cost: processor time of its whole process tree, wall time, peak memory."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cost:
    """``cpu`` and ``wall`` in seconds (medians of ``runs``), ``memory`` the most MiB of one process.

    ``ended`` is false for a run that was cut off; ``load`` is the machine's load average as the runs began.
    """

    cpu: float
    wall: float
    runs: int
    ended: bool = True
    memory: float = 0.0
    load: float = 0.0


def measure(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    runs: int,
    limit: float,
    before: Callable[[], None] = lambda: None,
    output: int = subprocess.DEVNULL,
) -> Cost:
    """Run a command ``runs`` times, each after ``before()``; one that takes longer than ``limit`` seconds is cut off.

    Errors: ``RuntimeError`` where the command ends with anything but status 0 or 1 (findings).
    """
    cpu: list[float] = []
    wall: list[float] = []
    memory = 0
    load = os.getloadavg()[0]
    for _ in range(runs):
        before()
        started = time.perf_counter()
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                command, cwd=folder, env={**os.environ, **environment}, stdout=output, stderr=errors
            )
            ended = _wait(process.pid, started + limit)
            if ended is None:
                process.kill()
                process.wait()
                return Cost(limit, limit, 1, ended=False, load=load)
            status, used = ended
            wall.append(time.perf_counter() - started)
            cpu.append(used.ru_utime + used.ru_stime)
            memory = max(memory, used.ru_maxrss)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode not in (0, 1):
                errors.seek(0)
                raise RuntimeError(f"{command[0]} ended with {process.returncode}: {errors.read().decode()[-300:]}")
    return Cost(statistics.median(cpu), statistics.median(wall), runs, memory=memory / 1024, load=load)


def _wait(process: int, until: float) -> tuple[int, resource.struct_rusage] | None:
    """Wait for a process; what it and its children used, as only the one that reaps it is told."""
    while True:
        reaped, status, used = os.wait4(process, os.WNOHANG)
        if reaped:
            return status, used
        if time.perf_counter() > until:
            return None
        time.sleep(0.002)
