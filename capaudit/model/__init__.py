"""The vocabulary that every layer shares: frozen values, no behaviour that needs another layer."""

from capaudit.model.boundary import Boundary, CaptureKind
from capaudit.model.classes import Confidence, EvidenceVerdict, OwnershipClass
from capaudit.model.errors import CapauditError, ConfigurationError, InputError, NoDeviceError, UnresolvedEntryError
from capaudit.model.finding import Finding, Hop, Operation, Place, RelatedPlace
from capaudit.model.result import PrunedBranch, Result, Statistics, UnresolvedCall

__all__ = [
    "Boundary",
    "CapauditError",
    "CaptureKind",
    "Confidence",
    "ConfigurationError",
    "EvidenceVerdict",
    "Finding",
    "Hop",
    "InputError",
    "NoDeviceError",
    "Operation",
    "OwnershipClass",
    "Place",
    "PrunedBranch",
    "RelatedPlace",
    "Result",
    "Statistics",
    "UnresolvedCall",
    "UnresolvedEntryError",
]
