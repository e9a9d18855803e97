"""What a run happened on: versions, driver and device, for the evidence file."""

from __future__ import annotations

import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

from capaudit.evidence import Environment
from capaudit.model import NoDeviceError

_NO_DEVICE_REMEDY = "run the probe on a machine with an NVIDIA GPU and a CUDA build of torch"


def describe_environment(device: str = "cuda") -> Environment:
    """Describe this process: initialises CUDA where there is a device, so never call it before a fork."""
    gpu = cuda = driver = torch_version = None
    try:
        import torch
    except ImportError:
        torch_version = None
    else:
        torch_version = str(torch.__version__)
        cuda = torch.version.cuda
        if torch.cuda.is_available():
            gpu = torch.cuda.get_device_name(device)
            driver = driver_version()
    return Environment(
        python=platform.python_version(),
        platform=f"{platform.system()}-{platform.machine()}",
        gpu=gpu,
        driver=driver,
        cuda=cuda,
        torch=torch_version,
        warp=_installed("warp-lang"),
        mujoco=_installed("mujoco"),
        mujoco_warp=_installed("mujoco-warp"),
    )


def driver_version() -> str | None:
    """Return the NVIDIA driver's version (``580.159.04``), or ``None`` where it cannot be read."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        lines = answer.stdout.strip().splitlines()
        if answer.returncode == 0 and lines:
            return lines[0].strip()
    except (OSError, subprocess.TimeoutExpired):
        pass  # nvidia-smi is a convenience of the driver package; the kernel module says the same.
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    return found.group(1) if found else None


def require_cuda(device: str = "cuda") -> None:
    """Raise NoDeviceError unless torch sees the CUDA device. Like every CUDA query, never before a fork."""
    try:
        import torch
    except ImportError:
        raise NoDeviceError("the probe needs torch, which is not installed", remedy=_NO_DEVICE_REMEDY) from None
    kind, _, index = device.partition(":")
    if kind != "cuda":
        raise NoDeviceError(f"{device!r} names no CUDA device, and graphs exist there only", remedy=_NO_DEVICE_REMEDY)
    if torch.version.cuda is None or not torch.cuda.is_available():
        raise NoDeviceError(f"torch {torch.__version__} sees no CUDA device", remedy=_NO_DEVICE_REMEDY)
    if index and int(index) >= torch.cuda.device_count():
        raise NoDeviceError(
            f"there is no device {device!r}; torch sees {torch.cuda.device_count()} CUDA device(s)",
            remedy="name one of the devices that torch sees",
        )


def _installed(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
