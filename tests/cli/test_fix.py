from __future__ import annotations

import json
from pathlib import Path

import pytest

from capaudit.cli.main import main

PROGRAM = """\
import torch


class Timers:
    def __init__(self) -> None:
        self.left = torch.ones(64, device="cuda")
        self.done = torch.zeros(64, dtype=torch.bool, device="cuda")

    def tick(self) -> None:  # capaudit: boundary
        ids = self.left.argsort()
        self.left[ids] = 0.0
        rows = self.done.nonzero().squeeze(-1)
        self.left[rows] = 1.0
        top = torch.maximum(self.left, torch.tensor(0.0, device="cuda"))
"""


@pytest.fixture
def timers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "timers.py"
    file.write_text(PROGRAM, encoding="utf-8")
    return file


def test_fix_rewrites_and_reports_what_remains(timers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--isolated", "timers.py", "--fix"]) == 1
    out, err = capsys.readouterr()
    text = timers.read_text(encoding="utf-8")
    assert "self.left.index_fill_(0, ids, 0.0)" in text
    assert "torch.maximum" in text
    assert "index_fill_" not in out
    assert "CAP103[host-to-device-copy] torch.tensor()" in out
    assert "applied 2 fixes in 1 file; 1 more needs --unsafe-fixes" in err


def test_unsafe_fixes_leave_nothing(timers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--isolated", "timers.py", "--fix", "--unsafe-fixes"]) == 0
    assert "self.left.masked_fill_(self.done, 1.0)" in timers.read_text(encoding="utf-8")
    assert "torch.clamp(self.left, min=0.0)" in timers.read_text(encoding="utf-8")
    assert "no findings" in capsys.readouterr().out


def test_diff_shows_the_patch_and_writes_nothing(timers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--isolated", "timers.py", "--diff"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("--- a/timers.py\n+++ b/timers.py\n@@ ")
    assert "+        self.left.index_fill_(0, ids, 0.0)\n" in out
    assert "would apply 2 fixes" in err
    assert timers.read_text(encoding="utf-8") == PROGRAM


def test_diff_of_a_program_without_fixes_is_empty_and_clean(timers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--isolated", "timers.py", "--diff", "--select", "CAP304"]) == 0
    assert capsys.readouterr().out == ""


def test_a_suppressed_line_stays(timers: Path) -> None:
    silent = "self.left[ids] = 0.0  # capaudit: ignore[host-to-device-copy] -- runs before the capture"
    timers.write_text(PROGRAM.replace("self.left[ids] = 0.0", silent), encoding="utf-8")
    main(["check", "--isolated", "timers.py", "--fix", "--unsafe-fixes"])
    assert silent in timers.read_text(encoding="utf-8")


def test_json_and_sarif_carry_the_proposals(timers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--isolated", "timers.py", "--output", "json", "--output", "sarif:out.sarif"])
    found = json.loads(capsys.readouterr().out)["findings"]
    fixes = [fix for finding in found for fix in finding["fixes"]]
    assert {fix["name"]: fix["safe"] for fix in fixes}["index-fill"] is True
    results = json.loads(Path("out.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
    changes = [r["fixes"][0]["artifactChanges"][0]["replacements"][0] for r in results if "fixes" in r]
    assert changes[0]["deletedRegion"] == {"startLine": 11, "startColumn": 9, "endLine": 11, "endColumn": 29}
    assert changes[0]["insertedContent"]["text"] == "self.left.index_fill_(0, ids, 0.0)"


@pytest.mark.parametrize("options", [["--fix", "--diff"], ["--unsafe-fixes"], ["--diff", "--output", "json"]])
def test_options_that_contradict_each_other_are_refused(timers: Path, options: list[str]) -> None:
    assert main(["check", "--isolated", "timers.py", *options]) == 2
    assert timers.read_text(encoding="utf-8") == PROGRAM


def test_without_libcst_the_remedy_is_named(
    timers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "libcst", None)
    assert main(["check", "--isolated", "timers.py", "--fix"]) == 2
    assert 'pip install "capaudit[fix]"' in capsys.readouterr().err
    assert timers.read_text(encoding="utf-8") == PROGRAM
