from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., object]

LOG = """\
Traceback (most recent call last):
  File "/somewhere/robots/env.py", line 9, in step
    return self.x.item()
           ^^^^^^^^^^^^^
RuntimeError: CUDA error: operation not permitted when stream is capturing
"""

PROGRAM = """\
import torch


class Environment:
    def __init__(self):
        self.x = torch.zeros(64, device="cuda")

    def step(self):  # capaudit: boundary
        return self.x.item()
"""


@pytest.fixture
def log(folder: Path) -> Path:
    file = folder / "run.log"
    file.write_text(LOG)
    return file


def test_a_recognised_log_is_explained_with_place_and_remedy(log: Path, run: Run) -> None:
    outcome = run("why", "run.log")
    assert (outcome.status, outcome.err) == (0, "")
    for part in (
        "cause: ",
        "hazard: CAP101[host-scalar-read]",
        "robots/env.py:9 in step",
        "self.x.item()",
        "what to try:",
    ):
        assert part in outcome.out


def test_stdin_is_read_for_a_dash(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LOG.encode())))
    assert run("why", "-").status == 0


def test_a_check_at_hand_names_its_finding(log: Path, run: Run) -> None:
    (log.parent / "robots").mkdir()
    (log.parent / "robots" / "env.py").write_text(PROGRAM)
    assert run("check", "robots", "--output", "json:report.json").status == 1
    outcome = run("why", "run.log", "--report", "report.json", "--output", "text", "--output", "json:why.json")
    assert "robots/env.py:9:16: CAP101[host-scalar-read]" in outcome.out
    document = json.loads((log.parent / "why.json").read_text())
    assert document["schema"] == "capaudit-why/1"
    assert document["cause"]["hazards"][0] == {"code": "CAP101", "name": "host-scalar-read"}
    assert [(found["line"], found["fits"]) for found in document["findings"]] == [(9, "on this line")]


def test_an_unknown_log_is_said_to_be_unknown_with_status_1(folder: Path, run: Run) -> None:
    (folder / "run.log").write_text("all is well\n")
    outcome = run("why", "run.log", "--output", "text", "--output", "json:why.json")
    assert (outcome.status, outcome.out.startswith("unknown: ")) == (1, True)
    assert json.loads((folder / "why.json").read_text())["cause"] is None


HOSTILE_LOGS: dict[str, bytes] = {
    "empty": b"",
    "an archive": b"PK\x03\x04" + bytes(range(256)) * 8,
    "compressed": b"\x1f\x8b\x08\x00" + bytes(1000),
    "zeros": bytes(100_000),
    "an executable": b"\x7fELF\x02\x01\x01" + bytes(500) + os.urandom(16),
}


@pytest.mark.parametrize("name", HOSTILE_LOGS)
def test_what_is_no_log_is_one_error(folder: Path, run: Run, name: str) -> None:
    (folder / "run.log").write_bytes(HOSTILE_LOGS[name])
    outcome = run("why", "run.log")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("capaudit: error: run.log: ")
    assert "remedy: " in outcome.err
    assert (folder / "run.log").read_bytes() == HOSTILE_LOGS[name]


@pytest.mark.parametrize("path", ["absent.log", ".", "a\0b", "x" * 5000, "run.log/inside"])
def test_a_log_that_cannot_be_opened_is_one_error(log: Path, run: Run, path: str) -> None:
    outcome = run("why", path)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("capaudit: error: ")
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"schema": "capaudit-why/1"}',
        b'{"schema": "capaudit-report/1"}',
        b'{"schema": "capaudit-report/1", "findings": {}}',
        b'{"schema": "capaudit-report/1", "findings": [1]}',
        b'{"schema": "capaudit-report/1", "findings": [{"code": "CAP101"}]}',
        b"[" * 100_000,
    ],
)
def test_a_report_that_is_none_is_one_error(log: Path, run: Run, content: bytes) -> None:
    (log.parent / "report.json").write_bytes(content)
    outcome = run("why", "run.log", "--report", "report.json")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("capaudit: error: report.json")
    assert "capaudit check --output json" in outcome.err
