"""Evidence files: validated on load, written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path, PurePosixPath, PureWindowsPath

from capaudit.evidence.decoding import MismatchError, decode, encode
from capaudit.evidence.document import SCHEMA, Event, Evidence, JsonObject, RanFunction, StackFrame
from capaudit.evidence.reading import parse_json, read_text
from capaudit.evidence.source import decode_lines
from capaudit.model import InputError

_HAZARD = re.compile(r"CAP\d{3}\Z")
_PROBE_AGAIN = "run the probe again; it writes evidence files whole"


def to_json(evidence: Evidence) -> JsonObject:
    """Return the document as JSON values, ``schema`` first."""
    body = encode(evidence)
    assert isinstance(body, dict)
    return {"schema": SCHEMA, **body}


def from_json(document: object, source: str = "evidence") -> Evidence:
    """Validate a parsed document. Raises InputError with ``source`` and the JSON path."""
    if not isinstance(document, dict):
        raise InputError("this is no evidence document: the top level is not an object", place=f"{source}: $")
    schema = document.get("schema")
    if schema != SCHEMA:
        found = "there is no schema field" if schema is None else f"its schema is {schema!r}"
        remedy = f"pass a file that this version's probe wrote (schema {SCHEMA!r})"
        raise InputError(f"this is no evidence document: {found}", place=f"{source}: $.schema", remedy=remedy)
    try:
        evidence = decode(Evidence, {key: value for key, value in document.items() if key != "schema"})
        _validate(evidence)
    except MismatchError as error:
        raise InputError(error.message, place=f"{source}: {error.path}", remedy=_PROBE_AGAIN) from None
    return evidence


def dumps(evidence: Evidence) -> str:
    """Return the document as text: one line per event and record, so that two runs diff well.

    Raises InputError if the evidence would not load again.
    """
    document = to_json(evidence)
    from_json(document)
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            rows = ",\n  ".join(_line(item) for item in value)
            parts.append(f"{_line(key)}: [\n  {rows}\n ]")
        else:
            parts.append(f"{_line(key)}: {_line(value)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def loads(text: str, source: str = "evidence") -> Evidence:
    """Parse and validate. Raises InputError with ``source`` and the place."""
    return from_json(parse_json(text, source, _PROBE_AGAIN), source)


def load(path: Path) -> Evidence:
    """Read one evidence file. Raises InputError with the file and the place in it."""
    return loads(read_text(path, "evidence file", _PROBE_AGAIN), str(path))


def load_folder(folder: Path) -> tuple[tuple[str, Evidence], ...]:
    """Read every ``*.json`` file of a folder, in name order, as (file name, evidence)."""
    return tuple((path.name, load(path)) for path in sorted(folder.glob("*.json")))


def write(evidence: Evidence, path: Path) -> None:
    """Write one evidence file. A reader sees the old file or the new one, never a part.

    Raises InputError where the place cannot be written.
    """
    text = dumps(evidence)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            # mkstemp makes the file private; evidence is meant to be read by others.
            os.fchmod(stream.fileno(), 0o644)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise InputError(f"the evidence file cannot be written: {error.strerror}", place=str(path)) from None


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _validate(evidence: Evidence) -> None:
    try:
        moment = datetime.fromisoformat(evidence.date)
    except ValueError:
        raise MismatchError("$.date", f"{evidence.date!r} is not an ISO 8601 date") from None
    if moment.tzinfo is None:
        raise MismatchError("$.date", f"{evidence.date!r} has no time zone")
    for index, event in enumerate(evidence.events):
        _validate_event(event, f"$.events[{index}]")
    for index, function in enumerate(evidence.sources):
        _validate_source(function, f"$.sources[{index}]")
    seen: set[str] = set()
    for index, record in enumerate(evidence.records):
        path = f"$.records[{index}]"
        if record.id in seen:
            raise MismatchError(f"{path}.id", f"{record.id!r} was used before in this document")
        seen.add(record.id)
        _validate_hazard(record.hazard, path)


def _validate_source(function: RanFunction, path: str) -> None:
    _validate_frames([function], path, "")
    try:
        decode_lines(function.ran)
    except ValueError as error:
        raise MismatchError(f"{path}.ran", str(error)) from None


def _validate_event(event: Event, path: str) -> None:
    _validate_frames([event], path, "")
    _validate_frames(event.stack, path, ".stack[{}]")
    _validate_hazard(event.hazard, path)
    if event.count < 1:
        raise MismatchError(f"{path}.count", "an event was seen at least once")
    for kind, number in event.nodes.items():
        if number < 0:
            raise MismatchError(f"{path}.nodes.{kind}", "a number of nodes is not negative")


def _validate_frames(frames: Iterable[Event | StackFrame | RanFunction], path: str, suffix: str) -> None:
    for index, frame in enumerate(frames):
        place = path + suffix.format(index)
        pure = PurePosixPath(frame.file)
        if pure.is_absolute() or PureWindowsPath(frame.file).is_absolute() or ".." in pure.parts:
            raise MismatchError(f"{place}.file", f"{frame.file!r} is not relative to its named root")
        if frame.line < 0:
            raise MismatchError(f"{place}.line", "a line number is not negative")


def _validate_hazard(hazard: str | None, path: str) -> None:
    if hazard is not None and not _HAZARD.match(hazard):
        raise MismatchError(f"{path}.hazard", f"{hazard!r} is no code (CAP101)")
