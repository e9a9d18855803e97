"""The vocabulary that every layer shares: frozen values, no behaviour that needs another layer."""

from capaudit.model.boundary import Boundary, BoundaryRefusedError, CaptureKind
from capaudit.model.classes import BaselineState, Confidence, EvidenceVerdict, OwnershipClass, Severity
from capaudit.model.errors import CapauditError, ConfigurationError, InputError, NoDeviceError, UnresolvedEntryError
from capaudit.model.finding import Finding, Hop, Observation, Operation, Place, RelatedPlace, Suppression
from capaudit.model.result import (
    BaselineEntry,
    EvidenceRow,
    EvidenceSummary,
    PrunedBranch,
    ReachedFunction,
    Result,
    Statistics,
    UnresolvedCall,
)

__all__ = [
    "BaselineEntry",
    "BaselineState",
    "Boundary",
    "BoundaryRefusedError",
    "CapauditError",
    "CaptureKind",
    "Confidence",
    "ConfigurationError",
    "EvidenceRow",
    "EvidenceSummary",
    "EvidenceVerdict",
    "Finding",
    "Hop",
    "InputError",
    "NoDeviceError",
    "Observation",
    "Operation",
    "OwnershipClass",
    "Place",
    "PrunedBranch",
    "ReachedFunction",
    "RelatedPlace",
    "Result",
    "Severity",
    "Statistics",
    "Suppression",
    "UnresolvedCall",
    "UnresolvedEntryError",
]
