"""Hooks that see an eager step's synchronisations, transfers, dynamic shapes, allocations and frees.

Three sources, because none sees everything: PyTorch's synchronisation debug mode (which knows what really
blocked, and knows nothing of Warp), a dispatch mode (which knows the operation and also sees copies that
do not block), and replaced functions (Warp, and the explicit calls that the debug mode leaves out).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from capaudit.probe.locator_roots import RawFrame, current_stack
from capaudit.probe.trace_log import EventLog

_DEBUG_MODE_TEXT = "called a synchronizing CUDA operation"
_READS = {"aten::_local_scalar_dense": ("host-scalar-read", "CAP101"), "aten::equal": ("synchronization", "CAP105")}
_COPIES = frozenset({"aten::_to_copy", "aten::copy_", "aten::copy", "aten::_copy_from", "aten::to"})
# With integer indices these have a fixed shape; the tag that PyTorch gives them speaks of boolean ones.
_INDEXED = frozenset({"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"})


@dataclass(slots=True)
class _LastOperation:
    """The operation that ended last: where, what it means if it blocks, and whether it is in the log already."""

    name: str
    stack: tuple[RawFrame, ...]
    if_blocked: tuple[str, str | None] | None
    counted_before: bool


class Patches:
    """Replaces attributes and puts them back, last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Set ``owner.name`` to ``make(original)``; an attribute that is not there is left alone."""
        if not hasattr(owner, name):
            return
        inherited = isinstance(owner, type) and name not in owner.__dict__
        original = getattr(owner, name)
        setattr(owner, name, make(original))
        self._undo.append(lambda: delattr(owner, name) if inherited else setattr(owner, name, original))

    def restore(self) -> None:
        while self._undo:
            self._undo.pop()()


class SynchronizationHooks:
    """All hooks of the trace. ``device_kind`` is ``cuda``; tests on the CPU pass ``cpu``.

    With ``cpu`` the host's own tensors play the device, so that everything but real blocking is seen.
    """

    def __init__(self, log: EventLog, device_kind: str = "cuda") -> None:
        self.log = log
        self.device_kind = device_kind
        self._blocked = False
        self._operation: str | None = None
        self._inside = False
        self._last: _LastOperation | None = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Install the hooks for the duration of the block."""
        with ExitStack() as stack:
            stack.enter_context(self._synchronization_warnings())
            patches = Patches()
            stack.callback(patches.restore)
            self._patch_torch(patches)
            self._patch_warp(patches)
            stack.enter_context(_operation_watch(self))
            yield

    def blocked(self) -> None:
        """PyTorch's debug mode says that a call blocks.

        The warning of an operation arrives when its Python call returns, after the dispatch mode saw it end.
        """
        if self._operation is not None:
            self._blocked = True
            return
        stack = current_stack()
        if self._last is not None and self._last.stack == stack:
            last = self._last
            if not last.counted_before and last.if_blocked is not None:
                self.log.add(*last.if_blocked, f"{last.name}, blocks the host", stack=stack)
                last.counted_before = True
        elif not self._inside:
            self.log.add("synchronization", "CAP105", "found by PyTorch's synchronisation debug mode", stack=stack)

    def run_operation(self, function: Any, types: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Run one dispatched operation and record what it did."""
        name = function._schema.name
        outer, self._operation, self._blocked = self._operation, name, False
        try:
            result = function(*arguments, **keywords)
        finally:
            blocked, self._operation, self._blocked = self._blocked, outer, False
        verdict = self._judge(name, function, arguments, keywords, result, blocked)
        if verdict is not None:
            self.log.add(*verdict, f"{name}, blocks the host" if blocked else name)
        if self.device_kind == "cuda":
            if_blocked = self._judge(name, function, arguments, keywords, result, True)
            self._last = _LastOperation(
                name, current_stack(), if_blocked, counted_before=verdict is not None and verdict[1] is not None
            )
        return result

    def _judge(
        self, name: str, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], result: Any, blocked: bool
    ) -> tuple[str, str | None] | None:
        tensors = list(_tensors((arguments, keywords)))
        on_device = any(tensor.device.type == self.device_kind for tensor in tensors)
        if name in _READS and on_device:
            return _READS[name]
        if name in _INDEXED:
            return self._judge_index(arguments, blocked)
        if on_device and _is_dynamic(function):
            return "dynamic-shape", "CAP201"
        if name == "aten::lift_fresh" and blocked:
            return "host-to-device-copy", "CAP103"  # torch.tensor(data, device=...) moves its data here
        if name in _COPIES:
            return self._judge_copy(name, arguments, keywords, result, blocked)
        return ("synchronization", "CAP105") if blocked else None

    def _judge_index(self, arguments: tuple[Any, ...], blocked: bool) -> tuple[str, str | None] | None:
        target, indices = arguments[0], [index for index in arguments[1] if index is not None]
        if target.device.type != self.device_kind:
            return None
        masks = any(str(index.dtype) in ("torch.bool", "torch.uint8") for index in indices)
        reads = len(arguments) < 3
        if masks and (blocked or reads or (self.device_kind == "cpu" and arguments[2].numel() != 1)):
            return "dynamic-shape", "CAP201"
        if any(index.device.type != target.device.type for index in indices):
            return "host-to-device-copy", "CAP103"
        if not reads and arguments[2].device.type != target.device.type and blocked:
            return "host-to-device-copy", "CAP103"
        # What blocks here without a mask is the upload of a list or number that stood in the index.
        return ("host-to-device-copy", "CAP103") if blocked else None

    def _judge_copy(
        self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], result: Any, blocked: bool
    ) -> tuple[str, str | None] | None:
        destination, source = (
            (arguments[0], arguments[1]) if name in ("aten::copy_", "aten::copy") else (result, arguments[0])
        )
        if destination.numel() == 0:
            return None
        to, origin = destination.device.type, source.device.type
        host = source if origin == "cpu" else destination
        # A pinned copy that does not block is what a capture may hold; everything else it may not.
        harmless = not blocked and host.is_pinned() if "cuda" in (to, origin) else False
        if to == "cuda" and origin == "cpu":
            return "host-to-device-copy", None if harmless else "CAP103"
        if to == "cpu" and origin == "cuda":
            return "device-to-host-copy", None if harmless else "CAP102"
        return ("synchronization", "CAP105") if blocked else None

    @contextmanager
    def _synchronization_warnings(self) -> Iterator[None]:
        before: Any = None
        if self.device_kind == "cuda":
            import torch

            before = torch.cuda.get_sync_debug_mode()
            torch.cuda.set_sync_debug_mode("warn")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            original = warnings.showwarning

            def show(message: Any, *rest: Any, **keywords: Any) -> None:
                if _DEBUG_MODE_TEXT in str(message):
                    self.blocked()
                else:
                    original(message, *rest, **keywords)

            warnings.showwarning = show
            try:
                yield
            finally:
                warnings.showwarning = original
                if before is not None:
                    import torch

                    torch.cuda.set_sync_debug_mode(before)

    def _patch_torch(self, patches: Patches) -> None:
        import torch

        explicit = ("explicit-synchronize", "CAP104")
        for owner, names in (
            (torch.cuda, ("synchronize",)),
            (torch.cuda.Stream, ("synchronize", "query")),
            (torch.cuda.Event, ("synchronize", "query")),
        ):
            for name in names:
                patches.replace(owner, name, self._recorder(*explicit, f"{owner.__name__}.{name}"))
        patches.replace(torch.cuda.CUDAGraph, "replay", self._recorder("graph-launch", "CAP401", "CUDAGraph.replay"))

    def _patch_warp(self, patches: Patches) -> None:
        import sys

        if "warp" not in sys.modules:
            return
        import warp as wp

        for name in ("synchronize", "synchronize_device", "synchronize_stream", "synchronize_event"):
            patches.replace(wp, name, self._recorder("warp-synchronization", "CAP104", f"warp.{name}"))
        patches.replace(wp, "capture_launch", self._recorder("graph-launch", "CAP401", "warp.capture_launch"))
        patches.replace(wp, "capture_begin", self._recorder("nested-capture", "CAP401", "warp.capture_begin"))
        for name in ("capture_while", "capture_if"):
            detail = f"warp.{name} reads its condition on the host outside a capture that Warp knows"
            patches.replace(wp, name, self._recorder("warp-condition-read", "CAP101", detail, nested=True))
        for name in ("numpy", "list"):
            patches.replace(wp.array, name, self._recorder("warp-read", "CAP102", f"warp.array.{name}", array=True))
        patches.replace(wp.array, "__init__", self._allocation)
        patches.replace(wp.array, "__del__", self._release)

    def _recorder(
        self, kind: str, hazard: str, detail: str, *, array: bool = False, nested: bool = False
    ) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            def call(*arguments: Any, **keywords: Any) -> Any:
                if self._inside or (array and not self._is_device_array(arguments[0])):
                    return original(*arguments, **keywords)
                self.log.add(kind, hazard, detail)
                # What the call does inside is the same event, unless it runs the user's own code.
                self._inside = not nested
                try:
                    return original(*arguments, **keywords)
                finally:
                    self._inside = False

            return call

        return make

    def _allocation(self, original: Any) -> Any:
        def init(array: Any, *arguments: Any, **keywords: Any) -> None:
            original(array, *arguments, **keywords)
            if getattr(array, "deleter", None) is not None and array.ptr and self._is_device_array(array):
                self.log.add("warp-allocation", "CAP302", f"{array.capacity} bytes")

        return init

    def _release(self, original: Any) -> Any:
        def delete(array: Any) -> None:
            if (
                getattr(array, "deleter", None) is not None
                and getattr(array, "ptr", None)
                and self._is_device_array(array)
            ):
                self.log.add("warp-free", "CAP302", f"{array.capacity} bytes")
            original(array)

        return delete

    def _is_device_array(self, array: Any) -> bool:
        device = getattr(array, "device", None)
        return device is not None and bool(device.is_cuda) == (self.device_kind == "cuda")


def _operation_watch(hooks: SynchronizationHooks) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class OperationWatch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return hooks.run_operation(function, types, args, kwargs or {})

    return OperationWatch()


def _is_dynamic(function: Any) -> bool:
    import torch

    return torch.Tag.dynamic_output_shape in function.tags


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
