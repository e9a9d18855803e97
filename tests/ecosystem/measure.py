"""One audit in a process of its own, so that a hang or a crash of one run leaves the others alone."""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .packages import Package

DISCOVERY = "discovery"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one audit found.

    ``places`` maps a file to its codes and their lines; ``causes`` ranks what would settle unresolved calls.
    """

    boundaries: int = 0
    functions: int = 0
    calls: int = 0
    operations: int = 0
    unresolved: int = 0
    classes: dict[str, int] = field(default_factory=dict)
    hazards: dict[str, int] = field(default_factory=dict)
    confidence: dict[str, int] = field(default_factory=dict)
    places: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    causes: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0
    failure: str = ""

    @property
    def share(self) -> float:
        """Unresolved calls per reachable call."""
        return self.unresolved / self.calls if self.calls else 0.0


def runs(package: Package) -> dict[str, tuple[str, ...]]:
    """Return the runs of a package by name; the one without entries leaves the boundaries to discovery."""
    found = dict(package.entries)
    if package.discovery:
        found[DISCOVERY] = ()
    return found


def measure(package: Package, entries: tuple[str, ...], cache: Path, limit: float) -> Measurement:
    """Audit once, in a child that is stopped after ``limit`` seconds; a failure says where the child was."""
    request = {
        "base": str(cache / package.base),
        "roots": [str(cache / root) for root in package.roots],
        "entries": list(entries),
        "limit": limit,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.ecosystem.measure"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=limit + 30,
            env=os.environ | {"PYTHONHASHSEED": "0"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Measurement(failure=f"did not end within {limit:.0f} s")
    if done.returncode != 0:
        return Measurement(failure=_last_words(done.stderr) or f"exit status {done.returncode}")
    return measurement_from(json.loads(done.stdout))


def measurement_from(document: dict[str, Any]) -> Measurement:
    """Return a measurement from its JSON form."""
    known = dict(document)
    known["causes"] = [(int(count), str(cause)) for count, cause in known.get("causes", [])]
    return Measurement(**known)


def _last_words(stderr: str) -> str:
    """The innermost frames of a fault handler's dump or a traceback, as one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    if lines and lines[0].startswith("Timeout"):
        return "; ".join([lines[0].rstrip("!"), *lines[2:8]])
    return lines[-1] if lines else ""


def _child() -> None:
    request = json.load(sys.stdin)
    faulthandler.dump_traceback_later(request["limit"], exit=True)
    from capaudit.audit import AuditOptions, audit

    base = Path(request["base"])
    os.chdir(base)
    result = audit(
        AuditOptions(
            paths=tuple(Path(root) for root in request["roots"]),
            entries=tuple(request["entries"]),
            working_directory=base,
        )
    )
    places: dict[str, dict[str, set[int]]] = {}
    for finding in result.findings:
        places.setdefault(finding.place.file, {}).setdefault(finding.code, set()).add(finding.place.line)
    causes = Counter(call.settle for call in result.unresolved)
    statistics = result.statistics
    measurement = Measurement(
        boundaries=len(result.boundaries),
        functions=statistics.functions_reachable,
        calls=statistics.calls,
        operations=statistics.operations,
        unresolved=statistics.unresolved,
        classes={name: count for name, count in sorted(statistics.by_class.items()) if count},
        hazards=dict(sorted(Counter(f.code for f in result.findings).items())),
        confidence=dict(sorted(Counter(f.confidence.value for f in result.findings).items())),
        places={
            file: {code: sorted(lines) for code, lines in sorted(codes.items())}
            for file, codes in sorted(places.items())
        },
        causes=[(count, cause) for cause, count in causes.most_common(8)],
        seconds=round(statistics.seconds, 2),
    )
    json.dump(asdict(measurement), sys.stdout)


if __name__ == "__main__":
    _child()
