"""Whether a candidate may be captured at all: a pure function over declarations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capaudit.contract.capabilities import CAPABILITY_NAMES, SEMANTIC_OWNERS, Capabilities
from capaudit.contract.carriers import CarrierManifest, CarrierSpec
from capaudit.contract.errors import Refusal
from capaudit.contract.reasons import CONTRACT_VERSION
from capaudit.contract.strict import check_fields, malformed, require_kind
from capaudit.model import Boundary


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is to be captured: the boundary, what the backend can do, the carriers, and the layout they must fulfil.

    ``layout`` is empty where the workload fixes none.
    """

    boundary: Boundary
    capabilities: Capabilities
    carriers: CarrierManifest
    layout: tuple[CarrierSpec, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Preflight:
    """The verdict. ``supported`` holds exactly where there is no reason.

    ``rehearsal`` marks a verdict that took the CPU for the one CUDA device, so that everything around a
    capture can be exercised without a GPU; it supports no claim, and the gates say so.
    """

    supported: bool
    reasons: tuple[Refusal, ...]
    rehearsal: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.supported is bool(self.reasons):
            raise malformed("supported", "supported means no reason, unsupported at least one")

    def __bool__(self) -> bool:
        return self.supported


def preflight(candidate: Candidate, *, rehearsal: bool = False) -> Preflight:
    """Judge a candidate from its declarations alone, in one order, with every reason.

    Pure: no capture, no allocation, no random draw, no mode change; the same candidate gives the same
    verdict. ``rehearsal`` lets the device ``cpu`` stand for the CUDA device.
    """
    require_kind(Candidate, candidate, "candidate")
    capabilities = candidate.capabilities
    reasons = (
        *_undeclared(capabilities),
        *_capabilities(capabilities, rehearsal),
        *_carriers(candidate, rehearsal),
        *candidate.carriers.conforms(candidate.layout),
        *_crossing(candidate),
    )
    return Preflight(not reasons, reasons, rehearsal)


def _undeclared(capabilities: Capabilities) -> Iterator[Refusal]:
    for name in CAPABILITY_NAMES:
        if getattr(capabilities, name) is None:
            yield Refusal("capability-missing", name, "the backend does not declare this capability")
    for name in capabilities.unknown:
        yield Refusal("capability-unknown", name, f"contract version {CONTRACT_VERSION} does not know this capability")


def _capabilities(found: Capabilities, rehearsal: bool) -> Iterator[Refusal]:
    if found.contract_version not in (None, CONTRACT_VERSION):
        message = f"the backend speaks contract version {found.contract_version}, this is {CONTRACT_VERSION}"
        yield Refusal("contract-version", "contract_version", message)
    if found.requested is False:
        yield Refusal("not-requested", "requested", "graph execution was not requested explicitly")
    if found.devices is not None:
        yield from _devices(found.devices, rehearsal)
    for name, what in (
        ("stable_views", "state views may move between ticks"),
        ("stepping", "the backend cannot step inside a capture"),
        ("deferred_validation", "validation reads its verdicts back inside the tick"),
    ):
        if getattr(found, name) is False:
            yield Refusal("capability-absent", name, what)
    if found.masked_reset == "full_refresh":
        yield Refusal("full-refresh", "masked_reset", "the reset recomputes every world in place of the masked ones")
    if found.generators is not None and len(found.generators) != 1:
        message = f"{len(found.generators)} generators are registered with the graph; it takes exactly one"
        yield Refusal("generator-count", "generators", message)
    for owner in found.semantic_owners or ():
        known = "the workload has such an owner, and a fixed tick cannot hold its publications"
        message = known if owner in SEMANTIC_OWNERS else "the workload has an owner that this contract does not know"
        yield Refusal("semantic-owner", owner, message)
    if found.driver is not None and not found.driver.memory_pool:
        yield Refusal("memory-pool", "driver", "the device has no memory pools, which captured allocations need")


def _devices(devices: tuple[str, ...], rehearsal: bool) -> Iterator[Refusal]:
    if len(devices) != 1:
        yield Refusal("device-count", "devices", f"{len(devices)} devices are named; the contract is for exactly one")
    for device in devices:
        if not device.startswith("cuda") and not (rehearsal and device == "cpu"):
            yield Refusal("device-kind", "devices", f"{device!r} is no CUDA device, and graphs exist there only")


def _carriers(candidate: Candidate, rehearsal: bool) -> Iterator[Refusal]:
    if not candidate.carriers.carriers:
        yield Refusal("carrier-missing", "carriers", "no carrier is declared")
    devices = candidate.capabilities.devices or ()
    for carrier in candidate.carriers.carriers:
        if carrier.address is None:
            yield Refusal("address-not-fixed", carrier.name, "the carrier has no fixed address")
        # Evidence may live on the CPU: the RNG state is a CPU tensor even for a CUDA generator.
        may_be_cpu = carrier.role == "evidence" or rehearsal
        if devices and carrier.device not in devices and not (may_be_cpu and carrier.device == "cpu"):
            message = f"the carrier lives on {carrier.device}, the tick on {', '.join(devices)}"
            yield Refusal("carrier-device", carrier.name, message)
    for first, second in candidate.carriers.overlaps():
        message = f"its memory overlaps that of {first.name}, and what it holds must outlive the tick"
        yield Refusal("carrier-overlap", second.name, message)


def _crossing(candidate: Candidate) -> Iterator[Refusal]:
    """Carriers that the boundary's declaration names must exist, and comparison clones must not cross it."""
    held = candidate.carriers.by_name
    boundary = candidate.boundary
    for kind, names in (("input", boundary.inputs), ("output", boundary.outputs)):
        for name in names:
            carrier = held.get(name)
            if carrier is None:
                yield Refusal("carrier-missing", name, f"the boundary declares this {kind}, the manifest does not")
            elif carrier.role == "evidence":
                yield Refusal("evidence-crosses", name, f"a comparison clone is declared as {kind} of the boundary")
            elif kind == "input" and carrier.role != "input":
                yield Refusal("carrier-role", name, f"the boundary takes it as input, the manifest says {carrier.role}")
