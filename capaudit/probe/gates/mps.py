"""NVIDIA MPS for one arm: a daemon of our own, in folders of its own, and nothing of the device is changed for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CONTROL = "nvidia-cuda-mps-control"
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class MpsService:
    """A running daemon with the variables its clients need, or why there is none."""

    variables: Mapping[str, str] | None
    reason: str


@contextmanager
def mps_service() -> Iterator[MpsService]:
    """Start a control daemon and end it again. Where that cannot be done the service says why and is not there."""
    if shutil.which(_CONTROL) is None:
        yield MpsService(None, f"{_CONTROL} is not installed")
        return
    with tempfile.TemporaryDirectory(prefix="capaudit-mps-") as name:
        folder = Path(name)
        pipe, log = folder / "pipe", folder / "log"
        pipe.mkdir()
        log.mkdir()
        variables = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(log)}
        reason = _start(variables)
        if reason:
            yield MpsService(None, reason)
            return
        try:
            reason = _serves(variables)
            yield MpsService(None if reason else variables, reason)
        finally:
            _ask("quit", variables)
            time.sleep(0.5)


def _start(variables: Mapping[str, str]) -> str:
    try:
        answer = subprocess.run(
            [_CONTROL, "-d"], env={**os.environ, **variables}, capture_output=True, text=True, timeout=_PATIENCE,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{_CONTROL} -d did not start: {error}"
    return "" if answer.returncode == 0 else f"{_CONTROL} -d ended with {answer.returncode}: {answer.stderr.strip()}"


def _serves(variables: Mapping[str, str]) -> str:
    """Whether a client really runs through the daemon: a server appears once one has touched the device."""
    program = (
        "import subprocess, sys, torch\n"
        "x = torch.ones(4, device='cuda'); torch.cuda.synchronize()\n"
        f"a = subprocess.run([{_CONTROL!r}], input='get_server_list\\n', capture_output=True, text=True, timeout=10)\n"
        "print(a.stdout.strip())\n"
    )
    import sys

    try:
        answer = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **variables}, capture_output=True, text=True,
            timeout=6 * _PATIENCE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "a client of the MPS daemon did not get the device in time"
    if answer.returncode != 0:
        last = (answer.stderr.strip().splitlines() or ["no message"])[-1]
        return f"a client of the MPS daemon failed: {last}"
    if not any(line.strip().isdigit() for line in answer.stdout.splitlines()):
        return "the daemon runs, but no MPS server serves the device"
    return ""


def _ask(command: str, variables: Mapping[str, str]) -> None:
    try:
        subprocess.run(
            [_CONTROL], input=f"{command}\n", env={**os.environ, **variables}, capture_output=True, text=True,
            timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return
