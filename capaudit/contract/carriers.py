"""The buffers that a captured tick reads and writes: declared once, compared before every replay."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from capaudit.contract.errors import MalformedError, Refusal
from capaudit.contract.ownership import cold_path
from capaudit.contract.reasons import InvalidationReason
from capaudit.contract.strict import Counter, Identity, Positive, check_fields, malformed, require_kind

Role = Literal["input", "output", "verdict", "ingress", "evidence"]
"""What a carrier is to the tick. ``evidence`` carriers are read by comparisons only."""

Dtype = Literal[
    "bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "bfloat16", "float32", "float64",
]  # fmt: skip

_ITEM_BYTES: Final[dict[str, int]] = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip

DRIFT_REASONS: Final[Mapping[Role, InvalidationReason]] = {
    "input": "policy_io", "output": "view", "verdict": "data", "ingress": "capacity", "evidence": "data",
}  # fmt: skip
"""Which invalidation the drift of a carrier causes, where the carrier names no other."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """One buffer with a fixed place. ``owner`` is the dotted path of the object that holds it.

    ``shape`` counts elements per axis, worlds first; ``address`` is the device address, ``None`` while
    it is not fixed. ``writers`` are the dotted paths of the functions that write it. ``drift`` is the
    invalidation that a changed address, shape, dtype or device causes (default: by role). ``strides``
    count elements, ``None`` for dense storage. Raises MalformedError.
    """

    name: Identity
    owner: Identity
    shape: tuple[Positive, ...]
    dtype: Dtype
    device: Identity
    address: Positive | None
    role: Role
    writers: tuple[Identity, ...] = ()
    drift: InvalidationReason | None = None
    strides: tuple[Counter, ...] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        _require_device(self.device)
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise malformed("strides", f"{len(self.strides)} strides for {len(self.shape)} axes")

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar carrier."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.elements * _ITEM_BYTES[self.dtype]

    @property
    def reason(self) -> InvalidationReason:
        """The invalidation that its drift causes."""
        return self.drift or DRIFT_REASONS[self.role]


@dataclass(frozen=True, slots=True)
class CarrierSpec:
    """What a workload requires of a carrier before there is storage for it."""

    name: Identity
    shape: tuple[Positive, ...]
    dtype: Dtype
    role: Role

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Drift:
    """A carrier that is no longer what was captured; ``reason`` is the invalidation that follows."""

    carrier: str
    attribute: Literal["address", "shape", "dtype", "device", "strides", "presence"]
    declared: str
    observed: str
    reason: InvalidationReason

    def __str__(self) -> str:
        return f"{self.carrier}: {self.attribute} was {self.declared} and is {self.observed}"


@dataclass(frozen=True, slots=True)
class CarrierManifest:
    """Every carrier of one boundary, each name once. Raises MalformedError."""

    carriers: tuple[Carrier, ...]

    def __post_init__(self) -> None:
        check_fields(self)
        names = [carrier.name for carrier in self.carriers]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise malformed("carriers", f"two carriers are named {twice!r}")

    def __getitem__(self, name: str) -> Carrier:
        return self.by_name[name]

    @property
    def by_name(self) -> dict[str, Carrier]:
        """The carriers by name, in declared order."""
        return {carrier.name: carrier for carrier in self.carriers}

    def with_role(self, *roles: Role) -> tuple[Carrier, ...]:
        """Return the carriers of these roles, in declared order."""
        return tuple(carrier for carrier in self.carriers if carrier.role in roles)

    def drift(self, observed: Iterable[Carrier]) -> tuple[Drift, ...]:
        """Compare with what is there now, in declared order; a carrier that is not there has drifted too.

        Carriers that were never declared are no drift: the graph does not know them. One that is named twice must be
        right both times.
        """
        found: dict[str, list[Carrier | None]] = {}
        for carrier in observed:
            require_kind(Carrier, carrier, "observed")
            found.setdefault(carrier.name, []).append(carrier)
        pairs = ((carrier, now) for carrier in self.carriers for now in found.get(carrier.name, [None]))
        return tuple(drift for carrier, now in pairs for drift in _drift(carrier, now))

    def overlaps(self) -> tuple[tuple[Carrier, Carrier], ...]:
        """Return pairs of dense carriers that share memory and must not.

        Views of one storage are fine among the tick's own carriers; ingress slots and comparison clones
        have to outlive the next tick, so that nothing else may lie in them.
        """
        placed = [carrier for carrier in self.carriers if carrier.address is not None and carrier.strides is None]
        placed.sort(key=lambda carrier: (carrier.device, carrier.address or 0))
        found = []
        for index, first in enumerate(placed):
            end = (first.address or 0) + first.size
            for second in placed[index + 1 :]:
                if second.device != first.device or (second.address or 0) >= end:
                    break
                if {first.role, second.role} & {"ingress", "evidence"}:
                    found.append((first, second))
        return tuple(found)

    def conforms(self, layout: Iterable[CarrierSpec]) -> tuple[Refusal, ...]:
        """Return why the manifest does not fulfil a layout; empty where it does."""
        held = self.by_name
        refusals = []
        for spec in layout:
            carrier = held.get(spec.name)
            if carrier is None:
                refusals.append(Refusal("carrier-missing", spec.name, "the layout has this carrier, the manifest not"))
                continue
            for attribute in ("shape", "dtype", "role"):
                wanted, found = getattr(spec, attribute), getattr(carrier, attribute)
                if wanted != found:
                    message = f"its {attribute} is {found}; the layout has {wanted}"
                    refusals.append(Refusal("carrier-layout", spec.name, message))
        return tuple(refusals)


def describe(
    name: str,
    storage: Any,
    *,
    owner: str,
    role: Role,
    writers: Iterable[str] = (),
    drift: InvalidationReason | None = None,
) -> Carrier:
    """Declare a Torch tensor or Warp array as it is now. Reads its description alone, never its values.

    Raises MalformedError for anything else, for an empty one, and for a dtype that carriers cannot have
    (of Warp's compound types, declare a view of scalars).
    """
    strides = None
    if callable(getattr(storage, "data_ptr", None)):
        address, device = storage.data_ptr(), str(storage.device)
        dtype = str(storage.dtype).rpartition(".")[2]
        if not storage.is_contiguous():
            strides = tuple(int(step) for step in storage.stride())
    elif hasattr(storage, "ptr") and hasattr(storage, "dtype"):
        address, device = storage.ptr, str(storage.device)
        dtype = getattr(storage.dtype, "__name__", "")
        if not storage.is_contiguous and dtype in _ITEM_BYTES:
            strides = tuple(int(step) // _ITEM_BYTES[dtype] for step in storage.strides)
    else:
        raise MalformedError(f"{type(storage).__name__} is neither a Torch tensor nor a Warp array", place=name)
    if dtype not in get_args(Dtype):
        known = ", ".join(get_args(Dtype))
        raise MalformedError(f"the dtype {dtype!r} is none of {known}", place=name, remedy="declare a view of scalars")
    return Carrier(
        name=name,
        owner=owner,
        shape=tuple(int(size) for size in storage.shape),
        dtype=dtype,  # type: ignore[arg-type]
        device=device,
        address=address or None,
        role=role,
        writers=tuple(writers),
        drift=drift,
        strides=strides,
    )


@cold_path("comparison clones are allocated outside of every capture")
def comparison_clones(
    storages: Mapping[str, Any], *, owner: str, clone: Callable[[Any], Any] | None = None
) -> tuple[dict[str, Any], tuple[Carrier, ...]]:
    """Copy carriers for a later comparison; the copies are evidence carriers called ``NAME@evidence``.

    ``clone`` copies one storage (default: its own ``clone`` method). Raises CaptureViolation while a
    capture records, MalformedError for something that is no storage.
    """
    copies = {f"{name}@evidence": (clone(value) if clone else value.clone()) for name, value in storages.items()}
    carriers = tuple(describe(name, value, owner=owner, role="evidence") for name, value in copies.items())
    return copies, carriers


def collector_layout(
    worlds: int,
    *,
    actions: int = 29,
    controls: int = 29,
    groups: Mapping[str, int] | None = None,
    components: int = 11,
    verdicts: Mapping[str, tuple[int, ...]] | None = None,
    rng_state_bytes: int | None = 16,
    receipt: bool = True,
) -> tuple[CarrierSpec, ...]:
    """Return the canonical carriers of a collector tick; the defaults are the G1 motion workload's.

    ``groups`` maps an observation group to its columns (default actor 160, critic 289). Per group there
    are ``observation.GROUP``, ``terminal_observation.GROUP`` and ``post_reset_observation.GROUP``, each
    ``float32[worlds, columns]``. ``verdicts`` maps a verdict's name to its shape (default one
    ``verdict.finite`` of shape ``[worlds]``). The two ingress slots hold ``worlds`` rows each. ``rng_state``
    is the CPU copy of the generator's state (16 bytes for Torch's CUDA generator; ``None`` leaves it out),
    ``receipt`` the device counter ``int64[1]`` that the tick raises last.
    """
    columns = {"actor": 160, "critic": 289} if groups is None else groups
    verdict_shapes = {"finite": (worlds,)} if verdicts is None else verdicts
    specs = [
        CarrierSpec("action", (worlds, actions), "float32", "input"),
        CarrierSpec("control", (worlds, controls), "float32", "output"),
        CarrierSpec("reward", (worlds,), "float32", "output"),
        CarrierSpec("reward_components", (worlds, components), "float32", "output"),
    ]
    specs += [CarrierSpec(name, (worlds,), "bool", "output") for name in ("terminated", "truncated", "reset_mask")]
    for kind in ("observation", "terminal_observation", "post_reset_observation"):
        specs += [CarrierSpec(f"{kind}.{name}", (worlds, size), "float32", "output") for name, size in columns.items()]
    specs += [CarrierSpec(f"verdict.{name}", shape, "bool", "verdict") for name, shape in verdict_shapes.items()]
    for slot in range(INGRESS_DEPTH):
        for name, shape, dtype in _transition_columns(worlds, actions, columns):
            specs.append(CarrierSpec(f"ingress[{slot}].{name}", shape, dtype, "ingress"))
    if receipt:
        specs.append(CarrierSpec("receipt", (1,), "int64", "evidence"))
    if rng_state_bytes is not None:
        specs.append(CarrierSpec("rng_state", (rng_state_bytes,), "uint8", "evidence"))
    return tuple(specs)


INGRESS_DEPTH: Final = 2


def _transition_columns(
    worlds: int, actions: int, columns: Mapping[str, int]
) -> Iterable[tuple[str, tuple[int, ...], Dtype]]:
    for prefix in ("observation", "next_observation"):
        yield from ((f"{prefix}.{group}", (worlds, width), "float32") for group, width in columns.items())
    yield "action", (worlds, actions), "float32"
    yield "reward", (worlds,), "float32"
    yield from ((name, (worlds,), "bool") for name in ("done", "truncated", "terminal_mask"))
    yield from ((f"terminal_observation.{group}", (worlds, width), "float32") for group, width in columns.items())


def _drift(declared: Carrier, observed: Carrier | None) -> Iterable[Drift]:
    if observed is None:
        yield Drift(declared.name, "presence", "there", "gone", declared.reason)
        return
    for attribute in ("address", "shape", "dtype", "device", "strides"):
        before, now = getattr(declared, attribute), getattr(observed, attribute)
        if before != now:
            yield Drift(declared.name, attribute, str(before), str(now), declared.reason)


def _require_device(device: str) -> None:
    kind, colon, index = device.partition(":")
    if kind not in ("cpu", "cuda") or (colon and not (index.isascii() and index.isdigit() and len(index) <= 3)):
        raise malformed("device", f"expected cpu, cuda or cuda:INDEX, found {device!r}")
