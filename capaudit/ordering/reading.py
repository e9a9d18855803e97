"""Reading ``ordering.yaml``: strict, and every complaint has file, articulation, field and line."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from capaudit.ordering import strict_yaml
from capaudit.ordering.errors import (
    BadNameError,
    CorruptRecordError,
    DigestMismatchError,
    NoRecordError,
    OrderingUsageError,
    SchemaError,
)
from capaudit.ordering.names import name_problem
from capaudit.ordering.record import (
    SCHEMA,
    SUPPORTED_VERSIONS,
    Configured,
    Entry,
    Record,
    file_digest,
)
from capaudit.ordering.strict_yaml import Node

_TOP: Final = ("schema", "schema_version", "digest", "applies_to", "articulations", "provenance")
_LISTS: Final = ("public_joint_names", "public_body_names", "backend_joint_names", "backend_body_names")
_REQUIRED: Final = ("backend", "configured", *_LISTS, "is_fixed_base", "digest")
_OPTIONAL: Final = ("actuator_names",)
_CONFIGURED: Final = ("joint_ordering", "body_ordering")


def load_record(path: str | os.PathLike[str]) -> Record:
    """Read one record file and check everything about it that needs no live model.

    Errors: ``NoRecordError`` where there is no file, ``OrderingUsageError`` where it cannot be read,
    ``InvalidYamlError``, ``DuplicateKeyError``, ``BadNameError``, ``SchemaError``, ``CorruptRecordError``
    and ``DigestMismatchError`` for what is in it.
    """
    place = os.fspath(path)
    return parse_record(read_bytes(place), place)


def read_bytes(place: str) -> bytes:
    """Return a regular file's bytes. Errors: ``NoRecordError``, ``OrderingUsageError``."""
    try:
        status = os.stat(place)
        if not stat.S_ISREG(status.st_mode):
            raise OrderingUsageError("it is no regular file", place=place)
        if status.st_size > strict_yaml.LARGEST_FILE:
            raise CorruptRecordError(f"{status.st_size} bytes are more than any record needs", place=place)
        return Path(place).read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoRecordError("there is no such file", place=place, details={"probed": [place]}) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OrderingUsageError(f"it cannot be read: {reason}", place=place) from error


def parse_record(data: bytes, place: str) -> Record:
    """Read a record from bytes; ``place`` is what messages call it. Errors: as ``load_record``."""
    return record_of(strict_yaml.compose(data, place), place)


def record_of(root: Node, place: str) -> Record:
    """Read a record from the root node of its document."""
    top = strict_yaml.mapping(root, place, "the record")
    _check_schema(top, place)
    if "articulations" not in top:
        raise CorruptRecordError("corrupt record: it has no 'articulations'", place=place)
    entries: dict[str, Entry] = {}
    stored: list[str] = []
    for key, node in strict_yaml.mapping(top["articulations"], place, "articulations").items():
        entries[key], digest = _entry(key, node, place)
        stored.append(digest)
    provenance = strict_yaml.plain(top["provenance"], place, "provenance") if "provenance" in top else None
    record = Record(
        articulations=entries,
        provenance=provenance if isinstance(provenance, dict) else {},
        applies_to=_applies_to(top.get("applies_to"), place),
        extra={key: strict_yaml.plain(node, place, key) for key, node in top.items() if key not in _TOP},
        path=place,
    )
    _check_file_digest(top.get("digest"), stored, place)
    return record


def _check_schema(top: dict[str, Node], place: str) -> None:
    supported = list(SUPPORTED_VERSIONS)
    known = {"supported": supported, "schema": SCHEMA}
    schema = strict_yaml.plain(top["schema"], place) if "schema" in top else None
    if schema != SCHEMA:
        shown = repr(schema) if len(repr(schema)) <= 60 else f"{repr(schema)[:60]}..."
        what = f"schema is {shown}" if "schema" in top else "it has no 'schema'"
        raise SchemaError(
            f"not an ordering record: {what}, {SCHEMA!r} is expected", place=place, details={**known, "found": schema}
        )
    node = top.get("schema_version")
    version = strict_yaml.plain(node, place) if node is not None else None
    if type(version) is not int or version not in SUPPORTED_VERSIONS:
        raise SchemaError(
            f"unknown schema_version {version!r}; supported: {', '.join(map(str, supported))}",
            place=f"{place}:{strict_yaml.line_of(node)}" if node is not None else place,
            remedy="read it with a release of capaudit that knows this version",
            details={**known, "found": version},
        )


def _entry(key: str, node: Node, place: str) -> tuple[Entry, str]:
    what = f"articulation {key!r}"
    if not key:
        raise BadNameError("an articulation's key is empty", place=f"{place}:{strict_yaml.line_of(node)}")
    fields = strict_yaml.mapping(node, place, what)
    _check_keys(fields, _REQUIRED, _OPTIONAL, node, place, what)
    lists = {name: _names(fields[name], place, key, name) for name in _LISTS}
    configured = strict_yaml.mapping(fields["configured"], place, f"{what}, configured")
    _check_keys(configured, _CONFIGURED, (), fields["configured"], place, f"{what}, configured")
    entry = Entry(
        backend=strict_yaml.text(fields["backend"], place, f"{what}, backend", articulation=key, field="backend"),
        **lists,
        is_fixed_base=_flag(fields["is_fixed_base"], place, f"{what}, is_fixed_base"),
        joint_ordering=_configured(configured["joint_ordering"], place, key, "joint_ordering"),
        body_ordering=_configured(configured["body_ordering"], place, key, "body_ordering"),
        actuator_names=(
            _names(fields["actuator_names"], place, key, "actuator_names") if "actuator_names" in fields else None
        ),
    )
    stored = strict_yaml.text(fields["digest"], place, f"{what}, digest")
    computed = entry.digest(key)
    found = entry.problem()
    if found is not None:
        changed = "" if stored == computed else "; the digest does not fit either, so the file was changed"
        raise CorruptRecordError(
            f"corrupt record: {what}, {found[0]}: {found[1]}{changed}",
            place=f"{place}:{strict_yaml.line_of(node)}",
            details={"articulation": key, "field": found[0], "stored": stored, "computed": computed},
        )
    if stored != computed:
        raise DigestMismatchError(
            f"{what}: the digest is not that of the content, so the entry was changed after it was written "
            f"(stored {stored}, computed {computed})",
            place=f"{place}:{strict_yaml.line_of(fields['digest'])}",
            remedy="take the record from the run again",
            details={"articulation": key, "stored": stored, "computed": computed},
        )
    return entry, stored


def _check_keys(
    fields: dict[str, Node], required: Sequence[str], optional: Sequence[str], node: Node, place: str, what: str
) -> None:
    known = (*required, *optional)
    for name, value in fields.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
            raise CorruptRecordError(
                f"corrupt record: {what} has the unknown key {name!r}{hint}",
                place=f"{place}:{strict_yaml.line_of(value)}",
                details={"key": name, "known": list(known)},
            )
    for name in required:
        if name not in fields:
            raise CorruptRecordError(
                f"corrupt record: {what} has no {name!r}",
                place=f"{place}:{strict_yaml.line_of(node)}",
                details={"key": name},
            )


def _names(node: Node, place: str, key: str, field: str) -> tuple[str, ...]:
    names = []
    for index, item in enumerate(strict_yaml.items(node, place, f"articulation {key!r}, {field}")):
        if not strict_yaml.is_text(item):
            what = f"articulation {key!r}, {field}[{index}]"
            strict_yaml.text(item, place, what, articulation=key, field=field, index=index)
        names.append(item.value)
    found = name_problem(names)
    if found is not None:
        index, problem = found
        raise BadNameError(
            f"articulation {key!r}, {field}[{index}]: {problem}",
            place=f"{place}:{strict_yaml.line_of(node.value[index])}",
            details={"articulation": key, "field": field, "index": index},
        )
    return tuple(names)


def _configured(node: Node, place: str, key: str, field: str) -> Configured:
    if strict_yaml.is_null(node):
        return None
    if node.id == "sequence":
        return _names(node, place, key, f"configured.{field}")
    return strict_yaml.text(node, place, f"articulation {key!r}, configured.{field}", articulation=key, field=field)


def _flag(node: Node, place: str, what: str) -> bool:
    value: Any = strict_yaml.plain(node, place)
    if not isinstance(value, bool):
        raise CorruptRecordError(
            f"corrupt record: {what} is neither true nor false", place=f"{place}:{strict_yaml.line_of(node)}"
        )
    return value


def _applies_to(node: Node | None, place: str) -> tuple[str, ...]:
    if node is None or strict_yaml.is_null(node):
        return ()
    if node.id == "scalar":
        return (strict_yaml.text(node, place, "applies_to"),)
    nodes = strict_yaml.items(node, place, "applies_to")
    return tuple(strict_yaml.text(item, place, f"applies_to[{index}]") for index, item in enumerate(nodes))


def _check_file_digest(node: Node | None, stored_entries: list[str], place: str) -> None:
    computed = file_digest(stored_entries)
    stored = strict_yaml.text(node, place, "digest") if node is not None else None
    if stored != computed:
        what = "the record has no digest over its entries" if stored is None else f"stored {stored}"
        raise DigestMismatchError(
            f"the file's digest is not that of its entries, so one was deleted, added or replaced "
            f"({what}, computed {computed})",
            place=f"{place}:{strict_yaml.line_of(node)}" if node is not None else place,
            remedy="take the record from the run again",
            details={"stored": stored, "computed": computed},
        )
