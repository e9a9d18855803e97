"""Finds carriers: the device tensors and Warp arrays that an object holds, with the path to each."""

from __future__ import annotations

import fnmatch
import functools
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Step = tuple[Literal["attribute", "item", "cell"], Any]
"""One hop of a path: an attribute's name, a key or index, or a closure cell's name."""

MAXIMUM_OBJECTS = 200_000
MAXIMUM_DEPTH = 14
# Objects of these packages hold no carriers of the user's, or cannot be walked cheaply.
_OPAQUE_MODULES = (
    "torch.cuda",
    "torch._C",
    "torch.utils",
    "torch.autograd",
    "numpy",
    "mujoco.",
    "logging",
    "threading",
)


@dataclass(frozen=True, slots=True)
class Carrier:
    """A device tensor or Warp array and where it hangs. ``kind`` is ``torch`` or ``warp``."""

    path: tuple[Step, ...]
    kind: Literal["torch", "warp"]
    value: Any

    @property
    def name(self) -> str:
        """The path as text: ``cache.rows``, ``buffers['obs']``, ``<cell>.x``."""
        return render_path(self.path)

    @property
    def address(self) -> int:
        """Device address of the first element; 0 for an empty carrier."""
        return address_of(self.value)


def render_path(path: tuple[Step, ...]) -> str:
    """Return a path as text."""
    parts: list[str] = []
    for kind, key in path:
        if kind == "item":
            parts.append(f"[{key!r}]")
        else:
            parts.append(("." if parts else "") + (f"<{key}>" if kind == "cell" else str(key)))
    return "".join(parts) or "<root>"


def find_carriers(root: Any, device_kind: str = "cuda", patterns: tuple[str, ...] = ()) -> tuple[Carrier, ...]:
    """Walk ``root`` breadth first and return its carriers, shortest path first, each storage name once.

    ``patterns`` are shell patterns over the paths' text; without any, everything is returned.
    """
    found = [
        Carrier(path, kind, value)
        for path, value in walk(root)
        if (kind := carrier_kind(value, device_kind)) is not None
    ]
    if patterns:
        found = [item for item in found if matches(item.name, patterns)]
    return tuple(found)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path is named by a pattern, or lies below a path that is."""
    # fnmatch reads brackets as character classes; paths use them for keys.
    plain = name.replace("[", "(").replace("]", ")")
    for pattern in patterns:
        wanted = pattern.replace("[", "(").replace("]", ")")
        if fnmatch.fnmatchcase(plain, wanted) or plain.startswith((f"{wanted}.", f"{wanted}(")):
            return True
    return False


def walk(root: Any) -> Iterator[tuple[tuple[Step, ...], Any]]:
    """Yield (path, object) for everything reachable, each object once, breadth first."""
    queue: deque[tuple[tuple[Step, ...], Any]] = deque([((), root)])
    seen = {id(root)}
    # Temporaries (a method's dict of cells) must outlive the walk: an id may be given out again.
    keep: list[Any] = []
    visited = 0
    while queue and visited < MAXIMUM_OBJECTS:
        path, value = queue.popleft()
        visited += 1
        yield path, value
        if len(path) >= MAXIMUM_DEPTH or is_leaf(value):
            continue
        for step, child in children(value):
            if id(child) not in seen and not isinstance(child, (int, float, str, bytes, bool, type(None))):
                seen.add(id(child))
                keep.append(child)
                queue.append(((*path, step), child))


def children(value: Any) -> Iterator[tuple[Step, Any]]:
    """Yield the direct parts of an object that may lead to carriers."""
    if isinstance(value, Mapping):
        for key, item in list(value.items()):
            yield ("item", key if isinstance(key, (str, int)) else str(key)), item
        return
    if isinstance(value, (list, tuple, deque)):
        for index, item in enumerate(value):
            yield ("item", index), item
        if not hasattr(value, "__dict__"):
            return
    if isinstance(value, types.MethodType):
        # A bound method is a step; what it belongs to is the object itself, so the path starts there.
        yield from children(value.__self__)
        return
    if isinstance(value, functools.partial):
        for position, item in enumerate((value.func, *value.args)):
            yield ("item", position), item
        for name, item in value.keywords.items():
            yield ("attribute", name), item
        return
    if isinstance(value, types.FunctionType):
        yield from _function_parts(value)
        return
    for name, item in attributes(value):
        yield ("attribute", name), item


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the stored attributes of an object: its ``__dict__`` and its slots, no properties."""
    stored = getattr(value, "__dict__", None)
    if isinstance(stored, dict):
        yield from list(stored.items())
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                try:
                    yield name, getattr(value, name)
                except AttributeError:
                    continue  # a slot that was never assigned


def is_leaf(value: Any) -> bool:
    """Whether the walk stops here."""
    if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.FrameType, str)):
        return True
    if carrier_kind(value, None) is not None:
        return True
    module = type(value).__module__
    if module.startswith("warp"):
        # Warp's own objects (devices, kernels, modules) lead to the whole runtime.
        return not isinstance(value, (dict, list, tuple))
    return module.startswith(_OPAQUE_MODULES)


def carrier_kind(value: Any, device_kind: str | None) -> Literal["torch", "warp"] | None:
    """Return what kind of carrier a value is on the given device kind (``None``: any device)."""
    torch, warp = sys.modules.get("torch"), sys.modules.get("warp")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch" if device_kind in (None, value.device.type) else None
    if warp is not None and isinstance(value, warp.array):
        if getattr(value, "device", None) is None:
            return None  # an annotation such as wp.array(dtype=float)
        return "warp" if device_kind is None or value.device.is_cuda == (device_kind == "cuda") else None
    return None


def address_of(value: Any) -> int:
    """Return the device address of a tensor or Warp array."""
    return int(value.data_ptr()) if hasattr(value, "data_ptr") else int(value.ptr or 0)


def resolve(root: Any, path: tuple[Step, ...]) -> Any:
    """Follow a path again. Returns ``None`` where it no longer leads anywhere."""
    value = root
    for step in path:
        value = next((child for other, child in children(value) if other == step), None)
        if value is None:
            return None
    return value


def as_tensor(value: Any) -> Any | None:
    """Return a torch tensor that shares the carrier's memory, or ``None`` for a type torch does not know."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach()
    import warp as wp

    # 64-bit unsigned Warp arrays hold handles and addresses: changing or comparing them means nothing.
    if value.ptr is None or value.dtype is wp.uint64 or not value.size:
        return None
    try:
        return wp.to_torch(value, requires_grad=False)
    except (TypeError, RuntimeError, KeyError, AttributeError):
        return None  # structures have no torch counterpart


def _function_parts(function: types.FunctionType) -> Iterator[tuple[Step, Any]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield ("cell", name), cell.cell_contents
        except ValueError:
            continue  # a cell that is filled later
    for name in code.co_names:
        item = function.__globals__.get(name)
        if item is not None and not isinstance(item, (type, types.ModuleType, types.FunctionType)):
            yield ("cell", name), item
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield ("attribute", "__wrapped__"), wrapped
    for name, item in (function.__kwdefaults__ or {}).items():
        yield ("cell", name), item
    for index, item in enumerate(function.__defaults__ or ()):
        yield ("item", index), item
