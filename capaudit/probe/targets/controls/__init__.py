"""The negative controls by name, with what each of them is expected to say; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from capaudit.model import CaptureKind, InputError

if TYPE_CHECKING:
    from capaudit.probe.targets.collector.tick import CollectorTick


@dataclass(frozen=True, slots=True)
class Control:
    """One hazard switched on in the reference tick.

    ``probe`` is what the probe's verdict is expected to be: ``fails``, ``wrong_on_replay``, or ``ok``
    where a capture cannot show the hazard, with ``why``. ``rehearsed`` lets another tick load what loads at
    first use, where the control itself must not run before the capture. ``codes`` are the codes that the audit may
    give to it beside its own.
    """

    hazard: str
    code: str
    name: str
    probe: str
    why: str = ""
    capture: CaptureKind = "shared"
    warmup: int = 3
    rehearsed: bool = False
    module: str = "hazards"
    codes: tuple[str, ...] = ()

    @property
    def accepted(self) -> frozenset[str]:
        """The codes that name this hazard."""
        return frozenset((self.code, *self.codes))


CONTROLS: tuple[Control, ...] = (
    Control("host-scalar-read", "CAP101", "HostScalarRead", "fails"),
    Control("device-to-host-copy", "CAP102", "DeviceToHostCopy", "fails"),
    Control("host-to-device-copy", "CAP103", "HostToDeviceCopy", "fails"),
    Control("explicit-synchronize", "CAP104", "ExplicitSynchronize", "fails"),
    Control("hidden-synchronize", "CAP105", "HiddenSynchronize", "fails"),
    Control("dynamic-compaction", "CAP201", "DynamicCompaction", "fails"),
    Control("data-dependent-branch", "CAP202", "DataDependentBranch", "fails", codes=("CAP101",)),
    Control("capture-time-allocation", "CAP301", "CaptureTimeAllocation", "wrong_on_replay", warmup=0, rehearsed=True),
    Control("transient-warp-allocation", "CAP302", "TransientWarpAllocation", "fails", capture="torch"),
    Control("allocation-in-conditional-body", "CAP303", "AllocationInConditionalBody", "fails"),
    Control("carrier-rebind", "CAP304", "CarrierRebind", "wrong_on_replay"),
    Control("free-during-capture", "CAP305", "FreeDuringCapture", "fails"),
    Control("nested-capture", "CAP401", "NestedCapture", "fails"),
    Control("foreign-stream", "CAP402", "ForeignStream", "wrong_on_replay"),
    Control(
        "unjoined-stream",
        "CAP403",
        "UnjoinedStream",
        "ok",
        "an H200 captured and replayed it right: a capture that Warp knows ends with every leaf of the graph joined; "
        "recorded by Torch alone the same fork is refused",
    ),
    Control("frozen-host-state", "CAP501", "FrozenHostState", "wrong_on_replay"),
    Control("unregistered-rng", "CAP502", "UnregisteredRng", "wrong_on_replay"),
    Control("lazy-initialisation", "CAP503", "LazyInitialisation", "wrong_on_replay", warmup=0, rehearsed=True),
    Control(
        "backend-private-probing",
        "CAP601",
        "BackendPrivateProbing",
        "ok",
        "reading a private name does no device work; it breaks with a release and not with a capture",
    ),
    Control("transport-in-boundary", "CAP602", "TransportInBoundary", "wrong_on_replay"),
    Control(
        "model-mutation",
        "CAP603",
        "ModelMutation",
        "ok",
        "an H200 recorded and replayed it right, for the capture is registered with Warp and the model stays the same; "
        "what the rule is about is a model that changes between replays",
    ),
    Control(
        "silent-eager-fallback",
        "CAP604",
        "SilentEagerFallback",
        "ok",
        "the tick itself captures and replays; the hazard lies in what the runner does with a failure",
        module="fallback",
    ),
)


def control(hazard: str) -> Control:
    """Return the control for a hazard. Raises InputError for one that has none."""
    found = next((item for item in CONTROLS if hazard in (item.hazard, item.code)), None)
    if found is None:
        known = ", ".join(item.hazard for item in CONTROLS)
        raise InputError(f"the reference collector has no control for {hazard!r}", remedy=f"use one of {known}")
    return found


def control_class(item: Control) -> type[CollectorTick]:
    """Import the tick with the hazard in it; loads torch and Warp."""
    module = import_module(f"capaudit.probe.targets.controls.{item.module}")
    return cast("type[CollectorTick]", getattr(module, item.name))
