"""What a step can read and write: tensors, Warp arrays and generators reachable from a namespace.

Eager run and replay are compared from the same state, so both the contents and the bindings are
saved and put back: a step that rebinds a name leaves the graph with the old object, and just that
must show.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import torch

# A module takes three steps of depth for each level: its dictionary, the registry in there, the child.
_MAXIMUM_DEPTH = 30
_MAXIMUM_VALUES = 5000

Observed = dict[str, torch.Tensor]
"""Contents by path, copied."""


@dataclass(slots=True)
class Snapshot:
    """Contents and bindings of one moment. ``restore`` puts both back in place."""

    dicts: list[tuple[MutableMapping[Any, Any], dict[Any, Any]]] = field(default_factory=list)
    lists: list[tuple[list[Any], list[Any]]] = field(default_factory=list)
    gradients: list[tuple[torch.Tensor, torch.Tensor | None]] = field(default_factory=list)
    contents: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    generators: list[tuple[torch.Generator, torch.Tensor]] = field(default_factory=list)

    def restore(self, *, bindings: bool = True) -> None:
        """Put contents back, and with ``bindings`` also which object each name and attribute holds."""
        if bindings:
            for mapping, items in self.dicts:
                mapping.clear()
                mapping.update(items)
            for sequence, values in self.lists:
                sequence[:] = values
            for tensor, gradient in self.gradients:
                tensor.grad = gradient
        with torch.no_grad():
            for tensor, saved in self.contents:
                tensor.copy_(saved)
        for generator, state in self.generators:
            generator.set_state(state)


def take_snapshot(namespace: dict[str, Any], generators: list[torch.Generator]) -> Snapshot:
    """Save the state reachable from ``namespace``, and these generators beside those found there."""
    snapshot = Snapshot()
    for _, value in _walk(namespace):
        if isinstance(value, torch.Tensor):
            if value.is_leaf and value.requires_grad:
                snapshot.gradients.append((value, value.grad))
        elif isinstance(value, torch.Generator):
            snapshot.generators.append((value, value.get_state()))
        elif isinstance(value, MutableMapping):
            snapshot.dicts.append((value, dict(value)))
        elif isinstance(value, list):
            snapshot.lists.append((value, list(value)))
    for _, tensor in _contents(namespace):
        snapshot.contents.append((tensor, tensor.clone()))
    snapshot.generators += [(generator, generator.get_state()) for generator in generators]
    return snapshot


def observe(namespace: dict[str, Any], outputs: object = None) -> Observed:
    """Copy the contents of everything reachable, and of the step's outputs."""
    seen = {path: tensor.clone() for path, tensor in _contents(namespace)}
    seen.update({path: tensor.clone() for path, tensor in _contents({"output": outputs})})
    return seen


@dataclass(frozen=True, slots=True)
class Difference:
    """One path whose contents differ; ``largest`` is the largest absolute difference, if it is a number."""

    path: str
    largest: float | None


def differences(left: Observed, right: Observed) -> list[Difference]:
    """Compare by path, with a tolerance by element type. A path that only one side has is a difference.

    What lies on another device in one of the two is left out: a capture returns a generator's seed and
    offset on the device, an eager call on the host, and neither is a result.
    """
    found = []
    for path in sorted(left.keys() | right.keys()):
        one, two = left.get(path), right.get(path)
        if one is None or two is None or one.shape != two.shape or one.dtype != two.dtype:
            found.append(Difference(path, None))
        elif one.device == two.device and not _is_close(one, two):
            gap = (one.to(torch.complex128) - two.to(torch.complex128)).abs()
            largest = float(torch.nan_to_num(gap, nan=float("inf")).max())
            found.append(Difference(path, largest))
    return found


def is_alike(left: Observed, right: Observed, paths: list[str]) -> bool:
    """Whether random contents agree in mean and spread, within five standard errors."""
    for path in paths:
        one, two = (side[path].detach().to("cpu", torch.float64).flatten() for side in (left, right))
        if one.numel() < 8:
            continue
        error = float((one.std() + two.std()) / one.numel() ** 0.5)
        if abs(float(one.mean() - two.mean())) > 5 * error + 1e-6:
            return False
    return True


def _is_close(one: torch.Tensor, two: torch.Tensor) -> bool:
    if one.dtype.is_floating_point or one.dtype.is_complex:
        loose = one.dtype in (torch.float64, torch.float32, torch.complex64, torch.complex128)
        relative, absolute = (1e-4, 1e-5) if loose else (2e-2, 1e-2)
        kind = torch.complex128 if one.dtype.is_complex else torch.float64
        return bool(torch.allclose(one.to(kind), two.to(kind), rtol=relative, atol=absolute, equal_nan=True))
    return bool(torch.equal(one, two))


def _contents(namespace: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the memory of tensors, gradients and Warp arrays as plain tensors that can be read and written."""
    for path, value in _walk(namespace):
        if isinstance(value, torch.Tensor):
            if _is_plain(value):
                yield path, value.detach()
            if value.is_leaf and value.grad is not None and _is_plain(value.grad):
                yield f"{path}.grad", value.grad.detach()
        elif _is_warp_array(value):
            view = _warp_view(value)
            if view is not None:
                yield path, view


def _walk(namespace: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of everything mutable that is reachable, each object once, breadth first."""
    queue: list[tuple[str, Any, int]] = [("", namespace, 0)]
    seen: set[int] = set()
    while queue and len(seen) < _MAXIMUM_VALUES:
        path, value, depth = queue.pop(0)
        if id(value) in seen or _is_opaque(value):
            continue
        seen.add(id(value))
        yield path, value
        if depth < _MAXIMUM_DEPTH:
            queue += [(child, item, depth + 1) for child, item in _members(path, value)]


def _members(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (torch.Tensor, torch.Generator)) or _is_warp_array(value):
        return
    if isinstance(value, MutableMapping):
        for index, (key, item) in enumerate(list(value.items())):
            # Optimizers key their state by tensor, whose text would change with its contents.
            name = str(key) if isinstance(key, (str, int)) else f"[{index}]"
            if not name.startswith("__"):
                yield (f"{path}.{name}" if path else name), item
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item
    else:
        if dataclasses.is_dataclass(value):
            for declared in dataclasses.fields(value):
                yield f"{path}.{declared.name}", getattr(value, declared.name, None)
        # The attribute dictionary itself is a binding that a step may change.
        yield path, getattr(value, "__dict__", None)


_CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def _is_opaque(value: Any) -> bool:
    if value is None or isinstance(value, (str, bytes, int, float, complex, bool, _CODE)):
        return True
    module = type(value).__module__
    # Handles of the runtimes hold the device, its contexts and its graphs; to put those back would break them.
    runtime = module.startswith(("warp", "torch.cuda", "logging", "threading", "torch._C", "torch.autograd"))
    return runtime and not isinstance(value, (torch.Tensor, torch.Generator)) and not _is_warp_array(value)


def _is_plain(tensor: torch.Tensor) -> bool:
    if tensor.layout != torch.strided or tensor.device.type == "meta" or tensor.is_quantized or tensor.is_nested:
        return False
    # Expanded memory cannot be written back; its base is reachable on its own or is never written.
    return not any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _is_warp_array(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.startswith("warp") and kind.__name__ == "array"


def _warp_view(array: Any) -> torch.Tensor | None:
    import warp as wp

    if array.size == 0 or array.ptr is None:
        return None
    try:
        view: torch.Tensor = wp.to_torch(array, requires_grad=False)
    except (TypeError, RuntimeError):
        return None  # arrays of structures have no tensor form
    return view if _is_plain(view) else None
