"""The last accepted run: what is kept of it, and how a new run differs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .measure import Measurement, measurement_from

FILE = Path(__file__).with_name("accepted.json")
SCHEMA = "capaudit-ecosystem/1"

# Wall time belongs to a machine, the ranked causes to the reader of one run: neither is accepted.
_VOLATILE = ("seconds", "causes", "failure")
_COUNTS = ("boundaries", "functions", "calls", "operations", "unresolved")


def load(file: Path = FILE) -> dict[str, Measurement]:
    """Return the accepted measurements by ``package/run``; none where there is no file yet."""
    if not file.is_file():
        return {}
    return {name: measurement_from(document) for name, document in json.loads(file.read_text())["runs"].items()}


def save(measurements: dict[str, Measurement], file: Path = FILE) -> None:
    """Write the measurements, one source file per line, so that a change of the engine is a readable change here."""
    runs = {name: _kept(measurement) for name, measurement in sorted(measurements.items())}
    file.write_text(_layout({"schema": SCHEMA, "runs": runs}, 0) + "\n")


def _kept(measurement: Measurement) -> dict[str, Any]:
    return {key: value for key, value in asdict(measurement).items() if key not in _VOLATILE}


def _layout(value: Any, depth: int) -> str:
    """JSON with a line per entry down to what belongs to one source file."""
    if not isinstance(value, dict) or not value or depth == 4:
        return json.dumps(value)
    inner = "  " * (depth + 1)
    lines = [f"{inner}{json.dumps(key)}: {_layout(item, depth + 1)}" for key, item in value.items()]
    return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"


def differences(old: Measurement, new: Measurement) -> list[str]:
    """Return what changed, counts first, then every finding that appeared or vanished."""
    if new.failure:
        return [f"failed: {new.failure}"]
    lines = [
        f"{name} {getattr(old, name)} -> {getattr(new, name)}"
        for name in _COUNTS
        if getattr(old, name) != getattr(new, name)
    ]
    for title, before, after in (
        ("class", old.classes, new.classes),
        ("findings", old.hazards, new.hazards),
        ("confidence", old.confidence, new.confidence),
    ):
        for key in sorted(before.keys() | after.keys()):
            if before.get(key, 0) != after.get(key, 0):
                lines.append(f"{title} {key} {before.get(key, 0)} -> {after.get(key, 0)}")
    was, now = _flat(old), _flat(new)
    lines.extend(f"- {place}" for place in sorted(was - now))
    lines.extend(f"+ {place}" for place in sorted(now - was))
    return lines


def _flat(measurement: Measurement) -> set[str]:
    return {
        f"{file}:{line} {code}"
        for file, codes in measurement.places.items()
        for code, lines in codes.items()
        for line in lines
    }
