"""Score the audit on small programs with a known outcome.

``python -m tests.score.cases FOLDER [--verbose]``: the folder holds the programs and ``expected.json``
(entry, lines, alternative lines, kinds). A faulty program counts when a finding stands on an expected
line with a hazard of an acceptable kind; a safe one when nothing is found.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capaudit.audit import AuditOptions, audit
from capaudit.model import Finding

KINDS: dict[str, tuple[str, ...]] = {
    "d2h-transfer": ("CAP101", "CAP102"),
    "host-sync": ("CAP101", "CAP102", "CAP104", "CAP105"),
    "data-dependent-branch": ("CAP101", "CAP202"),
    "dynamic-shape": ("CAP201",),
    "h2d-transfer": ("CAP103",),
    "frozen-host-state": ("CAP501",),
    "rng": ("CAP502",),
    "stale-address": ("CAP304",),
    "capture-allocation": ("CAP301", "CAP302", "CAP303"),
    "lazy-init": ("CAP503", "CAP301"),
    "nested-capture": ("CAP401",),
    "stream-ordering": ("CAP402", "CAP403"),
    "backend-private": ("CAP601",),
    "transient-warp-allocation": ("CAP302",),
    "conditional-allocation": ("CAP303",),
    "free-during-capture": ("CAP305",),
    "model-mutation": ("CAP603",),
    "silent-fallback": ("CAP604",),
    "transport": ("CAP602",),
}


@dataclass(frozen=True, slots=True)
class CaseScore:
    """One program's outcome; ``place``: a finding stands on an expected line, ``kind``: its hazard fits."""

    file: str
    kind: str
    safe: bool
    place: bool
    hazard: bool
    findings: tuple[str, ...]

    @property
    def right(self) -> bool:
        return not self.findings if self.safe else self.place and self.hazard


def score_case(folder: Path, case: dict[str, Any]) -> CaseScore:
    """Audit one program and compare."""
    file = folder / case["file"]
    options = AuditOptions(paths=(file,), entries=(f"{file}:{case['entry']}",), working_directory=folder)
    findings = [f for f in audit(options).findings if f.hazard is not None]
    lines = {*case["lines"], *case["alt_lines"]}
    codes = {code for kind in (case["kind"], *case["alt_kinds"]) for code in KINDS.get(kind, ())}
    on_line = [f for f in findings if any(f.statement.line <= line <= f.statement.end_line for line in lines)]
    return CaseScore(
        case["file"],
        case["kind"],
        not case["lines"],
        bool(on_line),
        any(f.code in codes for f in on_line),
        tuple(_shown(f) for f in findings),
    )


def _shown(finding: Finding) -> str:
    return f"{finding.place.line} {finding.code} {finding.confidence}"


def score_folder(folder: Path) -> list[CaseScore]:
    document = json.loads((folder / "expected.json").read_text())
    cases = document["cases"] if isinstance(document, dict) else document
    return [score_case(folder.absolute(), case) for case in cases]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    scores = score_folder(arguments.folder)
    for score in scores:
        if not score.right or arguments.verbose:
            print(f"{'right' if score.right else 'WRONG'}  {score.file} ({score.kind}): {list(score.findings)}")
    faulty = [s for s in scores if not s.safe]
    safe = [s for s in scores if s.safe]
    print(
        f"faulty: {sum(s.right for s in faulty)} of {len(faulty)} right, {sum(s.place for s in faulty)} on an "
        "expected line; "
        f"safe: {sum(s.right for s in safe)} of {len(safe)} silent"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
