"""Any path that holds an order, as a source: records and LEAPP files, what frameworks stored, models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from capaudit.ordering.derived import RUN_CONFIG
from capaudit.ordering.errors import MissingEntryError, NoRecordError
from capaudit.ordering.live import MODEL_SUFFIXES, derived_source, entries_from_path
from capaudit.ordering.locating import load_source
from capaudit.ordering.record import Entry
from capaudit.ordering.sources import Orders, Source


def any_source(
    path: str | os.PathLike[str], *, name: str | None = None, root: str | None = None, bodies: bool = True
) -> Source:
    """Return the source behind a path.

    A checkpoint or run folder gives its record; without one, what a framework stored there. Errors: those of
    the record where one exists, else ``NoRecordError`` with everything that was looked at.
    """
    place = Path(path)
    suffix = place.suffix.lower()
    if suffix in MODEL_SUFFIXES and not place.is_dir():
        return source_of_entries(entries_from_path(place, name=name, root=root, bodies=bodies).entries, str(place))
    if place.name == RUN_CONFIG or place.name.lower().startswith("io_descriptors"):
        return derived_source(place)
    if suffix == ".json":
        return source_of_entries(entries_from_path(place, backend="unknown").entries, str(place))
    try:
        return load_source(path)
    except NoRecordError as error:
        if isinstance(error, MissingEntryError) or not (place.is_dir() or suffix == ".onnx"):
            raise
        try:
            return derived_source(place)
        except NoRecordError:
            raise error from None


def source_of_entries(entries: Mapping[str, Entry], path: str) -> Source:
    """Entries of a live side as a source of public orders."""
    return Source(
        "model",
        path,
        {
            key: Orders(entry.public_joint_names, entry.public_body_names or None, entry.actuator_names, entry.backend)
            for key, entry in entries.items()
        },
    )
