"""The schema ``capaudit-evidence/1``, shared by the probe that writes it and the audit that reads it."""

from capaudit.evidence.document import (
    SCHEMA,
    Environment,
    Event,
    Evidence,
    EvidenceKind,
    JsonObject,
    JsonScalar,
    JsonValue,
    RanFunction,
    Record,
    SelfProof,
    StackFrame,
    Verdict,
)
from capaudit.evidence.storage import dumps, from_json, load, load_folder, loads, to_json, write

__all__ = [
    "SCHEMA",
    "Environment",
    "Event",
    "Evidence",
    "EvidenceKind",
    "JsonObject",
    "JsonScalar",
    "JsonValue",
    "RanFunction",
    "Record",
    "SelfProof",
    "StackFrame",
    "Verdict",
    "dumps",
    "from_json",
    "load",
    "load_folder",
    "loads",
    "to_json",
    "write",
]
