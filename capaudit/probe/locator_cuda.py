"""Reads the state of a capturing stream through cuda-bindings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from capaudit.model import CapauditError
from capaudit.probe.locator import ACTIVE, INVALIDATED, NOT_CAPTURING

_NOTHING: Mapping[str, int] = {}
_SHORT = {"MemAlloc": "alloc", "MemFree": "free", "WaitEvent": "event-wait", "EventRecord": "event-record"}


def load_runtime() -> Any:
    """Import cuda-bindings. Raises CapauditError that says what to install."""
    try:
        from cuda.bindings import runtime
    except ImportError:
        raise CapauditError(
            "the locator needs cuda-bindings, which is not installed", remedy="pip install cuda-bindings"
        ) from None
    return runtime


class CudaCaptureSource:
    """``CaptureSource`` over one stream, given by its handle."""

    def __init__(self, stream: int) -> None:
        self._runtime = load_runtime()
        self._handle = stream
        self._stream = self._runtime.cudaStream_t(stream)
        self._seen: dict[int, set[int]] = {}  # nodes by graph: bodies of conditional nodes are graphs of their own

    def poll(self) -> tuple[int, Mapping[str, int]]:
        error, status, _identity, graph, *_ = self._runtime.cudaStreamGetCaptureInfo(self._stream)
        if int(error) != 0:
            return NOT_CAPTURING, _NOTHING
        if int(status) != ACTIVE:
            return (INVALIDATED if int(status) == INVALIDATED else NOT_CAPTURING), _NOTHING
        handle = int(graph)
        seen = self._seen.setdefault(handle, set())
        count = self._runtime.cudaGraphGetNodes(graph)[2]
        if count == len(seen):
            return ACTIVE, _NOTHING
        growth: Counter[str] = Counter()
        for node in self._runtime.cudaGraphGetNodes(graph, count)[1]:
            if int(node) not in seen:
                seen.add(int(node))
                growth[self._type_name(node)] += 1
        return ACTIVE, growth

    def works_elsewhere(self) -> bool:
        import torch

        return int(torch.cuda.current_stream().cuda_stream) != self._handle

    def _type_name(self, node: Any) -> str:
        error, kind = self._runtime.cudaGraphNodeGetType(node)
        if int(error) != 0:
            return "unknown"
        name = str(getattr(kind, "name", kind)).removeprefix("cudaGraphNodeType")
        return _SHORT.get(name, name.lower())


def capture_identity(stream: int) -> int | None:
    """Return the id of the capture that a stream belongs to, or ``None`` if it is not capturing."""
    runtime = load_runtime()
    error, status, identity, *_ = runtime.cudaStreamGetCaptureInfo(runtime.cudaStream_t(stream))
    return int(identity) if int(error) == 0 and int(status) == ACTIVE else None
