"""Sees every launch that goes through torch's dispatcher or Warp's public functions, and its stream."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from capaudit.probe.locator_roots import RawFrame, current_stack
from capaudit.probe.sync_hooks import Patches, _tensors

# Views and bookkeeping launch nothing although they go through the dispatcher.
_SILENT = frozenset({"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::detach", "aten::record_stream"})


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: what, where from, on which stream (CUDA's handle), and whether it launched a whole graph."""

    name: str
    stack: tuple[RawFrame, ...]
    stream: int
    graph: bool = False


class LaunchHooks:
    """Collects launches. ``stream_of_torch`` gives the current torch stream's handle."""

    def __init__(self, device_kind: str = "cuda", stream_of_torch: Callable[[], int] | None = None) -> None:
        self.launches: list[Launch] = []
        self.device_kind = device_kind
        self._stream_of_torch = stream_of_torch or _current_torch_stream
        self._inside = False

    @contextmanager
    def active(self) -> Iterator[None]:
        """Install the hooks for the duration of the block."""
        with ExitStack() as stack:
            patches = Patches()
            stack.callback(patches.restore)
            import torch

            patches.replace(torch.cuda.CUDAGraph, "replay", self._graph_replay)
            if "warp" in sys.modules:
                self._patch_warp(patches)
            stack.enter_context(_launch_watch(self))
            yield

    def note(self, launch: Launch) -> None:
        """Take one launch in, right after it was made."""
        self.launches.append(launch)

    def run_operation(self, function: Any, arguments: Any, keywords: Any) -> Any:
        """Run one dispatched operation and note it if it launches something."""
        result = function(*arguments, **keywords)
        if not self._inside and self._launches(function, arguments, keywords, result):
            self.note(Launch(function._schema.name, current_stack(), self._stream_of_torch()))
        return result

    def _launches(self, function: Any, arguments: Any, keywords: Any, result: Any) -> bool:
        if function._schema.name in _SILENT or function.is_view:
            return False
        tensors = [*_tensors((arguments, keywords)), *_tensors(result)]
        return any(tensor.device.type == self.device_kind and tensor.numel() for tensor in tensors)

    def _patch_warp(self, patches: Patches) -> None:
        import warp as wp

        launch_signature = inspect.signature(wp.launch)

        def device_stream(device: Any) -> int:
            found = wp.get_device(device)
            return int(found.stream.cuda_stream or 0) if found.is_cuda else 0

        def of_launch(arguments: Any, keywords: Any) -> int:
            bound = launch_signature.bind_partial(*arguments, **keywords).arguments
            stream = bound.get("stream")
            return int(stream.cuda_stream or 0) if stream is not None else device_stream(bound.get("device"))

        def of_copy(arguments: Any, keywords: Any) -> int:
            stream = keywords.get("stream")
            destination = arguments[0] if arguments else keywords["dest"]
            return int(stream.cuda_stream or 0) if stream is not None else device_stream(destination.device)

        def of_array(arguments: Any, keywords: Any) -> int:
            return device_stream(arguments[0].device)

        def of_graph(arguments: Any, keywords: Any) -> int:
            stream = keywords.get("stream") or (arguments[1] if len(arguments) > 1 else None)
            graph = arguments[0] if arguments else keywords["graph"]
            return int(stream.cuda_stream or 0) if stream is not None else device_stream(graph.device)

        patches.replace(wp, "launch", self._warp_call("warp.launch", of_launch))
        patches.replace(wp, "launch_tiled", self._warp_call("warp.launch_tiled", of_launch))
        patches.replace(wp, "copy", self._warp_call("warp.copy", of_copy))
        patches.replace(wp, "capture_launch", self._warp_call("warp.capture_launch", of_graph, graph=True))
        for name in ("zero_", "fill_", "assign"):
            patches.replace(wp.array, name, self._warp_call(f"warp.array.{name}", of_array))

    def _warp_call(
        self, name: str, stream_of: Callable[[Any, Any], int], *, graph: bool = False
    ) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            def call(*arguments: Any, **keywords: Any) -> Any:
                if self._inside:
                    return original(*arguments, **keywords)
                launch = Launch(name, current_stack(), stream_of(arguments, keywords), graph)
                self._inside = True
                try:
                    result = original(*arguments, **keywords)
                finally:
                    self._inside = False
                self.note(launch)
                return result

            return call

        return make

    def _graph_replay(self, original: Any) -> Any:
        def replay(graph: Any) -> Any:
            launch = Launch("CUDAGraph.replay", current_stack(), self._stream_of_torch(), graph=True)
            result = original(graph)
            self.note(launch)
            return result

        return replay


def _current_torch_stream() -> int:
    import torch

    return int(torch.cuda.current_stream().cuda_stream)


def _launch_watch(hooks: LaunchHooks) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class LaunchWatch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return hooks.run_operation(function, args, kwargs or {})

    return LaunchWatch()
