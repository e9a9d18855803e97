"""The vocabulary that every layer shares: frozen values, no behaviour that needs another layer."""

from capaudit.model.boundary import Boundary, BoundaryRefusedError, CaptureKind
from capaudit.model.classes import BaselineState, Confidence, EvidenceVerdict, OwnershipClass, Severity
from capaudit.model.errors import CapauditError, ConfigurationError, InputError, NoDeviceError, UnresolvedEntryError
from capaudit.model.finding import Finding, Hop, Observation, Operation, Place, RelatedPlace, Suppression
from capaudit.model.fix import Edit, Fix
from capaudit.model.result import (
    AuditName,
    BaselineEntry,
    EvidenceRow,
    EvidenceSummary,
    PrunedBranch,
    ReachedFunction,
    Result,
    StaticAudit,
    Statistics,
    UnresolvedCall,
)

__all__ = [
    "AuditName",
    "BaselineEntry",
    "BaselineState",
    "Boundary",
    "BoundaryRefusedError",
    "CapauditError",
    "CaptureKind",
    "Confidence",
    "ConfigurationError",
    "Edit",
    "EvidenceRow",
    "EvidenceSummary",
    "EvidenceVerdict",
    "Finding",
    "Fix",
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
    "StaticAudit",
    "Statistics",
    "Suppression",
    "UnresolvedCall",
    "UnresolvedEntryError",
]
