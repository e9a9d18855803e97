"""The guide: its program runs, and what it cites exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from capaudit.contract import INVALIDATION_REASONS
from capaudit.contract.documents import load
from capaudit.contract.gate_p import judge_gate_p
from capaudit.contract.gate_p_evidence import GATE_P_SCHEMA, ITERATIONS, REPEATS, TAIL, GatePEvidence
from capaudit.contract.gate_s import judge_gate_s
from capaudit.contract.gate_s_documents import load_gate_s
from capaudit.contract.gate_words import MAX_TOLERANCE

RULES = Path(__file__).resolve().parents[2] / "rules"
GUIDE = (RULES / "guides" / "contract.md").read_text(encoding="utf-8")


def test_the_program_of_the_guide_runs_as_it_stands() -> None:
    pytest.importorskip("torch")
    program = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert program is not None
    names: dict[str, Any] = {"__name__": "collector"}
    exec(compile(program[1], "contract.md", "exec"), names)
    assert names["life"].snapshot().rehearsal
    assert names["rng"].evidence().draw_version == 6


def test_every_piece_of_evidence_that_the_guide_cites_is_there_with_the_outcome_it_says() -> None:
    records = json.loads((RULES / "evidence" / "matrix-mjwarp.json").read_text(encoding="utf-8"))["records"]
    outcomes = {record["id"]: record["outcome"] for record in records}
    cited = re.findall(r"`([a-z-]+@[\d.]+)`", GUIDE)
    assert len(cited) >= 8
    failing, passing = GUIDE.split("**What passes.**")
    for identifier in cited:
        other = identifier.replace("3.11.0", "4.0.0")
        assert outcomes[identifier] == outcomes[other]
        assert (outcomes[identifier] == "ok") is (f"`{identifier}`" in passing), identifier
        assert (f"`{identifier}`" in failing) is not (f"`{identifier}`" in passing)


def test_the_numbers_of_the_guide_are_those_of_the_contract() -> None:
    assert f"{REPEATS} paired repeats, {ITERATIONS} iterations" in GUIDE
    assert f"last {TAIL}" in GUIDE
    assert f"at most {MAX_TOLERANCE:g}".replace("0.0001", "1e-4") in GUIDE
    assert all(f"`{reason}`" in GUIDE for reason in INVALIDATION_REASONS)


COMMITTED = sorted((RULES / "evidence" / "contract").glob("*.json"))


def test_committed_gate_evidence_loads_and_is_judged() -> None:
    semantics = {path: load_gate_s(path) for path in COMMITTED if path.name.startswith("gate-s")}
    for path, evidence in semantics.items():
        assert judge_gate_s(evidence).arms, path.name
    for path in COMMITTED:
        if path.name.startswith("gate-p"):
            evidence = load(GatePEvidence, path, GATE_P_SCHEMA, "Gate P evidence")
            heads = {item.git_head: judge_gate_s(item) for item in semantics.values()}
            assert judge_gate_p(evidence, heads.get(evidence.registration.git_head)).arms, path.name
