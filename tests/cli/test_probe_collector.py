"""``capaudit probe collector``: one meaning for each exit status, the same as that of ``capaudit contract``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capaudit.cli.main import main
from capaudit.contract.documents import dumps
from capaudit.contract.gate_s_documents import load_gate_s
from capaudit.contract.gate_s_evidence import GATE_S_SCHEMA, GateSEvidence
from capaudit.evidence import load
from capaudit.model import NoDeviceError

EVIDENCE = Path(__file__).resolve().parents[2] / "rules" / "evidence"
PASSED = load_gate_s(EVIDENCE / "contract" / "gate-s.json")
CONTROLS = load(EVIDENCE / "controls-mjwarp-collector.json")


def failing() -> GateSEvidence:
    first = next(item for item in PASSED.observations if item.trajectory == "graph" and item.field == "rewards")
    others = [item for item in PASSED.observations if item is not first]
    return replace(PASSED, observations=(*others, replace(first, difference=1.0)))


def incomplete() -> GateSEvidence:
    return replace(PASSED, observations=PASSED.observations[:-1])


@pytest.mark.parametrize(
    ("found", "status"), [(PASSED, 0), (failing(), 1), (incomplete(), 1)], ids=["passed", "failed", "not reached"]
)
def test_a_gate_that_is_run_and_one_that_is_judged_later_end_with_the_same_status(
    found: GateSEvidence, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("capaudit.probe.gates.gate_s.gather_gate_s", lambda *_: (found, {}))
    output = tmp_path / "deep" / "gate-s.json"
    assert main(["probe", "collector", "gate-s", "--output", str(output)]) == status
    assert output.read_text(encoding="utf-8") == dumps(found, GATE_S_SCHEMA)
    assert main(["contract", "gate-s", str(output)]) == status


@pytest.mark.parametrize(("verdict", "status"), [("agrees", 0), ("disagrees", 1), ("inconclusive", 1)])
def test_controls_end_with_one_unless_every_row_agrees_or_says_why_not(
    verdict: Any, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replace(CONTROLS, verdict=verdict)
    monkeypatch.setattr("capaudit.probe.gates.control_table.probe_controls", lambda *_: found)
    assert main(["probe", "collector", "controls"]) == status


def test_without_a_device_the_status_is_three(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> None:
        raise NoDeviceError("there is no CUDA device")

    monkeypatch.setattr("capaudit.probe.gates.gate_s.gather_gate_s", nothing)
    assert main(["probe", "collector", "gate-s"]) == 3


def test_bad_input_ends_with_two_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ran(*_: object) -> None:
        raise AssertionError("it ran")

    monkeypatch.setattr("capaudit.probe.gates.gate_s.gather_gate_s", ran)
    monkeypatch.setattr("capaudit.probe.gates.gate_p.register", ran)
    assert main(["probe", "collector", "gate-s", "--output", str(tmp_path)]) == 2
    (tmp_path / "file").write_text("")
    assert main(["probe", "collector", "gate-s", "--output", str(tmp_path / "file" / "gate-s.json")]) == 2
    assert main(["probe", "collector", "controls", "--hazard", "CAP999"]) == 2
    broken = tmp_path / "gate-s.json"
    broken.write_text(json.dumps({"schema": GATE_S_SCHEMA}))
    assert main(["probe", "collector", "gate-p", "--gate-s", str(broken)]) == 2
    assert capsys.readouterr().err.count("rror: ") == 4
