"""The fixture logs, as printed and as launchers, terminals and Windows make of them."""

from __future__ import annotations

import io
import random
import tomllib
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from capaudit.knowledge import Knowledge, load
from capaudit.knowledge.messages import Messages, load_messages
from capaudit.logs import Diagnosis, KnownFinding, diagnose
from capaudit.logs.reading import read_lines
from tests.conftest import ROOT

FOLDER = ROOT / "fixtures" / "logs"
KNOWN = tomllib.loads((FOLDER / "known.toml").read_text(encoding="utf-8"))["log"]
UNRELATED = tomllib.loads((FOLDER / "unrelated.toml").read_text(encoding="utf-8"))["log"]

Change = Callable[[str], bytes]


@cache
def knowledge() -> Knowledge:
    return load()


@cache
def messages() -> Messages:
    return load_messages(frozenset(knowledge().rules))


def said(data: bytes | str, *findings: KnownFinding) -> Diagnosis:
    stream = io.BytesIO(data.encode() if isinstance(data, str) else data)
    return diagnose(read_lines(stream, "log"), messages(), knowledge(), findings)


def answer(diagnosis: Diagnosis) -> tuple[str, str, str]:
    cause = diagnosis.cause
    if cause is None:
        return "unknown", "", ""
    place = f"{cause.place.file}:{cause.place.line}" if cause.place else ""
    return cause.message.id, (cause.hazards or ("",))[0], place


def expected(entry: dict[str, str]) -> tuple[str, str, str]:
    return entry["id"], entry["hazard"], entry["place"]


def prefixed(prefix: str) -> Change:
    return lambda text: "".join(f"{prefix}{line}\n" for line in text.splitlines()).encode()


def logged(prefix: str) -> Change:
    """A logger that prefixes every line; what pytest and notebooks print goes through none."""
    return lambda text: prefixed(prefix)(text) if '\n  File "' in text else text.encode()


CHANGES: dict[str, Change] = {
    "as printed": str.encode,
    "carriage returns": lambda text: text.replace("\n", "\r\n").encode(),
    "colours": lambda text: "".join(f"\033[1;31m{line}\033[0m\n" for line in text.splitlines()).encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "utf-16 without a mark": lambda text: text.encode("utf-16-le"),
    "torch ranks": prefixed("[rank3]: "),
    "torchrun": prefixed("[default3]:"),
    "mpirun": prefixed("[1,3]<stderr>:"),
    "slurm": prefixed("3: "),
    "ray": prefixed("(RayWorker pid=4711, ip=10.0.0.3) "),
    "compose": prefixed("learner-1  | "),
    "times": prefixed("2026-11-30T01:02:03.456Z "),
    "times and ranks": prefixed("2026-11-30 01:02:03,456 [rank12]: "),
    "within other output": lambda text: f"step 1\nstep 2\n{text}\nstep 3\nTerminated\n".encode(),
    "a logger's lines": logged("(EngineCore pid=12) ERROR 11-30 01:02:03 [core.py:700] "),
    "another logger's": logged("2026-11-30 01:02:03,456 | ERROR    | worker:run:33 - "),
    "after a progress bar": lambda text: f" 10%|#\r 20%|##\r{text}".encode() if "\n" not in text else text.encode(),
}


def test_there_are_enough_logs_to_speak_of() -> None:
    assert len(KNOWN) >= 25
    assert len(UNRELATED) >= 10


@pytest.mark.parametrize("change", CHANGES)
def test_every_known_log_is_recognised_with_hazard_and_place(change: str) -> None:
    wrong = [
        (position, answer(found), expected(entry))
        for position, entry in enumerate(KNOWN)
        if answer(found := said(CHANGES[change](entry["text"]))) != expected(entry)
    ]
    assert wrong == []


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_read_into_an_unrelated_log(change: str) -> None:
    assert [entry["name"] for entry in UNRELATED if said(CHANGES[change](entry["text"])).cause is not None] == []


def test_every_message_is_known_by_each_of_its_own_texts() -> None:
    data = tomllib.loads((ROOT / "rules" / "messages.toml").read_text(encoding="utf-8"))
    wrong = [
        (entry["id"], text)
        for entry in data["message"]
        for text in (*entry.get("texts", ()), *entry.get("names", ()))
        if (found := messages().find(f"Error: {text.replace('*', ' so and so ')}")) is None or found.id != entry["id"]
    ]
    assert wrong == []


@pytest.mark.parametrize("number", range(900, 909))
@pytest.mark.parametrize(
    "form",
    [
        "CUDA error {}",
        "CUDA failure {}: what",
        "cudaError_t({})",
        "CUresult = {}",
        "cuda error code={}",
        "CUDA error: {}",
    ],
)
def test_an_error_number_alone_is_enough(number: int, form: str) -> None:
    found = messages().find(form.format(number))
    assert found is not None
    assert found.number == number


@pytest.mark.parametrize(
    "line",
    [
        "CUDA error 9001",
        "CUDA error 90",
        "CUDA error 900.5",
        "cuda: 900 MiB free",
        "cuda error 905 MiB",
        "CUDA error 909",
    ],
)
def test_a_number_that_only_looks_like_one_is_none(line: str) -> None:
    assert messages().find(line) is None


def test_interleaved_ranks_are_told_apart() -> None:
    first, second = KNOWN[0]["text"].splitlines(), KNOWN[4]["text"].splitlines()
    lines = [("0", line) for line in first]
    for position, line in enumerate(second):
        lines.insert(2 * position, ("1", line))
    diagnosis = said("".join(f"[rank{who}]: {line}\n" for who, line in lines))
    found = {incident.writers: incident.place for incident in (diagnosis.cause, *diagnosis.others) if incident}
    assert {who: f"{place.file}:{place.line}" for who, place in found.items() if place} == {
        ("0",): KNOWN[0]["place"],
        ("1",): KNOWN[4]["place"],
    }


def test_ranks_that_fail_alike_are_one_incident() -> None:
    text = KNOWN[1]["text"].splitlines()
    diagnosis = said("".join(f"[rank{rank}]: {line}\n" for rank in range(8) for line in text))
    assert diagnosis.cause is not None
    assert (diagnosis.cause.count, diagnosis.cause.writers) == (8, tuple("01234567"))
    assert diagnosis.others == ()


def test_the_failure_comes_before_what_follows_from_it_and_before_warnings() -> None:
    warning = "skipping cudagraphs due to mutated inputs (1 instances)\n"
    consequence = "[rank0]: RuntimeError: CUDA error: operation failed due to a previous error during capture\n"
    failure = "".join(f"[rank1]: {line}\n" for line in KNOWN[2]["text"].splitlines())
    diagnosis = said(warning + consequence + failure)
    assert answer(diagnosis) == expected(KNOWN[2])
    assert [other.message.id for other in diagnosis.others] == ["capture-invalidated", "torch-skip-mutation"]


def test_the_innermost_line_of_the_user_counts_not_the_library_s() -> None:
    diagnosis = said(KNOWN[0]["text"])
    assert diagnosis.cause is not None
    assert diagnosis.cause.place is not None
    assert diagnosis.cause.place.function == "compute"
    assert "any()" in diagnosis.cause.place.code


def test_rich_tracebacks_have_a_place() -> None:
    text = """\
╭──────────────── Traceback (most recent call last) ────────────────╮
│ /home/ada/walker/env.py:42 in step                                 │
│                                                                    │
│   41 │   def step(self):                                           │
│ ❱ 42 │   │   reward = self.total.item()                            │
╰────────────────────────────────────────────────────────────────────╯
RuntimeError: CUDA error: operation not permitted when stream is capturing
"""
    assert answer(said(text)) == ("capture-unsupported", "CAP101", "/home/ada/walker/env.py:42")


def test_a_huge_log_takes_bounded_memory() -> None:
    def chunks() -> Iterator[bytes]:
        for number in range(4_000):
            yield b"[rank%d]: iteration %d capture graph reward 1.0 and some more words to fill the line\n" % (
                number % 900,
                number,
            )
        yield KNOWN[0]["text"].encode()

    class Stream(io.RawIOBase):
        def __init__(self) -> None:
            self.source, self.rest = chunks(), b""

        def read(self, size: int = -1) -> bytes:
            while len(self.rest) < size and (chunk := next(self.source, b"")):
                self.rest += chunk
            data, self.rest = self.rest[:size], self.rest[size:]
            return data

    messages(), knowledge()
    tracemalloc.start()
    diagnosis = diagnose(read_lines(Stream(), "log"), messages(), knowledge())  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer(diagnosis) == expected(KNOWN[0])
    assert peak < 2_000_000


def test_a_line_without_an_end_is_cut_and_the_rest_is_read() -> None:
    long = "x" * 3_000_000
    assert answer(said(f"{long}\n{KNOWN[1]['text']}")) == expected(KNOWN[1])


def test_noise_of_any_kind_breaks_nothing() -> None:
    chosen = random.Random(7)
    pieces = [line for entry in (*KNOWN, *UNRELATED) for line in entry["text"].splitlines()] + [
        "\x1b[",
        "\r",
        "Traceback",
        "E   ",
        "> ",
        "│ a.py:1 in f",
    ]
    for _ in range(100):
        text = "\n".join(chosen.choice(pieces)[: chosen.randrange(1, 200)] for _ in range(60))
        said(text + "\n\udcff".encode(errors="surrogateescape").decode(errors="replace"))


# -- findings at hand ------------------------------------------------------------------------------------------------


def finding(code: str, file: str, line: int, function: str = "m.C.f") -> KnownFinding:
    return KnownFinding(code, "name", file, line, line, 1, "message", (function,))


def test_the_finding_on_the_line_beats_the_one_in_the_function_and_the_kind() -> None:
    on_line = finding("CAP101", "walker/rewards.py", 88)
    diagnosis = said(
        KNOWN[0]["text"],
        finding("CAP101", "other.py", 1),
        finding("CAP101", "walker/rewards.py", 70, "walker.rewards.Rewards.compute"),
        on_line,
    )
    assert [(found.line, found.fits) for found in diagnosis.findings] == [(88, "on this line")]


def test_moved_lines_leave_the_function() -> None:
    moved = finding("CAP101", "walker/rewards.py", 70, "walker.rewards.Rewards.compute")
    (found,) = said(KNOWN[0]["text"], finding("CAP101", "other.py", 1), moved).findings
    assert found.fits == "in compute"


def test_a_file_of_the_same_name_elsewhere_does_not_fit() -> None:
    assert said(KNOWN[0]["text"], finding("CAP601", "crawler/rewards.py", 88)).findings == ()


def test_without_a_place_the_kind_has_to_do() -> None:
    (found,) = said(
        "Cannot synchronize device cuda:0 while graph capture is active", finding("CAP104", "a.py", 3)
    ).findings
    assert found.fits == "of this kind in the captured code"
