"""A stand-in for capture on the CPU, so that the measuring protocol is tested without a GPU.

A "graph" is the list of operator calls with the very tensors they used. A replay repeats the calls and
writes into the tensors of the capture, as a CUDA graph does: values that the host computed stay frozen.
"""

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Step = Callable[[], object]
READS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::equal", "aten::is_nonzero")


class FakeBackend:
    """Implements the protocol of ``capaudit.probe.ops_backend`` with recording in place of capture."""

    def __init__(self, device: str) -> None:
        self.device = "cpu"

    def generators(self) -> list[torch.Generator]:
        return [torch.default_generator]

    def run(self, step: Step) -> object:
        return step()

    def run_watched(self, step: Step) -> bool:
        with _Recorder(forbid=False) as recorder:
            step()
        return recorder.has_read

    def capture(self, step: Step, generators: Sequence[torch.Generator]) -> tuple[Step, object]:
        with _Recorder(forbid=True) as recorder:
            outputs = step()

        @torch.no_grad()
        def replay() -> None:
            for function, arguments, keywords, results in recorder.calls:
                for old, new in zip(results, tree_leaves(function(*arguments, **keywords)), strict=True):
                    if isinstance(old, torch.Tensor) and old is not new:
                        old.copy_(new)

        return replay, outputs


class DyingBackend(FakeBackend):
    """Dies where a broken driver would."""

    def capture(self, step: Step, generators: Sequence[torch.Generator]) -> tuple[Step, object]:
        os.kill(os.getpid(), signal.SIGSEGV)
        return super().capture(step, generators)


class _Recorder(TorchDispatchMode):
    def __init__(self, *, forbid: bool) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, list[Any]]] = []
        self.has_read = False
        self._forbid = forbid

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in READS:
            self.has_read = True
            if self._forbid:
                raise RuntimeError("operation not permitted when stream is capturing\nmore lines")
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, tree_leaves(result)))
        return result
