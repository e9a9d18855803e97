from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from capaudit import __version__
from capaudit.cli.main import COMMANDS
from tests.cli.conftest import FakeAudit
from tests.conftest import ROOT

Run = Callable[..., object]

HEAVY = ("torch", "numpy", "warp", "mujoco", "astroid", "libcst", "tomllib")


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "capaudit", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
    )


def test_help_lists_every_command_with_its_line(run: Run) -> None:
    outcome = run("--help")
    assert outcome.status == 0
    for name, line in COMMANDS.items():
        assert f"  {name} " in outcome.out
        assert line in outcome.out


def test_every_command_in_the_table_exists_and_explains_itself(run: Run) -> None:
    for name in COMMANDS:
        assert run(name, "--help").status == 0, name


def test_the_version_is_the_package_s(run: Run) -> None:
    assert run("--version").out == f"capaudit {__version__}\n"


def test_no_command_prints_the_help(run: Run) -> None:
    outcome = run()
    assert outcome.status == 2
    assert "Commands:" in outcome.err


def test_a_misspelt_command_names_the_nearest(run: Run) -> None:
    outcome = run("chekc")
    assert outcome.status == 2
    assert "Did you mean 'check'?" in outcome.err


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("check", "--help")])
def test_start_up_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    program = (
        "import sys; from capaudit.cli.main import main\n"
        f"status = main({arguments!r})\n"
        f"print('heavy:', sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)\n"
        "sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    allowed = ["tomllib"] if arguments[0] == "check" else []
    assert done.stderr == f"heavy: {allowed}\n"


def test_help_costs_little_more_than_starting_python_and_click() -> None:
    def median(*program: str) -> float:
        times = []
        for _ in range(5):
            before = os.times()
            subprocess.run([sys.executable, *program], capture_output=True, cwd=ROOT, check=True)
            after = os.times()
            times.append(after.children_user - before.children_user + after.children_system - before.children_system)
        return statistics.median(times)

    # A ratio of processor time in one run: a loaded machine slows both down, though not by the same factor.
    assert median("-m", "capaudit", "--help") < 3.5 * median("-c", "import click")


def test_an_unexpected_error_is_one_line_with_a_hint(
    engine: FakeAudit, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CAPAUDIT_TRACEBACK", raising=False)
    engine.error = ZeroDivisionError("of\ntwo lines")
    outcome = run("check")
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1
    assert "internal error: ZeroDivisionError: of two lines" in outcome.err
    assert "CAPAUDIT_TRACEBACK=1" in outcome.err


def test_the_traceback_is_printed_when_it_is_asked_for(
    engine: FakeAudit, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPAUDIT_TRACEBACK", "1")
    engine.error = ZeroDivisionError("boom")
    outcome = run("check")
    assert outcome.status == 2
    assert "Traceback (most recent call last)" in outcome.err


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied", "secret.py"), "secret.py: Permission denied"),
        (FileNotFoundError(2, "No such file or directory", b"gone.py"), "gone.py: No such file or directory"),
        (OSError("odd"), "odd"),
    ],
)
def test_a_file_that_vanishes_or_is_locked_is_no_internal_error(
    engine: FakeAudit, folder: Path, run: Run, error: OSError, message: str
) -> None:
    engine.error = error
    outcome = run("check")
    assert (outcome.status, outcome.err) == (2, f"capaudit: error: {message}\n")


@pytest.mark.parametrize("error", [RecursionError("deep"), MemoryError()])
def test_exhaustion_ends_in_status_2(engine: FakeAudit, folder: Path, run: Run, error: BaseException) -> None:
    engine.error = error
    assert run("check").status == 2


def test_an_interrupt_is_quiet(engine: FakeAudit, folder: Path, run: Run) -> None:
    engine.error = KeyboardInterrupt()
    outcome = run("check")
    assert (outcome.status, outcome.err) == (130, "capaudit: interrupted\n")


def test_a_reader_that_leaves_early_causes_no_complaint() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "capaudit", "rules", "--output", "markdown"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full to stand for a full disk")
@pytest.mark.parametrize("arguments", [("--help",), ("rules", "--output", "json")])
def test_a_full_disk_is_reported(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "capaudit", *arguments], stdout=full, stderr=subprocess.PIPE, cwd=ROOT, check=False
        )
    assert (done.returncode, done.stderr) == (2, b"capaudit: error: No space left on device\n")


def test_the_module_form_and_an_ascii_locale_work() -> None:
    done = command("explain", "CAP103", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("CAP103 host-to-device-copy")
