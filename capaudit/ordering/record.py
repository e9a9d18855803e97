"""The record of a run's articulation orders, and the digests that protect it.

Source of the canonical form: sorted keys, separators ``,`` and ``:``, UTF-8, no ASCII escaping, no Unicode
normalisation, as ``json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)`` gives it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from capaudit.ordering.errors import CorruptRecordError, OrderingUsageError
from capaudit.ordering.names import AXES, Axis, difference, name_problem

SCHEMA: Final = "articulation-ordering"
SCHEMA_VERSION: Final = 1
SUPPORTED_VERSIONS: Final = (1,)

Configured = str | tuple[str, ...] | None
"""What a configuration asked for: nothing, an alias as typed, or the list of names."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The orders of one articulation.

    Public names are the order that the policy saw, backend names the order in which the simulator stores
    its arrays. ``actuator_names`` is a third axis of its own, recorded where a source knows it, and
    takes part in the digest only then.
    """

    backend: str
    public_joint_names: tuple[str, ...]
    public_body_names: tuple[str, ...]
    backend_joint_names: tuple[str, ...]
    backend_body_names: tuple[str, ...]
    is_fixed_base: bool
    joint_ordering: Configured = None
    body_ordering: Configured = None
    actuator_names: tuple[str, ...] | None = None

    def public_names(self, axis: Axis) -> tuple[str, ...]:
        """The order of this axis that the policy was trained against."""
        return self.public_joint_names if axis == "joint" else self.public_body_names

    def backend_names(self, axis: Axis) -> tuple[str, ...]:
        """The order of this axis in the arrays of the training backend."""
        return self.backend_joint_names if axis == "joint" else self.backend_body_names

    def digest(self, articulation: str) -> str:
        """``sha256:<hex>`` over everything that decides about an order; paths and times take no part."""
        return _sha256(self.payload(articulation))

    def payload(self, articulation: str) -> dict[str, Any]:
        """The plain value that the digest covers."""
        payload: dict[str, Any] = {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "articulation": articulation,
            "backend": self.backend,
            "configured": {
                "joint_ordering": plain(self.joint_ordering),
                "body_ordering": plain(self.body_ordering),
            },
            "is_fixed_base": self.is_fixed_base,
            "public_joint_names": list(self.public_joint_names),
            "public_body_names": list(self.public_body_names),
            "backend_joint_names": list(self.backend_joint_names),
            "backend_body_names": list(self.backend_body_names),
        }
        if self.actuator_names is not None:
            payload["actuator_names"] = list(self.actuator_names)
        return payload

    def problem(self) -> tuple[str, str] | None:
        """Return ``(field, what is wrong)`` where the entry contradicts itself, else ``None``."""
        for name in ("public_joint_names", "public_body_names", "backend_joint_names", "backend_body_names"):
            found = name_problem(getattr(self, name))
            if found is not None:
                return f"{name}[{found[0]}]", found[1]
        for axis in AXES:
            public, backend = self.public_names(axis), self.backend_names(axis)
            if frozenset(public) != frozenset(backend):
                missing, extra = difference(public, backend)
                return (
                    f"public_{axis}_names",
                    f"not a permutation of backend_{axis}_names (missing {missing}, extra {extra})",
                )
        bodies = self.backend_body_names
        if self.is_fixed_base and bodies and self.public_body_names[0] != bodies[0]:
            return (
                "public_body_names[0]",
                f"with a fixed base the root body {bodies[0]!r} stays public body 0, not {self.public_body_names[0]!r}",
            )
        return None


@dataclass(frozen=True, slots=True)
class Record:
    """All orders of one run, by scene key.

    ``applies_to`` names checkpoint files that the record belongs to where several lie in one folder.
    ``provenance`` (time, paths, host, versions, ...) and ``extra`` (unknown top-level keys) change no
    verdict. ``path`` is where the record was read from.
    """

    articulations: Mapping[str, Entry]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    applies_to: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` over the sorted entry digests, so that a deleted entry shows."""
        return file_digest(entry.digest(key) for key, entry in self.articulations.items())

    @property
    def is_derived(self) -> bool:
        """Whether the record was made from what a framework had stored, not from a live articulation."""
        return bool(self.provenance.get("derived"))

    def at(self, path: str) -> Record:
        """The same record, known to lie at ``path``."""
        return replace(self, path=path)


def file_digest(entry_digests: Iterable[str]) -> str:
    """``sha256:<hex>`` over the canonical JSON list of the sorted entry digests."""
    return _sha256(sorted(entry_digests))


def _sha256(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8')).hexdigest()}"


def plain(configured: Configured) -> str | list[str] | None:
    """A configured order as JSON and YAML write it."""
    return list(configured) if isinstance(configured, tuple) else configured


def configured_value(value: object, what: str) -> Configured:
    """Return a configuration's order verbatim: an enum becomes its value, a sequence a tuple.

    Errors: ``OrderingUsageError`` for anything that is neither nothing, a text nor a sequence of texts.
    """
    value = getattr(value, "value", value) if not isinstance(value, str) else value
    if value is None:
        return None
    if isinstance(value, str):
        return str(value.value) if hasattr(value, "value") else str(value)
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return tuple(str(name) for name in value)
    raise OrderingUsageError(
        f"{what} is {value!r}, which is no order: None, the name of a convention, or a list of names is expected"
    )


def validated(record: Record, place: str | None = None) -> Record:
    """Return the record when it agrees with itself. Errors: ``CorruptRecordError`` for the first fault."""
    for key, entry in record.articulations.items():
        found = entry.problem()
        if found is not None:
            raise CorruptRecordError(
                f"corrupt record: articulation {key!r}, {found[0]}: {found[1]}",
                place=place,
                details={"articulation": key, "field": found[0]},
            )
    return record
