"""``capaudit contract``: verdicts, exit statuses, and one clear error for whatever is handed in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from capaudit.contract.candidate_documents import CANDIDATE_SCHEMA
from capaudit.contract.documents import dumps
from capaudit.contract.gate_p_evidence import GATE_P_SCHEMA
from capaudit.contract.gate_s_evidence import GATE_S_SCHEMA
from capaudit.contract.manifest import SCHEMA
from capaudit.evidence.decoding import encode_whole
from tests.contract.samples import (
    LAYOUT,
    capabilities,
    carriers,
    gate_p_evidence,
    gate_s_evidence,
    manifest,
)

Run = Callable[..., Any]


def save(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return name


def candidate_document(**changes: Any) -> dict[str, Any]:
    declared: Any = encode_whole(capabilities())
    declared.pop("unknown")
    return {
        "schema": CANDIDATE_SCHEMA,
        "boundary": {"name": "tick", "entry": "robots.env:Env.step", "capture": "shared", "inputs": ["action"]},
        "capabilities": declared,
        "carriers": encode_whole(carriers().carriers),
        "layout": encode_whole(LAYOUT),
        **changes,
    }


def candidate(folder: Path, **changes: Any) -> str:
    return save(folder, "candidate.json", json.dumps(candidate_document(**changes)))


def changed_capabilities(**changes: Any) -> dict[str, Any]:
    return {**candidate_document()["capabilities"], **changes}


@pytest.fixture
def gates(folder: Path) -> Path:
    save(folder, "gate-s.json", dumps(gate_s_evidence(), GATE_S_SCHEMA))
    save(folder, "gate-p.json", dumps(gate_p_evidence(), GATE_P_SCHEMA))
    return folder


# -- preflight ----------------------------------------------------------------------------------------------------


def test_a_supported_candidate_is_status_0_and_still_evidence_only(run: Run, folder: Path) -> None:
    outcome = run("contract", "preflight", candidate(folder))
    assert (outcome.status, outcome.err) == (0, "")
    assert "tick (robots.env:Env.step): supported" in outcome.out
    assert "claim: evidence only" in outcome.out


def test_an_unsupported_candidate_is_status_1_with_every_reason(run: Run, folder: Path) -> None:
    declared = changed_capabilities(stepping=False, everything=True)
    del declared["generators"]
    outcome = run("contract", "preflight", candidate(folder, capabilities=declared), "--output", "json")
    assert outcome.status == 1
    verdict = json.loads(outcome.out)
    assert verdict["schema"] == "capaudit-preflight/1"
    assert verdict["supported"] is False
    assert {(reason["code"], reason["subject"]) for reason in verdict["reasons"]} == {
        ("capability-absent", "stepping"),
        ("capability-unknown", "everything"),
        ("capability-missing", "generators"),
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"boundary": {"name": "tick", "entry": "a:b", "k": 2}}, "k = 2"),
        ({"boundary": {"name": "tick", "entry": "a:b", "k": True}}, "an integer"),
        ({"boundary": {"name": "tick", "entry": "a:b", "speculative": True}}, "speculative"),
        ({"boundary": {"name": "tick", "entry": "a:b", "action-sequence": True}}, "action sequence"),
        ({"boundary": {"entry": "a:b"}}, "'name' is missing"),
        ({"boundary": {"name": "tick", "entry": "a:b", "owner": "x"}}, "unknown key 'owner'"),
        ({"boundary": None}, "expected an object"),
        ({"capabilities": []}, "expected an object"),
        ({"capabilities": changed_capabilities(stepping=1)}, "$.capabilities.stepping"),
        ({"capabilities": changed_capabilities(stream={"name": "s", "id": -1})}, "$.capabilities.stream.id"),
        ({"capabilities": changed_capabilities(stream={"name": "s"})}, "'id' is missing"),
        ({"capabilities": changed_capabilities(masked_reset="partial")}, "expected one of"),
        ({"carriers": {}}, "expected an array"),
        ({"carriers": [{"name": "x"}]}, "$.carriers[0]"),
        ({"layout": [{"name": "x"}]}, "$.layout[0]"),
        ({"carriers": encode_whole(carriers().carriers[:1] * 2)}, "two carriers are named"),
        ({"extra": 1}, "unknown key 'extra'"),
        ({"schema": "capaudit-evidence/1"}, "capaudit-evidence/1"),
    ],
)
def test_a_malformed_candidate_is_one_error_and_status_2(
    run: Run, folder: Path, changes: dict[str, Any], message: str
) -> None:
    outcome = run("contract", "preflight", candidate(folder, **changes))
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("capaudit: error: ")
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def program(folder: Path, step: str = "step") -> None:
    (folder / "robots").mkdir()
    save(folder, "robots/env.py", f"class Env:\n    def {step}(self):\n        self.x = 1\n")


CONFIGURED = '[tool.capaudit]\npaths = ["robots"]\n[[tool.capaudit.boundary]]\nname = "tick"\nentry = "env:Env.step"\n'


def test_a_boundary_may_be_named_and_is_then_the_configured_one(run: Run, folder: Path) -> None:
    program(folder)
    save(folder, "pyproject.toml", CONFIGURED)
    outcome = run("contract", "preflight", candidate(folder, boundary="tick"))
    assert outcome.status == 0
    assert "boundary tick (env:Env.step)" in outcome.out
    unknown = run("contract", "preflight", candidate(folder, boundary="tock"))
    assert unknown.status == 2
    assert "tock" in unknown.err
    assert "tick" in unknown.err


def test_an_entry_that_does_not_resolve_is_an_error(run: Run, folder: Path) -> None:
    program(folder, step="advance")
    save(folder, "pyproject.toml", CONFIGURED)
    for boundary in ("tick", {"name": "tick", "entry": "env:Env.step"}):
        outcome = run("contract", "preflight", candidate(folder, boundary=boundary), "robots")
        assert outcome.status == 2
        assert "CAP904" in outcome.err


# -- manifests ----------------------------------------------------------------------------------------------------


def test_valid_manifests_are_status_0(run: Run, folder: Path) -> None:
    one = save(folder, "one.json", dumps(manifest(), SCHEMA))
    two = save(folder, "two.json", dumps(manifest("eager"), SCHEMA))
    outcome = run("contract", "manifest", "validate", one, two)
    assert (outcome.status, outcome.err) == (0, "")
    assert "one.json: valid; mode graph, state ready, enabled, capture capture-1" in outcome.out
    assert "disabled: mode is eager" in outcome.out
    as_json = json.loads(run("contract", "manifest", "validate", one, two, "--output", "json").out)
    assert [row["file"] for row in as_json["manifests"]] == ["one.json", "two.json"]
    assert as_json["claim"] == "evidence only"


def test_every_malformed_manifest_is_an_error_of_its_own_and_the_valid_ones_are_still_shown(
    run: Run, folder: Path
) -> None:
    good = save(folder, "good.json", dumps(manifest(), SCHEMA))
    cut = save(folder, "cut.json", dumps(manifest(), SCHEMA)[:300])
    extra = save(folder, "extra.json", dumps(manifest(), SCHEMA).replace('"worlds"', '"worlds_"'))
    outcome = run("contract", "manifest", "validate", cut, good, extra)
    assert outcome.status == 2
    assert "good.json: valid" in outcome.out
    assert outcome.err.count("capaudit: error: ") == 2
    assert "cut.json" in outcome.err
    assert "worlds_" in outcome.err


def test_the_printed_schema_is_a_schema_and_takes_a_manifest(run: Run) -> None:
    schema = json.loads(run("contract", "manifest", "schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(dumps(manifest(), SCHEMA)), schema)


# -- gates --------------------------------------------------------------------------------------------------------


def test_gate_s_says_not_reached_where_an_arm_was_not_run(run: Run, gates: Path) -> None:
    outcome = run("contract", "gate-s", "gate-s.json")
    assert outcome.status == 1
    assert "null arm: pass" in outcome.out
    assert "mps arm: not reached" in outcome.out
    assert "the MPS daemon cannot be started" in outcome.out
    assert "Gate S: not reached" in outcome.out
    assert "claim: evidence only" in outcome.out


def test_gate_s_may_be_asked_for_one_arm(run: Run, gates: Path) -> None:
    assert run("contract", "gate-s", "gate-s.json", "--arm", "null").status == 0
    assert run("contract", "gate-s", "gate-s.json", "--arm", "mps").status == 1


def test_gate_s_writes_a_receipt(run: Run, gates: Path) -> None:
    run("contract", "gate-s", "gate-s.json", "--output", "json:receipt.json")
    receipt = json.loads((gates / "receipt.json").read_text())
    assert (receipt["schema"], receipt["gate"], receipt["verdict"]) == ("capaudit-gate/1", "S", "not reached")
    assert [arm["verdict"] for arm in receipt["arms"]] == ["pass", "not reached"]
    assert len(receipt["evidence_sha256"]) == 64


def test_a_failing_gate_is_status_1_and_names_what_failed_first(run: Run, folder: Path) -> None:
    evidence = gate_s_evidence()
    stale = replace(evidence, orderings=tuple(replace(item, stale=2) for item in evidence.orderings))
    outcome = run("contract", "gate-s", save(folder, "s.json", dumps(stale, GATE_S_SCHEMA)))
    assert outcome.status == 1
    lines = outcome.out.splitlines()
    assert lines[2] == "null arm: fail"
    assert lines[3].split()[0] == "fail"
    assert "2 stale" in lines[3]


def test_the_audits_of_a_check_replace_those_of_the_evidence(run: Run, gates: Path) -> None:
    audits = [
        {"audit": name, "packages": [name], "functions": 3, "findings": 0, "unresolved": 0}
        for name in ("environment", "backend", "collector")
    ]
    report = {"schema": "capaudit-report/1", "findings": [], "audits": audits}
    clean = save(gates, "clean.json", json.dumps(report))
    assert run("contract", "gate-s", "gate-s.json", "--arm", "null", "--report", clean).status == 0
    audits[1]["findings"] = 1
    faulty = save(gates, "faulty.json", json.dumps(report))
    outcome = run("contract", "gate-s", "gate-s.json", "--arm", "null", "--report", faulty)
    assert outcome.status == 1
    assert "1 findings in backend" in outcome.out
    report["audits"] = []
    none = save(gates, "none.json", json.dumps(report))
    assert "not audited" in run("contract", "gate-s", "gate-s.json", "--report", none).out
    for broken in ({"schema": "capaudit-report/1"}, {"schema": "other", "audits": audits}, []):
        path = save(gates, "broken.json", json.dumps(broken))
        assert run("contract", "gate-s", "gate-s.json", "--report", path).status == 2


def test_gate_p_passes_with_gate_s_and_not_without(run: Run, gates: Path) -> None:
    alone = run("contract", "gate-p", "gate-p.json")
    assert alone.status == 1
    assert "claim: evidence only" in alone.out
    both = run("contract", "gate-p", "gate-p.json", "--gate-s", "gate-s.json")
    assert both.status == 0
    assert "+20.0%" in both.out
    assert "claim: mjwarp:humanoid is supported on the null arm" in both.out
    assert "4,800 against 4,000" in both.out


def test_gate_p_without_a_gain_claims_nothing_and_shows_the_figures(run: Run, gates: Path) -> None:
    rates = {"eager_sync": 500.0, "eager_graph_physics": 4000.0, "graph": 4060.0}
    path = save(gates, "slow.json", dumps(gate_p_evidence(rates), GATE_P_SCHEMA))
    outcome = run("contract", "gate-p", path, "--gate-s", "gate-s.json")
    assert outcome.status == 1
    assert "+1.5%" in outcome.out
    assert "+712.0%" in outcome.out
    assert "claim: evidence only" in outcome.out


def test_a_registration_that_was_changed_in_the_file_voids_the_result(run: Run, gates: Path) -> None:
    document = json.loads((gates / "gate-p.json").read_text())
    document["registration"]["minimum_gain"] = 0.15
    path = save(gates, "changed.json", json.dumps(document))
    outcome = run("contract", "gate-p", path, "--gate-s", "gate-s.json")
    assert outcome.status == 1
    assert "the result is void" in outcome.out


@pytest.mark.parametrize("command", [("gate-s",), ("gate-p",), ("preflight",), ("manifest", "validate")])
def test_whatever_is_handed_in_is_one_clear_error(run: Run, folder: Path, command: tuple[str, ...]) -> None:
    samples = {
        "empty": b"", "cut": b'{"schema": "capaudit-gate', "nan": b'{"schema": NaN}', "deep": b"[" * 50_000,
        "twice": b'{"schema": 1, "schema": 2}', "huge": b'{"schema": ' + b"9" * 9000 + b"}",
        "binary": bytes(range(256)),
        "utf16": '{"schema": "x"}'.encode("utf-16"), "list": b"[]", "other": b'{"schema": "capaudit-report/1"}',
        "bom": b"\xef\xbb\xbf{}", "inf": b'{"schema": 1e999}',
    }  # fmt: skip
    for name, content in samples.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    (folder / "link").symlink_to(folder / "list")
    (folder / "loop").symlink_to("loop")
    for name in (*samples, "folder", "link", "loop", "missing"):
        outcome = run("contract", *command, name)
        assert (outcome.status, outcome.out) == (2, ""), name
        assert outcome.err.startswith("capaudit: error: "), name
        assert name in outcome.err
        assert "Traceback" not in outcome.err
        assert len(outcome.err) < 1000


def test_the_text_output_carries_no_control_characters_from_a_document(run: Run, folder: Path) -> None:
    evidence = gate_s_evidence()
    arms = (evidence.arms[0], replace(evidence.arms[1], reason="no daemon \x1b[31m\nGate S: pass"))
    path = save(folder, "s.json", dumps(replace(evidence, arms=arms), GATE_S_SCHEMA))
    outcome = run("contract", "gate-s", path)
    assert "\x1b" not in outcome.out
    assert "\nGate S: pass" not in outcome.out


def test_the_commands_load_no_framework_and_no_parser(gates: Path) -> None:
    watch = (
        "import sys; from capaudit.cli.main import main; main(sys.argv[1:])\n"
        "heavy = {'torch', 'warp', 'numpy', 'mujoco', 'libcst', 'astroid'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", watch, "contract", "gate-s", "gate-s.json"],
        capture_output=True,
        text=True,
        cwd=gates,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        check=True,
    )
    assert done.stdout.endswith("[]\n")
