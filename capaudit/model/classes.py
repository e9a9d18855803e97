"""Ownership classes, confidence, severity, evidence and baseline states: the closed vocabularies of a report."""

from enum import StrEnum


class OwnershipClass(StrEnum):
    """Who may run an operation that a capture boundary reaches."""

    GRAPH_ELIGIBLE = "graph-eligible"
    COMPLETION_OWNED = "completion-owned"
    COLD_PATH = "cold-path"
    REJECTED = "rejected"
    UNRESOLVED = "unresolved"


class Confidence(StrEnum):
    """How sure the audit is of one finding.

    ``certain``: the values involved are known on every path. ``likely``: on at least one path, or
    under the assumption that an annotated tensor lives on the device. ``possible``: the receiver is
    not known and only the operation's name points to the hazard, or releases and drivers differ in it.
    """

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class EvidenceVerdict(StrEnum):
    """What a run on a device said about a finding."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    NOT_EXERCISED = "not-exercised"
    NOT_PROBED = "not-probed"


class Severity(StrEnum):
    """How much a finding weighs: an error fails a check, a warning only a strict one, a note never."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class BaselineState(StrEnum):
    """Where a finding stands to the baseline: ``absent`` is an entry that nothing matches any more."""

    NEW = "new"
    UNCHANGED = "unchanged"
    ABSENT = "absent"
