"""What a run happened on, in the words of the run manifest."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from capaudit.contract import Software
from capaudit.contract.manifest import CPU_REHEARSAL
from capaudit.model import InputError
from capaudit.probe.environment import describe_environment

HEAD_VARIABLE = "CAPAUDIT_GIT_HEAD"
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def software(device: str) -> Software:
    """Return the versions; ``absent`` where there is none."""
    found = describe_environment("cuda" if device.startswith("cuda") else "cpu")
    return Software(
        driver=found.driver or "absent",
        cuda=found.cuda or "absent",
        torch=found.torch or "absent",
        warp=found.warp or "absent",
        mujoco=found.mujoco or "absent",
        mujoco_warp=found.mujoco_warp or "absent",
    )


def gpu_uuid(device: str) -> str:
    """Return the UUID of the CUDA device, or ``CPU``. Raises InputError where the driver does not say it."""
    if not device.startswith("cuda"):
        return CPU_REHEARSAL
    import torch

    raw = str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))
    text = raw if raw.startswith("GPU-") else f"GPU-{raw}"
    if not _UUID.fullmatch(text):
        text = _asked_driver()
    return text


def _asked_driver() -> str:
    try:
        answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        raise InputError("the GPU's UUID cannot be read", remedy="nvidia-smi -L has to work") from None
    found = _UUID.search(answer.stdout)
    if found is None:
        raise InputError("the driver names no GPU UUID", remedy="nvidia-smi -L has to work")
    return found.group(0)


def git_head() -> str:
    """Return the commit that is run: ``CAPAUDIT_GIT_HEAD``, else what git says. Raises InputError without either."""
    named = os.environ.get(HEAD_VARIABLE, "")
    if not named:
        folder = Path(__file__).resolve().parent
        command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        try:
            named = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            named = ""
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", named):
        raise InputError(
            "the commit of the collector's code is not known", remedy=f"set {HEAD_VARIABLE} to the full commit id"
        )
    return named
