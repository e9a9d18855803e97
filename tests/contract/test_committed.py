"""The committed evidence of the reference collector: whole, passing, and what the documents say of it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from capaudit.contract.documents import dumps, load
from capaudit.contract.gate_p_evidence import GATE_P_SCHEMA, GatePEvidence
from capaudit.contract.gate_s_documents import load_gate_s
from capaudit.contract.manifest import SCHEMA, RunManifest
from capaudit.evidence import load as load_record
from capaudit.probe.targets.controls import CONTROLS
from tests.contract import figures

RULES = figures.ROOT / "rules"
GUIDE = (RULES / "guides" / "contract.md").read_text(encoding="utf-8")
CONTROLS_GUIDE = (RULES / "guides" / "controls.md").read_text(encoding="utf-8")


def test_both_gates_passed_on_both_arms_for_one_commit_and_one_machine() -> None:
    for verdict in figures.verdicts():
        assert verdict.verdict == "pass"
        assert {arm.arm: arm.verdict for arm in verdict.arms} == {"null": "pass", "mps": "pass"}
    semantics, throughput = figures.verdicts()
    assert semantics.git_head == throughput.git_head
    assert {figure.baseline for figure in throughput.arms[0].figures} == {"eager_sync", "eager_graph_physics"}
    assert load_gate_s(figures.GATES / "gate-s.json").workload.worlds == 2048


@pytest.mark.parametrize("arm", ["null", "mps"])
def test_the_run_manifest_beside_the_gates_is_the_one_that_gate_s_holds(arm: str) -> None:
    path = figures.GATES / f"run-manifest-{arm}-graph.json"
    held = {item.arm: item for item in load_gate_s(figures.GATES / "gate-s.json").arms}[arm].manifests["graph"]  # type: ignore[index]
    assert load(RunManifest, path, SCHEMA, "run manifest") == held
    assert path.read_text(encoding="utf-8") == dumps(held, SCHEMA)
    assert held.enabled
    assert not held.rehearsal


def test_nothing_else_lies_beside_the_gates() -> None:
    names = {path.name for path in figures.GATES.iterdir()}
    assert names == {"gate-s.json", "gate-p.json", "run-manifest-null-graph.json", "run-manifest-mps-graph.json"}


@pytest.mark.parametrize("mode", ["capture", "escape", "replay"])
def test_the_probe_found_the_reference_collector_clean_and_proved_its_detectors(mode: str) -> None:
    found = load_record(RULES / "evidence" / f"run-mjwarp-collector-{mode}-global.json")
    assert found.verdict == "clean"
    assert found.parameters["worlds"] == 2048
    assert found.self_proof
    assert all(proof.seen for proof in found.self_proof)


@pytest.mark.parametrize(
    ("name", "part", "pattern"), figures.PLACES, ids=lambda value: getattr(value, "__name__", None)
)
def test_what_the_documents_say_was_measured_is_what_the_evidence_holds(
    name: str, part: Callable[[], list[str]], pattern: str
) -> None:
    assert figures.current(name, pattern) == part(), "python -m tests.contract.figures --write"


def test_the_figures_in_the_guides_sentences_are_those_of_the_evidence() -> None:
    _, throughput = figures.verdicts()
    gains = [gain for arm in throughput.arms for item in arm.figures if not item.decisive for gain in item.gains]
    assert re.search(r"pairs\s+from (\d+) % to (\d+) %", GUIDE) is not None
    low, high = re.findall(r"pairs\s+from (\d+) % to (\d+) %", GUIDE)[0]
    assert (int(low), int(high)) == (round(100 * min(gains)), round(100 * max(gains)))
    observations = load_gate_s(figures.GATES / "gate-s.json").observations
    largest = max(item.difference or 0.0 for item in observations)
    assert f"captured trajectory was {largest:.1e}." in GUIDE
    registration = load(GatePEvidence, figures.GATES / "gate-p.json", GATE_P_SCHEMA, "Gate P evidence").registration
    assert registration.decisive == ("eager_sync",)
    assert "`eager_sync`, whose managers wait" in GUIDE


def test_every_control_has_its_row_and_a_row_that_disagrees_is_explained_under_the_table() -> None:
    rows = load_record(figures.CONTROLS).records
    assert [row.hazard for row in rows] == sorted(control.code for control in CONTROLS)
    under = CONTROLS_GUIDE[CONTROLS_GUIDE.rindex("\n| ") :].split("\n", 2)[2]
    for row in rows:
        assert row.outcome == "agree" or (row.outcome == "explained" and row.note) or row.hazard in under
        disagrees = re.search(rf"{row.hazard} disagrees in this record", under) is not None
        assert disagrees is (row.outcome == "disagree"), row.hazard
