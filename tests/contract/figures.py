"""The parts of the guides and of the README that say what was measured, made from the committed evidence.

``python -m tests.contract.figures`` prints them; ``--write`` puts them in their places. A test compares.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from capaudit.contract.documents import load
from capaudit.contract.gate_p import judge_gate_p
from capaudit.contract.gate_p_evidence import GATE_P_SCHEMA, GatePEvidence
from capaudit.contract.gate_s import judge_gate_s
from capaudit.contract.gate_s_documents import load_gate_s
from capaudit.contract.verdicts import GateVerdict
from capaudit.evidence import load as load_record
from capaudit.probe.gates.control_table import render

ROOT = Path(__file__).resolve().parents[2]
GATES = ROOT / "rules" / "evidence" / "contract"
CONTROLS = ROOT / "rules" / "evidence" / "controls-mjwarp-collector.json"


def verdicts() -> tuple[GateVerdict, GateVerdict]:
    """Judge the committed evidence of Gate S and of Gate P."""
    semantics = judge_gate_s(load_gate_s(GATES / "gate-s.json"))
    measured = load(GatePEvidence, GATES / "gate-p.json", GATE_P_SCHEMA, "Gate P evidence")
    return semantics, judge_gate_p(measured, semantics)


def gates() -> list[str]:
    """Return the table of the two gates: one line for each arm."""
    semantics, throughput = verdicts()
    baselines = [figure.baseline for figure in throughput.arms[0].figures]
    lines = [
        f"| arm | Gate S | Gate P | whole-tick graph | {' | '.join(f'against `{name}`' for name in baselines)} |",
        "|---|---|---|" + "--:|" * (1 + len(baselines)),
    ]
    for arm in throughput.arms:
        before = semantics.arm(arm.arm)
        cells = [arm.arm, before.verdict if before else "not reached", arm.verdict]
        cells.append(f"{arm.figures[0].candidate_rate:,.0f}")
        cells += [f"{figure.baseline_rate:,.0f} ({100 * figure.gain:+.1f} %)" for figure in arm.figures]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def machine() -> list[str]:
    """Return the line that names what ran where."""
    evidence = load_gate_s(GATES / "gate-s.json")
    semantics, throughput = verdicts()
    found = evidence.arms[0].manifests["graph"].software
    gpu = load_record(CONTROLS).environment.gpu
    return [
        f"{gpu}, {evidence.date[:10]}, {evidence.workload.worlds:,} worlds; driver {found.driver}, CUDA {found.cuda}, "
        f"torch {found.torch},",
        f"Warp {found.warp}, MuJoCo {found.mujoco}, MuJoCo Warp {found.mujoco_warp}; "
        f"commit `{evidence.git_head[:12]}`, evidence `{semantics.evidence_sha256[:12]}`",
        f"(Gate S) and `{throughput.evidence_sha256[:12]}` (Gate P).",
    ]


def controls() -> list[str]:
    """Return the table of the negative controls."""
    return list(render(load_record(CONTROLS)))


# Where each part stands: how its first line begins and how many lines it may take are known from the part itself.
PLACES: tuple[tuple[str, Callable[[], list[str]], str], ...] = (
    ("rules/guides/contract.md", gates, r"\| arm \| Gate S .*\n(?:\|.*\n)+"),
    ("rules/guides/contract.md", machine, r"NVIDIA .*\n(?:.+\n)+"),
    ("rules/guides/controls.md", controls, r"\| hazard \| audit .*\n(?:\|.*\n)+"),
    ("README.md", gates, r"\| arm \| Gate S .*\n(?:\|.*\n)+"),
)


def current(name: str, pattern: str) -> list[str]:
    """Return the lines that stand in a document now. Raises AssertionError where there are none."""
    found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))
    assert found is not None, f"{name} has no part like {pattern!r}"
    return found[0].splitlines()


def write(name: str, part: Callable[[], list[str]], pattern: str) -> None:
    """Put a part in its place."""
    path = ROOT / name
    text = "\n".join(part()) + "\n"
    path.write_text(re.sub(pattern, lambda _: text, path.read_text(encoding="utf-8"), count=1), encoding="utf-8")


def main() -> int:
    for name, part, pattern in PLACES:
        if "--write" in sys.argv[1:]:
            write(name, part, pattern)
        else:
            sys.stdout.write("\n".join((name, *part(), "")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
