"""Orders written down by hand: JSON with a record's entries, or with nothing but lists of names."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from capaudit.ordering.adapters import make_entry
from capaudit.ordering.errors import BadNameError, CorruptRecordError, DuplicateKeyError, OrderingUsageError
from capaudit.ordering.names import name_problem
from capaudit.ordering.reading import read_bytes
from capaudit.ordering.record import Entry, Record, validated

_KNOWN: Final = (
    "backend",
    "joint_names",
    "body_names",
    "public_joint_names",
    "public_body_names",
    "backend_joint_names",
    "backend_body_names",
    "is_fixed_base",
    "configured",
    "joint_ordering",
    "body_ordering",
    "actuator_names",
)


def load_explicit(path: str | os.PathLike[str], backend: str | None = None) -> dict[str, Entry]:
    """Read entries from a JSON file. Errors: ``CorruptRecordError``, ``DuplicateKeyError``, ``NoRecordError``."""
    place = os.fspath(path)
    return explicit_entries(load_json(place), place, backend)


def load_json(place: str) -> Any:
    """Return a JSON document. Errors: ``CorruptRecordError``, ``DuplicateKeyError``."""
    try:
        return json.loads(read_bytes(place).decode("utf-8-sig"), object_pairs_hook=lambda p: _unique(p, place))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CorruptRecordError(f"it is not valid JSON: {error}", place=place) from error


def _unique(pairs: list[tuple[str, Any]], place: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise DuplicateKeyError(f"the key {key!r} stands there twice", place=place, details={"key": key})
        found[key] = value
    return found


def explicit_entries(document: Any, place: str, backend: str | None = None) -> dict[str, Entry]:
    """Return entries from plain data: ``{key: {...}}``, the same below ``articulations``, or one entry alone.

    An entry has ``joint_names`` and ``body_names`` (or ``public_*``), and may have ``backend``, ``backend_*``,
    ``is_fixed_base``, ``configured`` and ``actuator_names``; a bare list is the joint names. Errors:
    ``CorruptRecordError`` for other data,
    ``BadNameError`` with articulation, field and index, ``OrderingUsageError`` for a record that names no backend.
    """
    if isinstance(document, Mapping) and isinstance(document.get("articulations"), Mapping):
        document = document["articulations"]
    if isinstance(document, list):
        document = {"robot": {"joint_names": document}}
    if isinstance(document, Mapping) and any(key in document for key in ("joint_names", "public_joint_names")):
        document = {"robot": document}
    if not isinstance(document, Mapping) or not document:
        raise CorruptRecordError("articulations by key are expected, each with 'joint_names'", place=place)
    return {key: _entry(key, value, place, backend) for key, value in document.items()}


def _entry(key: str, value: Any, place: str, backend: str | None) -> Entry:
    if isinstance(value, list):
        value = {"joint_names": value}
    if not isinstance(value, Mapping):
        raise CorruptRecordError(f"articulation {key!r} is no mapping", place=place)
    unknown = sorted(set(value) - {*_KNOWN, "digest"})
    if unknown:
        raise CorruptRecordError(f"articulation {key!r} has the unknown key {unknown[0]!r}", place=place)
    joints = value.get("public_joint_names", value.get("joint_names"))
    bodies = value.get("public_body_names", value.get("body_names", []))
    optional = ("backend_joint_names", "backend_body_names", "actuator_names")
    lists = {"joint_names": joints, "body_names": bodies, **{what: value[what] for what in optional if value.get(what)}}
    for what, names in lists.items():
        _check_names(names, place, key, what)
    configured = value.get("configured") or value
    if not isinstance(configured, Mapping):
        raise CorruptRecordError(f"articulation {key!r}: configured is no mapping", place=place)
    fixed = value.get("is_fixed_base", False)
    if not isinstance(fixed, bool):
        raise CorruptRecordError(f"articulation {key!r}: is_fixed_base is neither true nor false", place=place)
    named = backend or value.get("backend")
    if not isinstance(named, str) or not named:
        raise OrderingUsageError(
            f"articulation {key!r} names no backend", place=place, remedy="add 'backend', or give --backend"
        )
    entry = make_entry(
        named,
        joint_names=joints,
        body_names=bodies,
        is_fixed_base=fixed,
        backend_joint_names=value.get("backend_joint_names"),
        backend_body_names=value.get("backend_body_names"),
        joint_ordering=configured.get("joint_ordering"),
        body_ordering=configured.get("body_ordering"),
        actuator_names=value.get("actuator_names"),
    )
    validated(Record({key: entry}), place)
    return entry


def _check_names(names: Any, place: str, key: str, field: str) -> None:
    if not isinstance(names, list):
        raise CorruptRecordError(f"articulation {key!r}: {field} is no list of names", place=place)
    found = name_problem(names)
    if found is not None:
        index, problem = found
        raise BadNameError(
            f"articulation {key!r}, {field}[{index}]: {problem}",
            place=place,
            details={"articulation": key, "field": field, "index": index},
        )
