"""What can go wrong with an ordering, each with a stable code, an exit status, and an explicit way out.

Every text names the configuration fields that decide about the order, so that whoever is stopped by
an error can always spell the order out instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from capaudit.model import CapauditError

EXPLICIT = (
    "spell the order out with ArticulationCfg.joint_ordering and ArticulationCfg.body_ordering (explicit lists of "
    "names), or name another record with ArticulationCfg.ordering_source_path"
)


class OrderingError(CapauditError):
    """Base of all ordering errors.

    ``code`` is stable, ``verdict`` the word that a command prints, ``status`` its exit status, ``details``
    the facts behind the message as plain data (the fields of ``--json``).
    """

    code: ClassVar[str] = "ordering-error"
    verdict: ClassVar[str] = "error"
    status = 2

    def __init__(
        self,
        message: str,
        *,
        place: str | None = None,
        remedy: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        advice = EXPLICIT if remedy is None else remedy if "explicit list" in remedy else f"{remedy}; or {EXPLICIT}"
        super().__init__(message, place=place, remedy=advice)
        self.details: dict[str, Any] = dict(details or {})

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.place, self.remedy, self.details))


def _rebuild(
    kind: type[OrderingError], message: str, place: str | None, remedy: str | None, details: dict[str, Any]
) -> OrderingError:
    return kind(message, place=place, remedy=remedy, details=details)


class OrderingUsageError(OrderingError):
    """The call itself cannot be served: no such option, nothing to record, an alias that only a framework resolves."""

    code = "usage"
    verdict = "usage"


class LiveNamesError(OrderingUsageError):
    """A live model has a joint or body that no record could name: unnamed, empty, or named twice."""

    code = "live-names"


class NoRecordError(OrderingError):
    """No record was found. ``details["probed"]`` lists every path that was tried, in order."""

    code = "no-record"
    verdict = "no-record"
    status = 3


class MissingEntryError(NoRecordError):
    """The record does not speak of this articulation (or axis). It is never taken for identity."""

    code = "missing-entry"


class CorruptRecordError(OrderingError):
    """The file is a record, and contradicts itself or breaks the schema."""

    code = "corrupt-record"
    verdict = "corrupt"
    status = 4


class InvalidYamlError(CorruptRecordError):
    """The file is not the kind of YAML that a record is; ``details["line"]`` says where."""

    code = "invalid-yaml"


class DuplicateKeyError(CorruptRecordError):
    """A YAML key stands twice in one mapping; a lenient reader would silently drop the first."""

    code = "duplicate-key"


class BadNameError(CorruptRecordError):
    """A stored name is no text, empty, or there twice."""

    code = "bad-name"


class DigestMismatchError(CorruptRecordError):
    """The stored digest is not that of the content: ``details`` has ``stored`` and ``computed``."""

    code = "digest-mismatch"
    verdict = "digest-mismatch"


class NotLeappError(CorruptRecordError):
    """The file is YAML, and no LEAPP artifact."""

    code = "not-leapp"


class SchemaError(OrderingError):
    """The record's schema or its version is not one that this release reads."""

    code = "schema-version"
    verdict = "unsupported-schema"
    status = 5


class LeappVersionError(SchemaError):
    """The LEAPP artifact has a configuration version that this release does not read."""

    code = "leapp-version"


class LeappIncompleteError(NoRecordError):
    """No tensor of the LEAPP artifact gives a complete order."""

    code = "leapp-incomplete"


class NotAPermutationError(OrderingError):
    """The stored names are not a permutation of the live ones: ``details`` has ``missing`` and ``extra``, sorted."""

    code = "not-a-permutation"
    verdict = "not-a-permutation"
    status = 6


class ConflictError(OrderingError):
    """Two sources that have to agree differ: ``details`` names both and what differs."""

    code = "conflict"
    verdict = "conflict"
    status = 7


class WriteConflictError(ConflictError):
    """A different record already stands where this one belongs. Records are written once; there is no force."""

    code = "write-conflict"


class LeappConflictError(ConflictError):
    """Two complete tensors of one LEAPP artifact give different orders."""

    code = "leapp-conflict"


class RemoteError(NoRecordError):
    """The record of a remote checkpoint could not be fetched, which is not the same as there being none."""

    code = "network-error"
