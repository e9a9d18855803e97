"""Writing ``ordering.yaml`` once: whole or not at all, and never over another one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from capaudit.ordering.errors import OrderingUsageError, WriteConflictError
from capaudit.ordering.reading import load_record, parse_record
from capaudit.ordering.record import SCHEMA, SCHEMA_VERSION, Configured, Entry, Record, validated

FILE_NAME: Final = "ordering.yaml"
CHECKPOINT_FOLDERS: Final = frozenset({"checkpoints", "nn"})
"""Folders in which skrl and rl_games take any file for the newest checkpoint."""

_WIDTH: Final = 110
# Legal in JSON, and not printable in YAML.
_ESCAPED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def dump_record(record: Record) -> str:
    """Return the record as YAML: every text a quoted string, no tags, no anchors, the same for the same record."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: Record) -> Iterator[str]:
    yield f"schema: {_quoted(SCHEMA)}"
    yield f"schema_version: {SCHEMA_VERSION}"
    yield f"digest: {_quoted(record.digest)}"
    if record.applies_to:
        yield f"applies_to: {_flow(record.applies_to, 2)}"
    yield "articulations:"
    for key, entry in record.articulations.items():
        yield f"  {_quoted(key)}:"
        yield from (f"    {line}" for line in _entry(key, entry))
    yield "provenance:" if record.provenance else "provenance: {}"
    for key, value in record.provenance.items():
        yield f"  {_quoted(key)}: {_value(value)}"
    for key, value in record.extra.items():
        yield f"{_quoted(key)}: {_value(value)}"


def _entry(key: str, entry: Entry) -> Iterator[str]:
    yield f"backend: {_quoted(entry.backend)}"
    yield "configured:"
    yield f"  joint_ordering: {_configured(entry.joint_ordering)}"
    yield f"  body_ordering: {_configured(entry.body_ordering)}"
    yield f"is_fixed_base: {'true' if entry.is_fixed_base else 'false'}"
    for name in ("public_joint_names", "public_body_names", "backend_joint_names", "backend_body_names"):
        yield f"{name}: {_flow(getattr(entry, name), 6)}"
    if entry.actuator_names is not None:
        yield f"actuator_names: {_flow(entry.actuator_names, 6)}"
    yield f"digest: {_quoted(entry.digest(key))}"


def _configured(value: Configured) -> str:
    if value is None:
        return "null"
    return _flow(value, 8) if isinstance(value, tuple) else _quoted(value)


def _flow(names: Sequence[str], indent: int) -> str:
    """A list in brackets, several names to a line: C parsers read it twice as fast as one name to a line."""
    lines, line = [], ""
    for index, name in enumerate(names):
        item = _quoted(name) + ("," if index + 1 < len(names) else "")
        if line and len(line) + len(item) > _WIDTH:
            lines.append(line)
            line = ""
        line = f"{line} {item}" if line else item
    lines.append(line)
    return f"[{(chr(10) + ' ' * indent).join(lines)}]"


def _value(value: Any) -> str:
    """Plain data on one line; keys and texts are quoted."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_quoted(str(key))}: {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value)
    return _quoted(str(value))


def _quoted(text: str) -> str:
    escaped = json.dumps(text, ensure_ascii=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", escaped)


def checkpoint_folder(path: str | os.PathLike[str]) -> str | None:
    """Return the name of the checkpoint folder that a record at ``path`` would lie in, itself or in its ``params``.

    Nothing looks for a record in a ``params`` folder there: a checkpoint's run folder is the parent.
    """
    folder = Path(os.path.abspath(os.fspath(path))).parent
    if folder.name == "params":
        folder = folder.parent
    return folder.name if folder.name in CHECKPOINT_FOLDERS else None


def write_record(record: Record, path: str | os.PathLike[str], *, allow_checkpoint_folder: bool = False) -> bool:
    """Write the record to ``path`` unless an equal one stands there; return whether anything was written.

    The text goes to a temporary file in the same folder, is forced to disk, and gets its name by an
    exclusive link: whoever is killed on the way leaves no record or a whole one, and of two writers one
    wins. Errors: ``WriteConflictError`` with the differing fields where another record stands there,
    ``OrderingUsageError`` for a folder of checkpoints (unless allowed) or one that cannot be written,
    ``CorruptRecordError`` for a record that contradicts itself or a file there that is no valid record.
    """
    place = os.fspath(path)
    folder = Path(os.path.abspath(place)).parent
    checkpoints = checkpoint_folder(place)
    if checkpoints is not None and not allow_checkpoint_folder:
        raise OrderingUsageError(
            f"a record is not written into {checkpoints!r}: frameworks take any file there for a checkpoint",
            place=place,
            remedy="write it into the run folder's 'params', or allow it explicitly (allow_checkpoint_folder)",
        )
    record = validated(record, place)
    if not record.articulations:
        raise OrderingUsageError("there is no articulation to record", place=place)
    data = dump_record(record).encode("utf-8")
    parse_record(data, place)  # what cannot be read back must never get a name
    if os.path.lexists(place):
        return _settle(record, place)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{Path(place).name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
        try:
            _write_through(temporary, data)
            _link(temporary, place)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        _sync_folder(folder)
    except FileExistsError:
        return _settle(record, place)  # another writer was faster
    except OSError as error:
        raise OrderingUsageError(
            f"the record cannot be written: {error.strerror or error}",
            place=place,
            remedy="make the folder writable, or choose another run folder",
        ) from error
    return True


def _write_through(file: Path, data: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(temporary: Path, place: str) -> None:
    """Give the file its name, exclusively. Errors: ``FileExistsError``."""
    try:
        os.link(temporary, place)
    except FileExistsError:
        raise
    except OSError:
        _rename_exclusively(temporary, place)  # a file system without hard links


def _rename_exclusively(temporary: Path, place: str) -> None:
    if os.name == "nt":
        os.rename(temporary, place)  # refuses an existing target there
        return
    import fcntl

    descriptor = os.open(temporary.parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # released by the kernel, whatever happens to this process
        if os.path.lexists(place):
            raise FileExistsError(place)
        os.rename(temporary, place)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every file system lets a folder be synchronised
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _settle(record: Record, place: str) -> bool:
    """Accept an equal record that already stands there. Errors: ``WriteConflictError``."""
    present = load_record(place)
    if present.digest == record.digest and frozenset(present.applies_to) >= frozenset(record.applies_to):
        return False
    differing = list(differences(present, record))
    if present.digest == record.digest:
        differing.append("applies_to")
    raise WriteConflictError(
        f"another record stands there already, and records are written once; it differs in {', '.join(differing)}",
        place=place,
        remedy="start a new run folder for a run with another order",
        details={"differing": differing, "stored": present.digest, "computed": record.digest},
    )


def differences(first: Record, second: Record) -> Iterable[str]:
    """Yield the fields in which two records differ, as ``key.field``; a missing entry is its key alone."""
    for key in sorted(first.articulations.keys() | second.articulations.keys()):
        one, other = first.articulations.get(key), second.articulations.get(key)
        if one is None or other is None:
            yield f"{key} (only in one of them)"
            continue
        left, right = one.payload(key), other.payload(key)
        for name in sorted(left.keys() | right.keys()):
            if left.get(name) != right.get(name):
                yield f"{key}.{name}"
