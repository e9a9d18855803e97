"""The number of processes changes no byte of any output."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from capaudit.audit import engine
from capaudit.cli.start import main
from capaudit.program import index
from capaudit.program.workers import AVAILABLE
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="needs fork")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Many boundaries, one broken file, and an empty cache."""
    monkeypatch.setenv("CAPAUDIT_CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "work" / "src"
    source.mkdir(parents=True)
    for name in ("foreign-stream", "frozen-host-state", "unregistered-rng", "nested-capture"):
        for file in sorted((ROOT / "fixtures" / name).glob("*.py"))[:6]:
            shutil.copy(file, source / f"{name.replace('-', '_')}_{file.name}")
    (source / "broken.py").write_text("def half(:\n")
    monkeypatch.chdir(source.parent)
    return source


ARGUMENTS = ("check", "src", "--operations", "--verbose", "--output", "text", "--output", "json:out.json")


def said(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[object, ...]:
    Path("out.json").unlink(missing_ok=True)
    status = main((*ARGUMENTS, *more))
    return status, capsys.readouterr(), Path("out.json").read_bytes()


def test_one_two_and_eight_processes_say_the_same_cached_or_not(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = said(capsys, "--no-cache", "--jobs", "1")
    assert alone[0] == 1
    for jobs in ("1", "2", "8"):
        for more in (("--no-cache",), (), ()):
            assert said(capsys, "--jobs", jobs, *more) == alone


def test_work_on_each_file_of_a_large_tree_is_spread_as_well(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in sorted((ROOT / "fixtures" / "nameless-joint-data").glob("*.py")):
        shutil.copy(file, program)
    alone = said(capsys, "--no-cache", "--jobs", "1")
    assert "ORD016" in alone[1].out  # type: ignore[attr-defined]
    monkeypatch.setattr(engine, "_VERY_LARGE", 0)
    monkeypatch.setattr(index, "_PORTION", 1000)
    assert said(capsys, "--no-cache", "--jobs", "3") == alone


def test_what_several_processes_remembered_serves_one(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said(capsys, "--jobs", "3")
    file = min(program.glob("foreign*.py"))
    file.write_text(f"{file.read_text()}\n# a note\n")
    real, made = engine.audit_program, []
    monkeypatch.setattr(engine, "audit_program", lambda options: made.append(options) or real(options))
    remembered = said(capsys, "--jobs", "1")
    assert not made
    assert remembered == said(capsys, "--jobs", "1", "--no-cache")


def test_a_killed_worker_ends_the_check_with_one_error(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, real = os.getpid(), engine.evaluate_entry
    monkeypatch.setattr(
        engine,
        "evaluate_entry",
        lambda *given: real(*given) if os.getpid() == first else os.kill(os.getpid(), signal.SIGKILL),
    )
    status = main((*ARGUMENTS, "--jobs", "2"))
    errors = capsys.readouterr().err
    assert status == 2
    assert "killed by signal 9" in errors
    assert "Traceback" not in errors
    assert not Path("out.json").exists()


def test_a_single_boundary_starts_no_worker(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a worker was started"))
    shutil.rmtree(program)
    shutil.copytree(ROOT / "fixtures" / "demo" / "reacher", program / "reacher")
    assert said(capsys, "--jobs", "8")[0] == 1
