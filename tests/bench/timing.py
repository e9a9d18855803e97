"""Run a command and say what it cost: processor time of its whole process tree, wall time, peak memory."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cost:
    """``cpu`` and ``wall`` in seconds (medians of ``runs``); ``ended`` is false for a run that was cut off."""

    cpu: float
    wall: float
    runs: int
    ended: bool = True


def measure(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    runs: int,
    limit: float,
    before: Callable[[], None] = lambda: None,
) -> Cost:
    """Run a command ``runs`` times, each after ``before()``; one that takes longer than ``limit`` seconds is cut off.

    Errors: ``RuntimeError`` where the command ends with anything but status 0 or 1 (findings).
    """
    cpu: list[float] = []
    wall: list[float] = []
    for _ in range(runs):
        before()
        spent, started = _children(), time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            _, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Cost(limit, limit, 1, ended=False)
        wall.append(time.perf_counter() - started)
        cpu.append(_children() - spent)
        if process.returncode not in (0, 1):
            raise RuntimeError(f"{command[0]} ended with {process.returncode}: {errors.decode()[-300:]}")
    return Cost(statistics.median(cpu), statistics.median(wall), runs)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
