"""Text on stdin stands for one file of its program."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Outcome
from tests.gate.robot import project

Run = Callable[..., Outcome]
CALLER = "from maths import mean\n\n\ndef step():  # capaudit: boundary\n    return mean()\n"
HELPER = "import torch\n\n\ndef mean():\n    return torch.ones(8, device='cuda').mean()\n"


def feed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))


def findings(outcome: Outcome) -> list[tuple[str, str]]:
    return [(finding["file"], finding["code"]) for finding in json.loads(outcome.out)["findings"]]


def test_text_without_a_name_is_a_program_of_its_own(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project(folder)
    feed(monkeypatch, "import torch\n\n\ndef step(x: torch.Tensor):  # capaudit: boundary\n    return x.item()\n")
    outcome = run("check", "-", "--output", "json")
    assert (outcome.status, findings(outcome)) == (1, [("<stdin>", "CAP101")])


def test_the_text_replaces_its_file_within_the_program(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project(folder, source=CALLER)
    helper = folder / "robots" / "maths.py"
    helper.write_text(HELPER)
    assert run("check").status == 0
    feed(monkeypatch, HELPER.replace(".mean()", ".mean().item()"))
    outcome = run("check", "-", "--stdin-filename", "robots/maths.py", "--output", "json")
    assert (outcome.status, findings(outcome)) == (1, [("robots/maths.py", "CAP101")])
    assert helper.read_text() == HELPER


def test_a_file_that_is_not_saved_yet_is_part_of_the_program(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(folder, source=CALLER)
    feed(monkeypatch, HELPER.replace(".mean()", ".mean().item()"))
    outcome = run("check", "-", "--stdin-filename", "robots/maths.py")
    assert outcome.status == 1
    assert ".mean().item()" in outcome.out  # the frame shows the text, not the disk


def test_an_excluded_file_is_silent(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project(folder, 'exclude = ["maths.py"]\n', source=CALLER)
    feed(monkeypatch, HELPER.replace(".mean()", ".mean().item()"))
    assert run("check", "-", "--stdin-filename", "robots/maths.py").status == 0


def test_an_error_names_the_file_that_the_text_stands_for(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(folder, source=CALLER)
    feed(monkeypatch, "def broken(:\n")
    outcome = run("check", "-", "--stdin-filename", "robots/maths.py")
    assert (outcome.status, outcome.err.startswith("capaudit: error: robots/maths.py:1:12: ")) == (2, True)
