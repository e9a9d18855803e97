"""Compares replays with eager steps from the same state: what diverges first, and in which way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from capaudit.probe.carriers import (
    Step,
    address_of,
    as_tensor,
    carrier_kind,
    find_carriers,
    matches,
    render_path,
    resolve,
)

Kind = Literal["frozen", "stale", "random", "uninitialised", "different"]
"""``frozen``: constant over the replays while eager moves. ``stale``: the carrier's name is bound to memory
that the graph does not use. ``random``: eager itself does not repeat. ``uninitialised``: no replay wrote it."""

RETURNED = "returned"
NOISE_FACTOR = 8.0


@dataclass(frozen=True, slots=True)
class Divergence:
    """One output that replays give wrongly. ``step`` counts replays from 0."""

    name: str
    step: int
    kind: Kind
    detail: str

    @property
    def is_fault(self) -> bool:
        """A value that is random in eager as well is no fault of the capture."""
        return self.kind != "random"


@dataclass(slots=True)
class Side:
    """One run to compare: ``advance`` makes one step or one replay, ``output`` is what the step returned."""

    owner: Any
    advance: Callable[[], Any]
    before_step: Callable[[int], None] | None
    output: Any = None


Snapshot = Mapping[str, Any]


def record_trajectory(
    side: Side,
    steps: int,
    device_kind: str,
    *,
    inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
    mutate: bool = True,
    spared: frozenset[str] = frozenset(),
    synchronize: Callable[[], None] = lambda: None,
) -> list[Snapshot]:
    """Advance ``steps`` times and return copies of everything to compare after each.

    Before each step the input carriers are changed in place, by the same factors on every side. The default
    factor keeps zeros, so that masks, counts and paddings keep their meaning. ``spared`` carriers are left
    alone: memory that was allocated inside the capture is none before the first replay.
    """
    trajectory: list[Snapshot] = []
    for index in range(steps):
        if side.before_step is not None:
            side.before_step(index)
        if mutate:
            change_in_place(side.owner, index, device_kind, inputs, spared)
        synchronize()
        output = side.advance()
        synchronize()
        if output is not None:
            side.output = output
        trajectory.append(take_snapshot(side, device_kind, outputs))
    return trajectory


def change_in_place(
    owner: Any, index: int, device_kind: str, patterns: tuple[str, ...], spared: frozenset[str] = frozenset()
) -> int:
    """Scale the floating-point carriers in place, each storage once; return how many were changed."""
    import torch

    factor = 1.0 + 0.03125 * (1 + index % 3)
    changed: set[int] = set()
    for carrier in find_carriers(owner, device_kind, patterns):
        tensor = None if carrier.name in spared else as_tensor(carrier.value)
        if tensor is None or not tensor.is_floating_point() or not tensor.numel():
            continue
        # A broadcast tensor has several names for one element, and in-place writes to it are refused.
        if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
            continue
        storage = int(tensor.untyped_storage().data_ptr())
        if storage not in changed:
            changed.add(storage)
            with torch.no_grad():
                tensor.mul_(factor)
    return len(changed)


def take_snapshot(side: Side, device_kind: str, patterns: tuple[str, ...]) -> Snapshot:
    """Copy what the step returned and the carriers, by name."""
    found: dict[str, Any] = {}
    for name, value in flatten(side.output, RETURNED):
        tensor = as_tensor(value)
        if tensor is not None and tensor.device.type == device_kind:
            found[name] = tensor.clone()
    for carrier in find_carriers(side.owner, device_kind):
        if patterns and not matches(carrier.name, patterns):
            continue
        tensor = as_tensor(carrier.value)
        if tensor is not None:
            found[carrier.name] = tensor.clone()
    return found


def compare(
    graph: list[Snapshot],
    eager: list[Snapshot],
    repeated: list[Snapshot] | None,
    tolerance: float,
    rebound: frozenset[str] = frozenset(),
    poisoned: frozenset[str] = frozenset(),
) -> tuple[Divergence, ...]:
    """Return what diverges, earliest first and returned values before carriers.

    ``repeated`` is a second eager run: where two eager runs differ (atomic operations add in no fixed order),
    replays may differ as much times ``NOISE_FACTOR``. ``rebound`` names carriers that are bound to other
    memory than before the capture; ``poisoned`` outputs that were filled with NaN before the first replay.
    """
    names = [name for name in graph[0] if name in eager[0]]
    found = []
    for name in names:
        step = _first_difference(name, graph, eager, [tolerance] * len(graph))
        if step is None:
            continue
        kind = _classify(name, graph, eager, repeated, tolerance, rebound, poisoned)
        found.append(Divergence(name, step, kind, _describe(graph[step].get(name), eager[step].get(name))))
    return tuple(sorted(found, key=lambda item: (item.step, not item.name.startswith(RETURNED), not item.is_fault)))


def find_frozen(
    graph: Side,
    eager: Side,
    restore: tuple[Callable[[], None], Callable[[], None]],
    names: frozenset[str],
    device_kind: str,
    tolerance: float,
    synchronize: Callable[[], None] = lambda: None,
) -> frozenset[str]:
    """Tell, of values that eager does not repeat, those that the graph has baked in.

    From one and the same state two replays give the same value and two eager steps do not: a clock or a host
    generator. A generator that the graph owns moves in both. ``restore`` puts the graph's and the eager
    side's carriers back.
    """
    pairs = []
    for side, put_back in zip((graph, eager), restore, strict=True):
        snapshots = []
        for _ in range(2):
            put_back()
            synchronize()
            output = side.advance()
            synchronize()
            if output is not None:
                side.output = output
            snapshots.append(take_snapshot(side, device_kind, ()))
        pairs.append(snapshots)
    (one, two), (left, right) = pairs
    return frozenset(
        name
        for name in names
        if not _differs(one.get(name), two.get(name), 0.0) and _differs(left.get(name), right.get(name), tolerance)
    )


def flatten(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the tensors and Warp arrays of a returned value with a name for each."""
    if carrier_kind(value, None) is not None:
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from flatten(item, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from flatten(item, f"{name}[{index}]")


def synchronize_states(source: Mapping[tuple[Step, ...], Any], target: Any, device_kind: str) -> int:
    """Copy the saved carriers of one side into the other where they differ; return how many did."""
    copied = 0
    for path, saved in source.items():
        current = resolve(target, path)
        tensor = as_tensor(current) if carrier_kind(current, device_kind) is not None else None
        if tensor is None or tensor.shape != saved.shape or tensor.dtype != saved.dtype:
            continue
        if not _same(tensor, saved, 0.0):
            tensor.copy_(saved)
            copied += 1
    return copied


def save_state(owner: Any, device_kind: str) -> dict[tuple[Step, ...], Any]:
    """Copy all carriers by path."""
    saved = {}
    for carrier in find_carriers(owner, device_kind):
        tensor = as_tensor(carrier.value)
        if tensor is not None:
            saved[carrier.path] = tensor.clone()
    return saved


def addresses(owner: Any, device_kind: str) -> dict[str, int]:
    """Return the address of each carrier by name."""
    return {render_path(carrier.path): address_of(carrier.value) for carrier in find_carriers(owner, device_kind)}


def poison(output: Any, kept: set[int], device_kind: str) -> frozenset[str]:
    """Fill fresh floating-point outputs with NaN and return their names; ``kept`` storages are left alone."""
    import torch

    names = []
    for name, value in flatten(output, RETURNED):
        tensor = as_tensor(value)
        if tensor is None or tensor.device.type != device_kind or not tensor.is_floating_point():
            continue
        if int(tensor.untyped_storage().data_ptr()) in kept:
            continue
        with torch.no_grad():
            tensor.fill_(float("nan"))
        names.append(name)
    return frozenset(names)


def _classify(
    name: str,
    graph: list[Snapshot],
    eager: list[Snapshot],
    repeated: list[Snapshot] | None,
    tolerance: float,
    rebound: frozenset[str],
    poisoned: frozenset[str],
) -> Kind:
    frozen = _is_constant(graph, name) and not _is_constant(eager, name)
    if name in poisoned and bool(graph[-1][name].isnan().all()) and not bool(eager[-1][name].isnan().all()):
        return "uninitialised"
    if repeated is not None and not frozen:
        allowed = [tolerance + NOISE_FACTOR * noise for noise in _noise(name, eager, repeated)]
        if _first_difference(name, graph, eager, allowed) is None:
            return "random"
    if name in rebound:
        return "stale"
    return "frozen" if frozen else "different"


def _first_difference(name: str, graph: list[Snapshot], eager: list[Snapshot], allowed: list[float]) -> int | None:
    pairs = zip(graph, eager, allowed, strict=True)
    return next(
        (i for i, (one, other, limit) in enumerate(pairs) if _differs(one.get(name), other.get(name), limit)), None
    )


def _noise(name: str, eager: list[Snapshot], repeated: list[Snapshot] | None) -> list[float]:
    """Return, per step, the largest difference between the two eager runs so far; 0 for what is not comparable."""
    noise = [0.0] * len(eager)
    for index, one in enumerate(eager if repeated is not None else []):
        assert repeated is not None
        left, right = one.get(name), repeated[index].get(name)
        found = 0.0
        if left is not None and right is not None and left.shape == right.shape and left.is_floating_point():
            difference = (left.double() - right.double()).abs().nan_to_num(0.0)
            found = float(difference.max()) if difference.numel() else 0.0
        noise[index] = max(found, noise[index - 1] if index else 0.0)
    return noise


def _is_constant(trajectory: list[Snapshot], name: str) -> bool:
    first = trajectory[0].get(name)
    return all(not _differs(first, snapshot.get(name), 0.0) for snapshot in trajectory[1:])


def _differs(one: Any, other: Any, tolerance: float) -> bool:
    if one is None or other is None:
        return one is not other
    return not _same(one, other, tolerance)


def _same(one: Any, other: Any, tolerance: float) -> bool:
    import torch

    if one.shape != other.shape:
        return False
    if one.is_floating_point() or one.is_complex():
        return bool(torch.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True))
    return bool(torch.equal(one, other))


def _describe(graph: Any, eager: Any) -> str:
    if graph is None or eager is None:
        return "only one side has it"
    if graph.shape != eager.shape:
        return f"shape {tuple(graph.shape)} against {tuple(eager.shape)}"
    difference = (
        (graph.double() - eager.double()).abs().flatten() if not graph.is_complex() else (graph - eager).abs().flatten()
    )
    missing = int(difference.isnan().sum())
    largest = float(difference.nan_to_num(0.0).max()) if difference.numel() else 0.0
    return f"largest difference {largest:.3g}" + (f", {missing} elements NaN" if missing else "")
