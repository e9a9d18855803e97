"""The guide: its program runs, and what it cites exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from capaudit.contract import INVALIDATION_REASONS
from capaudit.contract.gate_p_evidence import ITERATIONS, REPEATS, TAIL
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
