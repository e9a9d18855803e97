"""Targets for the tests of ``probe run``: one that works, and one for each way to go wrong."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any


def works(device: str = "cpu", worlds: int = 4, seed: int = 0) -> Callable[[], Any]:
    import torch

    x = torch.full((worlds,), float(seed), device=device)

    def step() -> Any:
        if x.sum() > -1.0:
            x.add_(1.0)
        return x

    return step


def plain(device: str = "cpu") -> Callable[[], Any]:
    import torch

    x = torch.zeros(4, device=device)
    return lambda: x.add_(1.0)


def kills_itself() -> Callable[[], Any]:
    return _after_some_steps(lambda: os.kill(os.getpid(), signal.SIGKILL))


def hangs() -> Callable[[], Any]:
    return _after_some_steps(lambda: time.sleep(600))


def runs_out_of_memory() -> Callable[[], Any]:
    def fail() -> None:
        raise MemoryError("CUDA out of memory. Tried to allocate 1024.00 GiB")

    return _after_some_steps(fail)


def raises() -> Callable[[], Any]:
    def fail() -> None:
        try:
            {}["missing"]
        except KeyError:
            raise RuntimeError("the environment is broken")  # noqa: B904  the chain is the point

    return _after_some_steps(fail)


def gives_no_step() -> int:
    return 3


def _after_some_steps(then: Callable[[], None]) -> Callable[[], Any]:
    import torch

    x, steps = torch.zeros(4), iter(range(1000))

    def step() -> Any:
        float(x.sum())
        if next(steps) == 9:
            then()
        return x

    return step
