"""Where reports go: what ``--output`` accepts, and what it must leave alone."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from capaudit.audit.baseline import DEFAULT_NAME
from tests.cli.conftest import FakeAudit
from tests.report.sample import sample

Run = Callable[..., object]


@pytest.fixture(autouse=True)
def _found(engine: FakeAudit) -> None:
    engine.result = sample()


def test_one_run_writes_every_format(folder: Path, run: Run) -> None:
    formats = ("json", "sarif", "github", "gitlab", "junit", "markdown")
    arguments = [part for name in formats for part in ("--output", f"{name}:out.{name}")]
    outcome = run("check", "--output", "text:-", *arguments)
    assert (outcome.status, outcome.out[:13]) == (1, "boundary tick")
    assert all("CAP103" in (folder / f"out.{name}").read_text(encoding="utf-8") for name in formats)


def test_the_sarif_log_knows_the_exit_status(folder: Path, run: Run) -> None:
    for arguments, status in (((), 1), (("--exit-zero",), 0)):
        outcome = run("check", "--output", "sarif", *arguments)
        invocation = json.loads(outcome.out)["runs"][0]["invocations"][0]
        assert (outcome.status, invocation["exitCode"]) == (status, status)


@pytest.mark.parametrize("variable", ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"])
def test_files_are_named_from_the_checkout_that_the_job_runs_in(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (folder / "part").mkdir()
    monkeypatch.chdir(folder / "part")
    monkeypatch.setenv(variable, str(folder))
    assert "file=part/timers.py," in run("check", "--output", "github").out
    monkeypatch.setenv(variable, str(folder / "elsewhere"))
    assert "file=timers.py," in run("check", "--output", "github").out


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("sarif:", "a file name belongs after the colon"),
        ("sarif: ", "a file name belongs after the colon"),
        (":out", "there is no format ''"),
        ("SARIF", "there is no format 'SARIF'"),
        ("sarif:absent/out.sarif", "there is no such folder"),
        ("sarif:kept.py/out.sarif", "there is no such folder"),
        ("sarif:.", "it is a folder"),
        ("sarif:kept.py", "would overwrite a source file"),
        ("markdown:kept.toml", "would overwrite a source file"),
        ("sarif:" + "x" * 5000, "the report cannot be written"),
        ("sarif:a\0b", "the report cannot be written"),
    ],
)
def test_a_hostile_output_is_one_message_before_the_audit_and_damages_nothing(
    engine: FakeAudit, folder: Path, run: Run, output: str, message: str
) -> None:
    (folder / "kept.py").write_text("x = 1\n")
    (folder / "kept.toml").write_text("[tool]\n")
    outcome = run("check", "--output", output)
    assert (outcome.status, outcome.out, engine.asked) == (2, "", [])
    assert message in outcome.err
    assert "Traceback" not in outcome.err
    assert [(file.name, file.read_text()) for file in sorted(folder.iterdir())] == [
        ("kept.py", "x = 1\n"),
        ("kept.toml", "[tool]\n"),
    ]


def test_a_report_never_replaces_the_baseline(folder: Path, run: Run) -> None:
    (folder / DEFAULT_NAME).write_text("{}")
    outcome = run("check", "--isolated", "--output", f"json:{DEFAULT_NAME}")
    assert (outcome.status, "would overwrite the baseline" in outcome.err) == (2, True)
    assert (folder / DEFAULT_NAME).read_text() == "{}"


def test_two_spellings_of_one_file_are_one_file(folder: Path, run: Run) -> None:
    outcome = run("check", "--output", "json:a", "--output", "sarif:./a")
    assert (outcome.status, "two reports would go to" in outcome.err) == (2, True)


def test_a_report_that_fails_keeps_the_one_that_was_there(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "old.json").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    outcome = run("check", "--output", "json:old.json")
    assert (outcome.status, "No space left on device" in outcome.err) == (2, True)
    assert [(file.name, file.read_text()) for file in folder.iterdir()] == [("old.json", "old")]


def test_a_report_keeps_links_and_modes_and_fits_into_devices(folder: Path, run: Run) -> None:
    real = folder / "real.json"
    real.write_text("old")
    real.chmod(0o640)
    (folder / "link.json").symlink_to(real)
    assert run("check", "--output", "json:link.json", "--output", "sarif:/dev/null").status == 1
    assert (folder / "link.json").is_symlink()
    assert json.loads(real.read_text())["findings"]
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
