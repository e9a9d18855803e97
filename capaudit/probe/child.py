"""One fresh process per probe: a failed capture can poison the CUDA context of the process it ran in.

The parent hands over a JSON payload on stdin and reads JSON lines from a file of the child's own:
``partial`` lines while it works, then one ``result`` or ``error`` line. Files and no pipes, so that a
child that dies at any point neither blocks the parent nor takes lines with it that were written. The
exit code alone is never a verdict: CUDA may abort the interpreter's shutdown after a good result.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

from capaudit.evidence import JsonObject
from capaudit.model import CapauditError

ChildStatus = Literal["completed", "raised", "out-of-memory", "timed-out", "killed", "no-result"]
"""``completed``: one result was read. ``raised``: the target raised. ``out-of-memory``: it ran out of
device or host memory. ``timed-out``: stopped at its time limit. ``killed``: a signal ended it.
``no-result``: it ended on its own account without a result."""

_RESULT_VARIABLE = "CAPAUDIT_CHILD_RESULT"
_POLL_SECONDS = 0.02
_STDERR_TAIL = 4000
_MAXIMUM_CHAIN = 20


class ChildFailureError(CapauditError):
    """A probe's child process ended without a result."""


@dataclass(frozen=True, slots=True)
class ChildError:
    """An exception of the child. ``first`` is the oldest of its ``__context__`` chain: usually the cause."""

    kind: str
    message: str
    first_kind: str
    first_message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How one child ended. ``partial`` holds everything it reported before that, in order."""

    status: ChildStatus
    result: JsonObject | None
    partial: tuple[JsonObject, ...]
    error: ChildError | None
    message: str
    stderr_tail: str
    exit_code: int | None
    seconds: float

    def require(self) -> JsonObject:
        """Return the result. Raises ChildFailureError that says how the child ended."""
        if self.result is None:
            tail = self.stderr_tail.strip().splitlines()[-5:]
            raise ChildFailureError("\n".join([self.message, *(f"  | {line}" for line in tail)]))
        return self.result


@dataclass(frozen=True, slots=True)
class ChildJob:
    """What ``run_children`` starts: arguments as of ``run_child``."""

    module: str
    payload: JsonObject
    timeout: float
    environment: Mapping[str, str] = field(default_factory=dict)


class Channel:
    """The child's side: each call writes one whole line, which survives the child."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def partial(self, value: JsonObject) -> None:
        """Report something that must not be lost if the rest goes wrong."""
        self.send("partial", value)

    def send(self, tag: str, value: JsonObject) -> None:
        data = (json.dumps({tag: value}) + "\n").encode()
        while data:
            data = data[os.write(self._descriptor, data) :]


def serve(handler: Callable[[JsonObject, Channel], JsonObject]) -> NoReturn:
    """Be the child: read the payload, run ``handler``, write its result or its error, and exit.

    Exits without interpreter shutdown, where a broken CUDA context may hang or abort.
    """
    channel = Channel(os.open(os.environ.pop(_RESULT_VARIABLE), os.O_WRONLY | os.O_APPEND))
    answer(channel, lambda: handler(json.load(sys.stdin), channel))


def answer(channel: Channel, work: Callable[[], JsonObject]) -> NoReturn:
    """Do ``work`` in this process, report its result or its error, and exit. For forked children too."""
    code = 0
    try:
        channel.send("result", work())
    except BaseException as error:
        channel.send("error", _describe(error))
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def first_error(error: BaseException) -> BaseException:
    """Return the oldest exception of the chain: during capture the later ones only say that it failed."""
    seen = {id(error)}
    while len(seen) < _MAXIMUM_CHAIN:
        earlier = error.__cause__ or error.__context__
        if earlier is None or id(earlier) in seen:
            break
        seen.add(id(earlier))
        error = earlier
    return error


def is_out_of_memory(kind: str, message: str) -> bool:
    """Whether an exception means that device or host memory ran out."""
    return kind in ("MemoryError", "OutOfMemoryError") or "out of memory" in message.lower()


def run_child(
    module: str,
    payload: JsonObject,
    timeout: float,
    *,
    environment: Mapping[str, str] | None = None,
    on_partial: Callable[[JsonObject], None] | None = None,
) -> ChildResult:
    """Run ``python -m module`` with ``payload`` and return how it ended; never raises for the child's sake.

    ``timeout`` is in seconds. The child leads its own process group, which ends with it. ``module`` must
    call ``serve``. ``on_partial`` sees partial lines as they arrive.
    """
    with tempfile.TemporaryDirectory(prefix="capaudit-child-") as name:
        folder = Path(name)
        (folder / "payload").write_text(json.dumps(payload), encoding="utf-8")
        (folder / "result").touch()
        variables = {**os.environ, **(environment or {}), _RESULT_VARIABLE: str(folder / "result")}
        begin = time.monotonic()
        with (folder / "payload").open("rb") as stdin, (folder / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=stdin,
                stdout=stderr,
                stderr=stderr,
                env=variables,
                start_new_session=True,
            )
        timed_out = False
        with (folder / "result").open("rb") as stream:
            lines = Lines(on_partial)
            try:
                while not _has_ended(process.pid):
                    lines.read(stream.read())
                    if time.monotonic() - begin > timeout:
                        timed_out = True
                        break
                    time.sleep(_POLL_SECONDS)
            finally:
                # Before the leader is reaped its group id cannot be given to anybody else.
                _kill_group(process.pid)
                process.wait()
            lines.read(stream.read())
        seconds = time.monotonic() - begin
        tail = read_tail(folder / "stderr")
    return conclude(module, lines, timed_out, timeout, process.returncode, tail, seconds)


def run_children(jobs: Iterable[ChildJob], workers: int) -> Iterator[ChildResult]:
    """Run several children, ``workers`` at a time, and yield their results in the order of the jobs."""

    def run(job: ChildJob) -> ChildResult:
        return run_child(job.module, job.payload, job.timeout, environment=job.environment)

    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        yield from pool.map(run, jobs)


class Lines:
    """Collects the child's lines; a last line without its end was cut off by death and is dropped."""

    def __init__(self, on_partial: Callable[[JsonObject], None] | None) -> None:
        self._rest = b""
        self._on_partial = on_partial
        self.partial: list[JsonObject] = []
        self.result: JsonObject | None = None
        self.error: ChildError | None = None

    def read(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            ((tag, value),) = json.loads(line).items()
            if tag == "partial":
                self.partial.append(value)
                if self._on_partial is not None:
                    self._on_partial(value)
            elif tag == "result":
                self.result = value
            else:
                self.error = ChildError(**value)


def conclude(
    name: str, lines: Lines, timed_out: bool, timeout: float, code: int, tail: str, seconds: float
) -> ChildResult:
    """Say how the child called ``name`` ended. ``code`` is negative for a signal, as ``subprocess`` has it."""
    status: ChildStatus
    if lines.result is not None:
        # A child that hangs after its result was stopped, and had done its work.
        status, message = "completed", ""
    elif lines.error is not None:
        first = lines.error
        memory = is_out_of_memory(first.first_kind, first.first_message) or is_out_of_memory(first.kind, first.message)
        status = "out-of-memory" if memory else "raised"
        message = f"{name} raised {first.first_kind}: {first.first_message}"
    elif timed_out:
        status, message = "timed-out", f"{name} was stopped at its time limit of {timeout:g} s"
    elif code < 0:
        status, message = "killed", f"{name} was ended by {_signal_name(-code)}"
        if -code == signal.SIGKILL:
            message += ", as the system does when host memory runs out"
    else:
        status, message = "no-result", f"{name} ended with exit code {code} and no result"
    return ChildResult(
        status=status,
        result=lines.result,
        partial=tuple(lines.partial),
        error=lines.error,
        message=message,
        stderr_tail=tail,
        exit_code=code,
        seconds=seconds,
    )


def read_tail(path: Path) -> str:
    """Return the end of what a child printed."""
    return path.read_bytes()[-_STDERR_TAIL:].decode("utf-8", "replace")


def _describe(error: BaseException) -> JsonObject:
    first = first_error(error)
    return {
        "kind": type(error).__name__,
        "message": str(error),
        "first_kind": type(first).__name__,
        "first_message": str(first),
        "traceback": "".join(traceback.format_exception(error))[-_STDERR_TAIL:],
    }


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
