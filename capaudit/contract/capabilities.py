"""What a backend declares about itself before anything is captured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from capaudit.contract.strict import Counter, Identity, check_fields, malformed

SemanticOwner = Literal[
    "interval_events", "metric", "curriculum", "recorder", "manual_reset", "mapped_multi_entity_reset"
]
"""Owners of publications that a fixed tick cannot hold."""

SEMANTIC_OWNERS: Final[tuple[SemanticOwner, ...]] = (
    "interval_events", "metric", "curriculum", "recorder", "manual_reset", "mapped_multi_entity_reset",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamContract:
    """The stream that a capture records. ``id`` is its handle as an integer; 0 is the default stream."""

    name: Identity
    id: Counter

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class AllocatorSnapshot:
    """Bytes that the allocator holds, and how often it had to ask the driver, before the capture."""

    allocated_bytes: Counter
    reserved_bytes: Counter
    allocations: Counter

    def __post_init__(self) -> None:
        check_fields(self)
        if self.allocated_bytes > self.reserved_bytes:
            raise malformed("allocated_bytes", "more bytes are allocated than reserved")


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """Driver and runtime versions, and whether the device has memory pools."""

    driver: Identity
    cuda: Identity
    memory_pool: bool

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One field per capability; ``None`` says that the backend does not declare it, which counts as unsupported.

    ``devices`` are the CUDA devices that the tick touches. ``masked_reset`` is ``masked`` for a
    full-width reset under a device mask, ``full_refresh`` for one that recomputes every world, which
    capture forbids. ``generators`` names the random generators registered with the graph.
    ``semantic_owners`` lists the owners that the workload has of those that a tick cannot hold; an empty
    tuple says that it has none. ``unknown`` keeps the names of declared capabilities that this contract
    version does not know. Raises MalformedError.
    """

    contract_version: Counter | None = None
    requested: bool | None = None
    devices: tuple[Identity, ...] | None = None
    stream: StreamContract | None = None
    stable_views: bool | None = None
    stepping: bool | None = None
    masked_reset: Literal["masked", "full_refresh"] | None = None
    deferred_validation: bool | None = None
    allocator: AllocatorSnapshot | None = None
    generators: tuple[Identity, ...] | None = None
    semantic_owners: tuple[Identity, ...] | None = None
    driver: DriverFacts | None = None
    unknown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def of(cls, declared: Mapping[str, object]) -> Capabilities:
        """Build them from keyword-like values; names that this version does not know end in ``unknown``.

        Raises MalformedError for a value of the wrong kind.
        """
        known = {name: value for name, value in declared.items() if name in CAPABILITY_NAMES}
        unknown = tuple(sorted(str(name) for name in declared if name not in CAPABILITY_NAMES))
        return cls(**known, unknown=unknown)  # type: ignore[arg-type]


CAPABILITY_NAMES: Final = tuple(name for name in Capabilities.__dataclass_fields__ if name != "unknown")
