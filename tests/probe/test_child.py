"""Every way in which a child can end gives one clear result and keeps what was already reported."""

import os
import time
from pathlib import Path

import pytest

from capaudit.evidence import JsonObject
from capaudit.probe.child import ChildFailureError, ChildJob, ChildResult, first_error, run_child, run_children

MODULE = "tests.probe.child_samples"
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[2])}


def run(do: str, timeout: float = 30, **more: str) -> ChildResult:
    return run_child(MODULE, {"do": do, **more}, timeout, environment=ENVIRONMENT)


def test_a_child_returns_its_result() -> None:
    ended = run("echo", value="ü\n" * 50_000)
    assert ended.status == "completed"
    assert ended.require() == {"echo": "ü\n" * 50_000}
    assert ended.partial == ({"step": 1},)


def test_the_target_may_print() -> None:
    ended = run("print", value="x")
    assert ended.require() == {"echo": "x"}
    assert "target output" in ended.stderr_tail


def test_a_raising_child_names_the_first_error() -> None:
    ended = run("raise")
    assert ended.status == "raised"
    assert ended.error is not None
    assert (ended.error.first_kind, ended.error.first_message) == ("ValueError", "the first error")
    assert (ended.error.kind, ended.error.message) == ("RuntimeError", "the later error")
    assert ended.partial == ({"step": 1},)
    with pytest.raises(ChildFailureError, match="the first error"):
        ended.require()


def test_a_hanging_child_is_stopped_at_its_time_limit() -> None:
    begin = time.monotonic()
    ended = run("hang", timeout=1.5)
    assert time.monotonic() - begin < 15
    assert ended.status == "timed-out"
    assert "1.5 s" in ended.message
    assert "about to hang" in ended.stderr_tail
    assert ended.partial == ({"step": 1},)


def test_a_killed_child_is_told_apart() -> None:
    ended = run("be killed")
    assert ended.status == "killed"
    assert "SIGKILL" in ended.message
    assert ended.partial == ({"step": 1},)


def test_running_out_of_memory_is_told_apart() -> None:
    ended = run("memory")
    assert ended.status == "out-of-memory"
    assert "Tried to allocate" in ended.message


def test_an_exit_without_a_result_is_no_success() -> None:
    ended = run("exit")
    assert (ended.status, ended.exit_code) == ("no-result", 7)


def test_a_line_cut_off_by_death_is_dropped() -> None:
    ended = run("cut line")
    assert ended.status == "no-result"
    assert ended.partial == ({"step": 1},)


def test_a_module_that_does_not_start_is_no_success() -> None:
    ended = run_child("tests.probe.no_such_module", {}, 30, environment=ENVIRONMENT)
    assert ended.status == "no-result"
    assert "no_such_module" in ended.stderr_tail


def test_what_the_child_started_ends_with_it() -> None:
    sleeper = run("orphan").require()["sleeper"]
    assert isinstance(sleeper, int)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _is_running(sleeper):
        time.sleep(0.02)
    assert not _is_running(sleeper)


def test_partial_results_arrive_while_the_child_runs() -> None:
    seen: list[JsonObject] = []
    run_child(MODULE, {"do": "echo"}, 30, environment=ENVIRONMENT, on_partial=seen.append)
    assert seen == [{"step": 1}]


def test_several_children_keep_the_order_of_their_jobs() -> None:
    names = ["echo", "raise", "exit", "echo"]
    jobs = [ChildJob(MODULE, {"do": name, "value": i}, 30, ENVIRONMENT) for i, name in enumerate(names)]
    ended = list(run_children(jobs, workers=2))
    assert [child.status for child in ended] == ["completed", "raised", "no-result", "completed"]
    assert ended[3].result == {"echo": 3}


def test_the_first_error_of_a_circular_chain_is_found() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__context__, two.__context__ = two, one
    assert first_error(one) is two


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    # A killed process whose parent is gone may stay as a zombie where nothing reaps it.
    return not (state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z")
