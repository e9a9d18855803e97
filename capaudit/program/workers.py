"""Spread independent tasks over processes, so that nobody can tell from the results how many there were.

Workers are forks: they begin with everything that was read and computed so far, which costs a few milliseconds
where handing it over would cost seconds. This process is one of the workers. Tasks are taken in order, results
come back by number, and of several failures the first task's is raised, as if one process had done them all.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

from capaudit.cache import observation
from capaudit.model import CapauditError

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

AVAILABLE = hasattr(os, "fork") and sys.platform != "darwin"  # macOS libraries do not survive a fork

_MOST = 8
"""Workers beyond which more of them only cost memory."""
_MOST_TASKS = 20_000  # numbers of two bytes in the buffer of a pipe


class WorkerError(CapauditError):
    """A worker process ended before it had an answer."""


class Spread(Protocol):
    """Does tasks in order or beside each other; see ``spread``."""

    def __call__(self, tasks: Sequence[_Task], do: Callable[[_Task], _Result]) -> list[_Result]: ...


def one_by_one(tasks: Sequence[_Task], do: Callable[[_Task], _Result]) -> list[_Result]:
    """Do tasks in this process alone."""
    return [do(task) for task in tasks]


def processors() -> int:
    """Return how many workers are worth having on this machine: the processors that this process may use."""
    if not AVAILABLE:
        return 1
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, _MOST)


def spread(
    tasks: Sequence[_Task],
    do: Callable[[_Task], _Result],
    workers: int,
    leave: Callable[[], Any] = lambda: None,
    take: Callable[[Any], None] = lambda _: None,
) -> list[_Result]:
    """Return what ``do`` makes of each task, in their order.

    ``leave`` says at the end of a worker what else it has to tell, and ``take`` receives it here; results, errors
    and that have to survive pickle. Errors: what ``do`` raises for the first task that fails; ``WorkerError``
    for a worker that was killed.
    """
    count = min(workers, len(tasks)) if AVAILABLE and len(tasks) <= _MOST_TASKS else 1
    if count <= 1:
        return [do(task) for task in tasks]
    queue = _Queue(len(tasks))
    done: dict[int, tuple[bool, Any]] = {}
    others: list[_Worker] = []
    try:
        for _ in range(count - 1):
            others.append(_Worker(lambda: (_work(queue, tasks, do), leave())))
        done.update(_work(queue, tasks, do))
        for worker in others:
            answers, told = worker.answer()
            done.update(answers)
            take(told)
    finally:
        queue.close()
        for worker in others:
            worker.end()
    results = []
    for number in range(len(tasks)):
        succeeded, value = done[number]
        if not succeeded:
            raise value
        results.append(value)
    return results


def _work(queue: _Queue, tasks: Sequence[_Task], do: Callable[[_Task], _Result]) -> dict[int, tuple[bool, Any]]:
    """Take tasks until there are none, and return by number whether they succeeded and what came of them."""
    done: dict[int, tuple[bool, Any]] = {}
    while (number := queue.take()) is not None:
        try:
            done[number] = True, do(tasks[number])
        except Exception as error:
            done[number] = False, error
            queue.drain()  # tasks before this one have been taken, and those after it no longer matter
    return done


class _Queue:
    """Numbers from 0, each of which one process takes."""

    def __init__(self, count: int) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.write(self._writer, b"".join(number.to_bytes(2, "big") for number in range(count)))

    def take(self) -> int | None:
        try:
            return int.from_bytes(os.read(self._reader, 2), "big")
        except BlockingIOError:
            return None

    def drain(self) -> None:
        while self.take() is not None:
            pass

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


class _Worker:
    """A fork of this process that computes one answer."""

    def __init__(self, compute: Callable[[], Any]) -> None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()  # what waits in a buffer must not be written twice
        self._pipe, writer = os.pipe()
        with observation.Forking():
            self._process = os.fork()
        if self._process == 0:
            self._be(compute, writer)
        os.close(writer)
        self._ended = False

    def _be(self, compute: Callable[[], Any], writer: int) -> NoReturn:
        """Live the worker's life; never returns."""
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides what an interruption means
            os.close(self._pipe)
            answer = compute()
            data = pickle.dumps((answer, observation.seen()), pickle.HIGHEST_PROTOCOL)
            with os.fdopen(writer, "wb") as stream:
                stream.write(data)
            status = 0
        except BaseException as error:  # nothing of this process may go on as if it were the first one
            os.write(2, f"capaudit: a worker failed: {type(error).__name__}: {error}\n".encode(errors="replace"))
        finally:
            os._exit(status)

    def answer(self) -> Any:
        """Wait for the answer. Errors: ``WorkerError`` where the process ended without one."""
        pipe, self._pipe = self._pipe, -1
        with os.fdopen(pipe, "rb") as stream:
            data = stream.read()
        _, status = os.waitpid(self._process, 0)
        self._ended = True
        if status != 0:
            code = os.waitstatus_to_exitcode(status)
            how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
            raise WorkerError(
                f"a worker process {how} before it had an answer",
                remedy="if memory ran out, use fewer: --jobs 1 audits in one process",
            )
        answer, looked_at = pickle.loads(data)  # written by this program a moment ago
        observation.also_seen(looked_at)
        return answer

    def end(self) -> None:
        """Stop the process if it is still there."""
        if not self._ended:
            self._ended = True
            if self._pipe >= 0:
                os.close(self._pipe)
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
