"""Run-time contracts: what a program declares about its captures, checked while it runs. No analysis, no torch.

The names below load on first use, so that importing the ownership decorators costs nothing. Each piece works
alone: declarations and ``preflight``; ``CarrierManifest``; ``CaptureLifecycle``; receipts and ``Ingress``;
``RngLedger``; ``RunManifest``; the two gates.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capaudit.contract.candidates import Candidate, Preflight, preflight
    from capaudit.contract.capabilities import (
        AllocatorSnapshot,
        Capabilities,
        DriverFacts,
        StreamContract,
    )
    from capaudit.contract.carriers import (
        Carrier,
        CarrierManifest,
        CarrierSpec,
        Drift,
        collector_layout,
        comparison_clones,
        describe,
    )
    from capaudit.contract.errors import (
        ContractError,
        FailClosedError,
        IllegalTransitionError,
        IngressError,
        InvalidatedError,
        MalformedError,
        ReceiptError,
        Refusal,
        RngError,
    )
    from capaudit.contract.ingress import Ingress, IngressCounters, IngressShape
    from capaudit.contract.lifecycle import CaptureLifecycle
    from capaudit.contract.manifest import RngSummary, RunManifest, Software
    from capaudit.contract.reasons import CONTRACT_VERSION, INVALIDATION_REASONS, InvalidationReason, Mode, State
    from capaudit.contract.receipts import CompletionReceipt, ReceiptLedger, event_receipt, immediate_receipt
    from capaudit.contract.rng import RngEvidence, RngLedger, Rollback, require_nothing_consumed
    from capaudit.contract.snapshot import LifecycleSnapshot
    from capaudit.model import Boundary, BoundaryRefusedError

_HOMES = {
    "capabilities": ("AllocatorSnapshot", "Capabilities", "DriverFacts", "StreamContract"),
    "carriers": (
        "Carrier", "CarrierManifest", "CarrierSpec", "Drift", "collector_layout", "comparison_clones", "describe",
    ),
    "errors": (
        "ContractError", "FailClosedError", "IllegalTransitionError", "IngressError", "InvalidatedError",
        "MalformedError", "ReceiptError", "Refusal", "RngError",
    ),
    "ingress": ("Ingress", "IngressCounters", "IngressShape"),
    "lifecycle": ("CaptureLifecycle",),
    "manifest": ("RngSummary", "RunManifest", "Software"),
    "candidates": ("Candidate", "Preflight", "preflight"),
    "reasons": ("CONTRACT_VERSION", "INVALIDATION_REASONS", "InvalidationReason", "Mode", "State"),
    "receipts": ("CompletionReceipt", "ReceiptLedger", "event_receipt", "immediate_receipt"),
    "rng": ("RngEvidence", "RngLedger", "Rollback", "require_nothing_consumed"),
    "snapshot": ("LifecycleSnapshot",),
}  # fmt: skip
_MODULE_OF = {name: f"capaudit.contract.{module}" for module, names in _HOMES.items() for name in names} | {
    "Boundary": "capaudit.model",
    "BoundaryRefusedError": "capaudit.model",
}

__all__ = [
    "CONTRACT_VERSION",
    "INVALIDATION_REASONS",
    "AllocatorSnapshot",
    "Boundary",
    "BoundaryRefusedError",
    "Candidate",
    "Capabilities",
    "CaptureLifecycle",
    "Carrier",
    "CarrierManifest",
    "CarrierSpec",
    "CompletionReceipt",
    "ContractError",
    "Drift",
    "DriverFacts",
    "FailClosedError",
    "IllegalTransitionError",
    "Ingress",
    "IngressCounters",
    "IngressError",
    "IngressShape",
    "InvalidatedError",
    "InvalidationReason",
    "LifecycleSnapshot",
    "MalformedError",
    "Mode",
    "Preflight",
    "ReceiptError",
    "ReceiptLedger",
    "Refusal",
    "RngError",
    "RngEvidence",
    "RngLedger",
    "RngSummary",
    "Rollback",
    "RunManifest",
    "Software",
    "State",
    "StreamContract",
    "collector_layout",
    "comparison_clones",
    "describe",
    "event_receipt",
    "immediate_receipt",
    "preflight",
    "require_nothing_consumed",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
