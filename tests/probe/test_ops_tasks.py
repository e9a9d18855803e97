"""Reading what a child of the operator sweep left behind: every sample gets one outcome, and none is lost."""

from typing import Any

from capaudit.evidence import JsonObject
from capaudit.probe.child import ChildResult
from capaudit.probe.ops_tasks import read_outcomes

TASK: JsonObject = {
    "samples": 3,
    "entries": [{"id": name, "subject": name, "operator": i, "first": 0} for i, name in enumerate(("sin", "eq", "lu"))],
}
OK = {"measured": {"outcome": "ok"}}
FAILS = {"measured": {"outcome": "fails"}}


def at(entry: int, sample: int | None = None) -> JsonObject:
    if sample is None:
        return {"entry": entry, "stage": "setup"}
    return {"entry": entry, "sample": sample, "input": f"sample {sample}"}


def read(*lines: Any, alive: bool = True) -> tuple[list[tuple[Any, Any, Any]], list[tuple[Any, Any]]]:
    ended = ChildResult(
        status="completed" if alive else "killed",
        result={} if alive else None,
        partial=lines,
        error=None,
        message="" if alive else "operators was ended by SIGSEGV",
        stderr_tail="",
        exit_code=0,
        seconds=1.0,
    )
    outcomes, rest = read_outcomes(TASK, ended)
    measured = [(outcome["id"], outcome["sample"], outcome["outcome"]) for outcome in outcomes]
    return measured, [(entry["id"], entry["first"]) for entry in rest]


def test_a_child_that_measured_everything_leaves_nothing() -> None:
    outcomes, rest = read(at(0), at(0, 0), OK, at(0, 1), OK, at(1), at(1, 0), OK, at(2), at(2, 0), OK)
    assert outcomes == [("sin", 0, "ok"), ("sin", 1, "ok"), ("eq", 0, "ok"), ("lu", 0, "ok")]
    assert rest == []


def test_after_a_failure_the_rest_goes_to_another_child() -> None:
    outcomes, rest = read(at(0), at(0, 0), OK, at(1), at(1, 0), OK, at(1, 1), FAILS)
    assert outcomes[-1] == ("eq", 1, "fails")
    assert rest == [("eq", 2), ("lu", 0)]


def test_a_failure_of_the_last_sample_leaves_the_other_operators() -> None:
    assert read(at(0), at(0, 2), FAILS)[1] == [("eq", 0), ("lu", 0)]


def test_an_unsupported_operator_does_not_stop_the_child() -> None:
    outcomes, rest = read(at(0), {"measured": {"outcome": "not-run"}}, at(1), at(1, 0), OK, at(2), at(2, 0), OK)
    assert outcomes[0] == ("sin", 0, "not-run")
    assert rest == []


def test_death_in_a_capture_is_the_failure_of_that_sample() -> None:
    outcomes, rest = read(at(0), at(0, 0), OK, at(0, 1), {"stage": "capture"}, alive=False)
    assert outcomes == [("sin", 0, "ok"), ("sin", 1, "fails")]
    assert rest == [("sin", 2), ("eq", 0), ("lu", 0)]


def test_death_while_samples_are_made_is_not_tried_again() -> None:
    outcomes, rest = read(at(0), alive=False)
    assert outcomes == [("sin", 0, "broken")]
    assert rest == [("eq", 0), ("lu", 0)]


def test_death_between_two_samples_loses_nothing() -> None:
    outcomes, rest = read(at(0), at(0, 0), OK, alive=False)
    assert outcomes == [("sin", 0, "ok")]
    assert rest == [("sin", 1), ("eq", 0), ("lu", 0)]
