"""Orders as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from capaudit.ordering.errors import OrderingError
from capaudit.ordering.mapping import GATHER, AxisOrdering
from capaudit.ordering.record import Entry, Record, plain
from capaudit.ordering.resolving import Resolution
from capaudit.ordering.sources import Source
from capaudit.ordering.verifying import Comparison

SCHEMA: Final = "capaudit-ordering/1"


def as_json(command: str, verdict: str, status: int, fields: Mapping[str, Any]) -> str:
    """Return one JSON object; ASCII, so that no locale can break it."""
    document = {"schema": SCHEMA, "command": command, "verdict": verdict, "status": status, **fields}
    return json.dumps(document, indent=2) + "\n"


def error_json(command: str, error: OrderingError) -> str:
    """Return an expected failure as JSON, with the same facts as its text."""
    problem = {"code": error.code, "message": error.message, "place": error.place, "remedy": error.remedy}
    return as_json(command, error.verdict, error.status, {"error": {**problem, **error.details}})


def source_fields(source: Source | None) -> dict[str, Any]:
    """What a source is, as plain data."""
    if source is None:
        return {"source": None}
    return {
        "source": {
            "kind": source.kind,
            "path": source.path,
            "signed": source.signed,
            "digest": source.record.digest if source.record is not None else None,
            "sha256": source.sha256,
            "probed": list(source.probed),
            "notes": list(source.notes),
        }
    }


def source_line(source: Source) -> str:
    """One line about a source."""
    return f"source: {source.path} ({source.kind}, {'signed' if source.signed else 'unsigned'})"


def resolution_json(resolution: Resolution) -> str:
    """Return a resolution with both index arrays of each axis; ``null`` for an axis that needs no map."""
    return as_json(
        "resolve",
        resolution.verdict,
        0,
        {
            "articulation": resolution.articulation,
            "joint": _axis(resolution.joint, resolution.joint_names),
            "body": _axis(resolution.body, resolution.body_names),
            "gather": GATHER,
            **source_fields(resolution.source),
        },
    )


def _axis(mapped: AxisOrdering | None, names: Sequence[str] | None) -> dict[str, Any] | None:
    if names is None:
        return None
    return {
        "verdict": "identity" if mapped is None else "permutation",
        "names": list(names),
        "backend_names": list(names if mapped is None else mapped.backend_names),
        "user_to_backend": None if mapped is None else list(mapped.user_to_backend),
        "backend_to_user": None if mapped is None else list(mapped.backend_to_user),
    }


def resolution_text(resolution: Resolution) -> str:
    """Return a resolution for people: the verdict, the index arrays, and in words which way they gather."""
    return "\n".join(_resolution(resolution)) + "\n"


def _resolution(resolution: Resolution) -> Iterator[str]:
    yield f"verdict: {resolution.verdict}"
    yield f"articulation: {shown(resolution.articulation)}"
    if resolution.source is not None:
        yield source_line(resolution.source)
        yield from (f"note: {note}" for note in resolution.source.notes)
    axes = (("joint", resolution.joint, resolution.joint_names), ("body", resolution.body, resolution.body_names))
    for axis, mapped, names in axes:
        if names is None:
            yield f"{axis}: not asked for"
        elif mapped is None:
            yield f"{axis}: identity, {len(names)} names, no map needed"
        else:
            yield f"{axis}: permutation, {len(names)} names"
            yield f"  user_to_backend: {list(mapped.user_to_backend)}"
            yield f"  backend_to_user: {list(mapped.backend_to_user)}"
    if resolution.verdict != "identity":
        yield f"gather: {GATHER}"


def comparison_text(verdict: str, comparisons: Sequence[Comparison]) -> str:
    """Return the verdict of ``verify`` with one line per axis."""
    lines = [f"verdict: {verdict}"]
    for item in comparisons:
        lines.append(
            f"{shown(item.articulation)}, {item.axis}: {item.verdict}{f' ({item.detail})' if item.detail else ''}"
        )
        lines += [f"  missing: {shown(name)}" for name in item.missing]
        lines += [f"  extra: {shown(name)}" for name in item.extra]
    return "\n".join(lines) + "\n"


def record_text(record: Record) -> str:
    """Return a record as tables, one per articulation: public place, name, backend place."""
    return "\n".join(_record(record)) + "\n"


def _record(record: Record) -> Iterator[str]:
    yield f"record: {record.path}"
    yield f"digest: {record.digest} (checked)"
    if record.applies_to:
        yield f"applies to: {', '.join(map(shown, record.applies_to))}"
    for key, entry in record.articulations.items():
        yield ""
        base = "fixed" if entry.is_fixed_base else "floating"
        yield f"articulation {shown(key)}: backend {entry.backend}, {base} base"
        yield f"  configured: joint_ordering {_configured(entry.joint_ordering)}, " + (
            f"body_ordering {_configured(entry.body_ordering)}"
        )
        yield from _table("joint", entry.public_joint_names, entry.backend_joint_names)
        yield from _table("body", entry.public_body_names, entry.backend_body_names)
        if entry.actuator_names is not None:
            yield from _table("actuator", entry.actuator_names, entry.actuator_names)
    if record.provenance:
        yield ""
        yield "provenance (changes no verdict)"
        yield from (f"  {key}: {json.dumps(value, ensure_ascii=True)}" for key, value in record.provenance.items())
    if record.extra:
        yield f"unknown top-level keys, kept: {', '.join(map(shown, record.extra))}"


def _configured(value: Any) -> str:
    if isinstance(value, tuple):
        return f"list of {len(value)} names"
    return "none" if value is None else repr(value)


def _table(axis: str, public: Sequence[str], backend: Sequence[str]) -> Iterator[str]:
    if not public:
        yield f"  {axis}: none recorded"
        return
    places = {name: index for index, name in enumerate(backend)}
    yield f"  {axis}: {len(public)} names, {'the backend order' if tuple(public) == tuple(backend) else 'reordered'}"
    yield f"    {'public':>6}  {'backend':>7}  name"
    for index, name in enumerate(public):
        moved = " *" if places[name] != index else ""
        yield f"    {index:>6}  {places[name]:>7}  {shown(name)}{moved}"


def shown(name: str) -> str:
    """A name on a terminal: as it is where it is printable, escaped where it could mislead."""
    return name if name.isprintable() else ascii(name)


def record_fields(record: Record) -> dict[str, Any]:
    """A record as plain data."""
    return {
        "path": record.path,
        "digest": record.digest,
        "applies_to": list(record.applies_to),
        "articulations": {key: _entry(key, entry) for key, entry in record.articulations.items()},
        "provenance": dict(record.provenance),
        "unknown_keys": sorted(record.extra),
    }


def _entry(key: str, entry: Entry) -> dict[str, Any]:
    payload = entry.payload(key)
    for name in ("schema", "schema_version", "articulation"):
        del payload[name]
    payload["configured"] = {
        "joint_ordering": plain(entry.joint_ordering),
        "body_ordering": plain(entry.body_ordering),
    }
    return {**payload, "digest": entry.digest(key)}


def orders_text(source: Source) -> str:
    """Return a source that is no record (LEAPP, derived) as tables of its public orders."""
    lines = [source_line(source), *(f"note: {note}" for note in source.notes)]
    for key, orders in source.articulations.items():
        lines += ["", f"articulation {shown(key)}"]
        for axis, names in (("joint", orders.joint_names), ("body", orders.body_names)):
            lines += [f"  {axis}: none"] if names is None else list(_table(axis, names, names))
    return "\n".join(lines) + "\n"


def orders_fields(source: Source) -> dict[str, Any]:
    """The public orders of a source as plain data."""
    return {
        **source_fields(source),
        "articulations": {
            key: {
                "joint_names": None if orders.joint_names is None else list(orders.joint_names),
                "body_names": None if orders.body_names is None else list(orders.body_names),
                "backend": orders.backend,
            }
            for key, orders in source.articulations.items()
        },
    }
