"""Nobody can tell from the results how many processes there were."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from capaudit.model import InputError
from capaudit.program.workers import AVAILABLE, WorkerError, spread

FORKS = pytest.mark.skipif(not AVAILABLE, reason="needs fork")


def often(do: Callable[[int], object]) -> None:
    """Spread many tasks, again and again: this process may have been quick enough to take all of them."""
    for _ in range(50):
        spread(range(2000), do, 2)


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_results_come_in_the_order_of_the_tasks(workers: int) -> None:
    assert spread(range(500), lambda number: number * number, workers) == [number * number for number in range(500)]


@FORKS
def test_several_processes_take_part_and_tell_what_they_did() -> None:
    told: list[int] = []
    reader, writer = os.pipe()

    def wait_for_the_other(number: int) -> int:
        """Task 0 ends when task 1 has begun, so that one process cannot take both."""
        if number == 0:
            os.read(reader, 1)
        else:
            os.write(writer, b"x")
        return os.getpid()

    processes = spread([0, 1], wait_for_the_other, 2, os.getpid, told.append)
    assert sorted(processes) == sorted([os.getpid(), *told])


def test_one_task_starts_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a worker was started"))
    assert spread([3], str, 8) == ["3"]
    assert spread([], str, 8) == []


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_the_first_task_that_fails_is_the_one_that_is_told_of(workers: int) -> None:
    def fail(number: int) -> int:
        if number >= 7:
            raise InputError(f"task {number}", remedy="none")
        return number

    with pytest.raises(InputError, match="task 7"):
        spread(range(100), fail, workers)


@FORKS
def test_a_worker_that_is_killed_is_one_clear_error() -> None:
    first = os.getpid()

    def die(_: int) -> int:
        if os.getpid() != first:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    with pytest.raises(WorkerError, match=r"killed by signal 9[\s\S]*--jobs 1"):
        often(die)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # nobody is left behind


@FORKS
def test_what_cannot_be_handed_over_is_an_error_and_no_silence(capfd: pytest.CaptureFixture[str]) -> None:
    first = os.getpid()
    with pytest.raises(WorkerError):
        often(lambda _: None if os.getpid() == first else lambda: None)
    assert "a worker failed" in capfd.readouterr().err


@FORKS
def test_an_interruption_leaves_no_worker_behind() -> None:
    first = os.getpid()

    def interrupted(_: int) -> None:
        if os.getpid() == first:
            raise KeyboardInterrupt
        signal.pause()

    with pytest.raises(KeyboardInterrupt):
        often(interrupted)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
