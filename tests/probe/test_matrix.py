from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capaudit.evidence import Record
from capaudit.probe.matrix_questions import QUESTIONS, STATEMENTS, agrees, judge_statements

BY_ID = {question.id: question for question in QUESTIONS}


def answers(**changed: str) -> dict[str, list[Record]]:
    given = {}
    for question in QUESTIONS:
        outcome = changed.get(question.id.replace("-", "_"), question.expected)
        error = " ".join(question.error) if question.expected == outcome else ""
        given[question.id] = [Record(id=f"{question.id}@4.0.0", subject="", outcome=outcome, error=error)]
    return given


def verdicts(given: dict[str, list[Record]]) -> dict[str, str]:
    return {record.id.removeprefix("statement-"): record.outcome for record in judge_statements(given)}


def test_expected_answers_confirm_all_three_statements_and_name_their_evidence() -> None:
    records = judge_statements(answers())
    assert {record.outcome for record in records} == {"confirmed"}
    for statement, record in zip(STATEMENTS, records, strict=True):
        assert all(f"{name}@4.0.0" in record.note for name in statement.questions)


def test_one_contrary_answer_refutes_the_statement_that_rests_on_it() -> None:
    given = answers(nested_warp_graph_in_torch_capture="ok")
    found = verdicts(given)
    assert found["nested-replay-prohibited"] == "refuted"
    assert found["registered-route-captures"] == "confirmed"
    record = judge_statements(given)[0]
    assert record.note == "evidence: nested-warp-graph-in-torch-capture@4.0.0"


def test_a_question_that_did_not_run_leaves_its_statement_not_run() -> None:
    found = verdicts(answers(collector_tick="not run"))
    assert found["registered-route-captures"] == "not run"
    assert found["transient-allocation-invalidates"] == "confirmed"


def test_without_answers_nothing_was_run() -> None:
    assert set(verdicts({}).values()) == {"not run"}


def test_an_answer_has_to_fail_for_the_declared_reason() -> None:
    question = BY_ID["warp-captures-step-without-pool"]
    assert agrees(question, Record(id="x", subject="", outcome="fails", error="memory pools are not enabled"))
    assert not agrees(question, Record(id="x", subject="", outcome="fails", error="something else"))


def test_statements_rest_on_questions_that_exist() -> None:
    assert len(BY_ID) == len(QUESTIONS)
    for statement in STATEMENTS:
        assert set(statement.questions) <= set(BY_ID)
    assert len(STATEMENTS) == 3


def test_an_unknown_question_is_a_usage_error(run: Callable[..., Any]) -> None:
    outcome = run("probe", "matrix", "--question", "nothing")
    assert outcome.status == 2
    assert "No such question" in outcome.err


def test_without_a_device_the_matrix_explains_and_exits_3(run: Callable[..., Any], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("asks what happens without a CUDA device")
    outcome = run("probe", "matrix", "--question", "torch-kept-array", "--output", str(tmp_path / "x.json"))
    assert outcome.status == 3
    assert "sees no CUDA device" in outcome.err
    assert not (tmp_path / "x.json").exists()


def test_the_reference_tick_runs_eagerly_on_warps_cpu_device() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("mujoco_warp")
    from capaudit.probe.matrix_tick import CollectorTick
    from capaudit.probe.targets.humanoid import Humanoid

    tick = CollectorTick(Humanoid(2, "cpu"))
    address = tick.ingress.data_ptr()
    tick.action.fill_(0.5)
    before = tick.position.clone()
    first = tick.step().clone()
    assert tick.ingress.data_ptr() == address
    assert first.shape == (2, tick.observation.shape[1] + 2)
    assert first.isfinite().all()
    assert not tick.position.equal(before)
    tick.position[:, 2] = 0.1
    tick.step()
    # Both worlds lay too low, were reset, and the observation that is handed over is the one after the reset.
    assert tick.done.all()
    assert (tick.position[:, 2] > 0.9).all()
