"""What an order can be read from, brought to one form: names per articulation and axis, and how far to trust them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from capaudit.ordering.errors import MissingEntryError
from capaudit.ordering.names import Axis, ascii_or_plain
from capaudit.ordering.record import Record

Kind = Literal["record", "leapp", "derived", "model", "names"]


@dataclass(frozen=True, slots=True)
class Orders:
    """The public orders of one articulation; an axis of ``None`` is one that the source does not speak of."""

    joint_names: tuple[str, ...] | None = None
    body_names: tuple[str, ...] | None = None
    actuator_names: tuple[str, ...] | None = None
    backend: str | None = None

    def names(self, axis: Axis) -> tuple[str, ...] | None:
        """The public order of this axis."""
        return self.joint_names if axis == "joint" else self.body_names


@dataclass(frozen=True, slots=True)
class Source:
    """Orders by articulation, and where they come from.

    ``signed``: a digest protects the content. ``sha256`` is the hash of the file itself, kept as
    provenance. ``selections`` are names that have to exist without giving an order (LEAPP's ``write:*``).
    """

    kind: Kind
    path: str
    articulations: Mapping[str, Orders]
    signed: bool = False
    sha256: str | None = None
    record: Record | None = None
    selections: Mapping[tuple[str, Axis], tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    probed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def orders(self, articulation: str | None) -> tuple[str, Orders]:
        """Return ``(key, orders)`` of an articulation; without a key the only one there is.

        Errors: ``MissingEntryError`` with the keys that are there.
        """
        keys = list(self.articulations)
        if articulation is None and len(keys) == 1:
            return keys[0], self.articulations[keys[0]]
        if articulation is not None and articulation in self.articulations:
            return articulation, self.articulations[articulation]
        shown = ", ".join(ascii_or_plain(key) for key in keys) or "none"
        what = (
            "no articulation was named, and the source has"
            if articulation is None
            else (
                f"there is no entry for articulation {ascii_or_plain(articulation)}, and a missing entry is never "
                "identity; the source has"
            )
        )
        raise MissingEntryError(
            f"{what}: {shown}",
            place=self.path,
            remedy="name one of these",
            details={"articulation": articulation, "available": keys},
        )


def source_of_record(record: Record, probed: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> Source:
    """A record as a source; axes without any name were not recorded."""
    return Source(
        kind="derived" if record.is_derived else "record",
        path=record.path or "",
        articulations={
            key: Orders(
                entry.public_joint_names or None,
                entry.public_body_names or None,
                entry.actuator_names,
                entry.backend,
            )
            for key, entry in record.articulations.items()
        },
        signed=True,
        record=record,
        probed=probed,
        notes=notes,
    )
