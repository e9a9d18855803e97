from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from capaudit.cli.options import split
from capaudit.model import Confidence, Finding, OwnershipClass, UnresolvedEntryError
from tests.cli.conftest import FakeAudit
from tests.report.sample import BROKEN_FILE, UPLOAD, sample

Run = Callable[..., object]

UNRESOLVED = replace(
    UPLOAD,
    code="CAP901",
    name="unresolved-call",
    ownership=OwnershipClass.UNRESOLVED,
    hazard=None,
    confidence=Confidence.POSSIBLE,
)
META = replace(BROKEN_FILE, ownership=OwnershipClass.REJECTED)


@pytest.mark.parametrize(
    ("findings", "unresolved", "arguments", "status"),
    [
        ((), 0, (), 0),
        ((UPLOAD,), 0, (), 1),
        ((META,), 0, (), 1),
        ((UPLOAD,), 0, ("--exit-zero",), 0),
        ((), 1, (), 0),
        ((), 1, ("--strict",), 1),
        ((UNRESOLVED,), 1, (), 0),
        ((UNRESOLVED,), 1, ("--strict",), 1),
        ((UPLOAD,), 0, ("--ignore", "CAP103"), 0),
        ((UPLOAD,), 0, ("--ignore", "host-to-device-copy"), 0),
        ((UPLOAD,), 0, ("--ignore", "CAP1,CAP2"), 0),
        ((UPLOAD,), 0, ("--select", "CAP2"), 0),
        ((UPLOAD,), 0, ("--select", "cap1"), 1),
        ((UPLOAD,), 0, ("--select", "CAP2", "--extend-select", "CAP103"), 1),
    ],
)
def test_the_exit_status_tells_clean_from_findings(
    engine: FakeAudit,
    folder: Path,
    run: Run,
    findings: tuple[Finding, ...],
    unresolved: int,
    arguments: tuple[str, ...],
    status: int,
) -> None:
    engine.result = sample(findings=findings, unresolved=unresolved)
    assert run("check", *arguments).status == status


def test_the_options_reach_the_audit(engine: FakeAudit, folder: Path, run: Run) -> None:
    (folder / "src").mkdir()
    run("check", "src", "--entry", "a.b:C.step", "--entry", "f.py:g", "--capture", "warp", "--operations")
    (asked,) = engine.asked
    assert asked.paths == (Path("src"),)
    assert asked.entries == ("a.b:C.step", "f.py:g")
    assert (asked.capture, asked.collect_operations, asked.working_directory) == ("warp", True, folder)


def test_the_default_path_is_the_working_directory(engine: FakeAudit, folder: Path, run: Run) -> None:
    run("check")
    assert engine.asked[0].paths == (Path(),)


def test_the_nearest_configuration_applies_and_its_paths_are_relative_to_it(
    engine: FakeAudit, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "robots" / "deep").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[tool.capaudit]\npaths = ['robots']\nstrict = true\n")
    monkeypatch.chdir(folder / "robots" / "deep")
    engine.result = sample(findings=(), unresolved=1)
    assert run("check").status == 1, "strict comes from the configuration"
    assert engine.asked[0].paths == (folder / "robots",)


def test_the_configuration_belongs_to_the_audited_paths_not_to_the_working_directory(
    engine: FakeAudit, folder: Path, run: Run
) -> None:
    (folder / "other").mkdir()
    (folder / "pyproject.toml").write_text("[tool.capaudit]\nfollow = ['outer']\n")
    (folder / "other" / "pyproject.toml").write_text("[tool.capaudit]\nfollow = ['inner']\n")
    run("check", "other")
    run("check", "other", ".")
    assert [asked.configuration.follow for asked in engine.asked] == [("inner",), ("outer",)]


def test_isolated_leaves_configuration_out_and_config_names_it(engine: FakeAudit, folder: Path, run: Run) -> None:
    (folder / "pyproject.toml").write_text("[tool.capaudit]\nfollow = ['near']\n")
    (folder / "other.toml").write_text("[tool.capaudit]\nfollow = ['named']\n")
    run("check", "--isolated")
    run("check", "--config", "other.toml")
    assert [asked.configuration.follow for asked in engine.asked] == [(), ("named",)]
    assert run("check", "--isolated", "--config", "other.toml").status == 2


def test_per_file_ignores_take_findings_out_of_the_report(engine: FakeAudit, folder: Path, run: Run) -> None:
    (folder / "pyproject.toml").write_text("[tool.capaudit.per-file-ignores]\n'timers.py' = ['host-to-device-copy']\n")
    engine.result = sample(findings=(UPLOAD,))
    outcome = run("check", "--output", "json")
    assert (outcome.status, json.loads(outcome.out)["findings"]) == (0, [])


def test_several_reports_go_to_stdout_and_to_files(engine: FakeAudit, folder: Path, run: Run) -> None:
    engine.result = sample()
    outcome = run("check", "--output", "text", "--output", "json:report.json")
    assert outcome.out.startswith("boundary tick")
    assert json.loads((folder / "report.json").read_text())["schema"] == "capaudit-report/1"


def test_two_runs_write_the_same_bytes(engine: FakeAudit, folder: Path, run: Run) -> None:
    outputs = set()
    for seconds in (0.5, 1.5):
        engine.result = sample(seconds=seconds)
        outputs.add(run("check", "--output", "json").out + run("check").out)
    assert len(outputs) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--output", "yaml"), "there is no format 'yaml'; choose text, json"),
        (("--output", "json:"), "a file name belongs after the colon"),
        (("--output", "json", "--output", "text"), "two reports would go to stdout"),
        (("--output", "json:a", "--output", "text:a"), "two reports would go to a"),
        (("--output", "json:absent/report.json"), "the report cannot be written: there is no such folder"),
        (("--output", "json:."), "the report cannot be written: it is a folder"),
        (("--select", "CAP999"), "no rule fits the selector 'CAP999'"),
        (("--ignore", "host-scalar-reed"), "did you mean 'host-scalar-read'?"),
        (("absent",), "there is no such file or folder"),
        (("a\0b",), "there is no such file or folder"),
        (("x" * 5000,), "cannot be used as a path"),
        (("--config", "absent.toml"), "the configuration cannot be read: No such file"),
        (("--config", "."), "the configuration cannot be read: Is a directory"),
        (("--capture", "cuda", "--entry", "a:b"), "'cuda' is not one of 'torch', 'warp', 'shared'"),
        (("--capture", "warp"), "give --entry too"),
        (("--no-such-option",), "No such option"),
    ],
)
def test_a_wrong_argument_is_one_message_and_status_2(
    engine: FakeAudit, folder: Path, run: Run, arguments: tuple[str, ...], message: str
) -> None:
    outcome = run("check", *arguments)
    assert outcome.status == 2
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def test_an_unknown_configuration_key_is_one_message_and_status_2(engine: FakeAudit, folder: Path, run: Run) -> None:
    (folder / "pyproject.toml").write_text("[tool.capaudit]\nselct = []\n")
    outcome = run("check")
    assert outcome.status == 2
    assert outcome.err == (
        f"capaudit: error: {folder}/pyproject.toml: unknown key 'tool.capaudit.selct'\n"
        "  remedy: did you mean 'select'?\n"
    )


def test_an_unknown_selector_in_the_configuration_names_its_file(engine: FakeAudit, folder: Path, run: Run) -> None:
    (folder / "pyproject.toml").write_text("[tool.capaudit]\nignore = ['CAP777']\n")
    outcome = run("check")
    assert outcome.status == 2
    assert f"{folder}/pyproject.toml: no rule fits the selector 'CAP777'" in outcome.err


@pytest.mark.parametrize("option", ["--select", "--ignore", "--extend-select", "--severity"])
def test_an_unknown_selector_of_the_command_line_is_not_blamed_on_the_configuration(
    engine: FakeAudit, folder: Path, run: Run, option: str
) -> None:
    (folder / "pyproject.toml").write_text("[tool.capaudit]\nignore = ['CAP101']\n")
    outcome = run("check", option, "CAP777=note" if option == "--severity" else "CAP777")
    assert outcome.status == 2
    assert outcome.err.startswith("capaudit: error: no rule fits the selector 'CAP777'\n")


def test_an_entry_that_does_not_resolve_is_status_2_with_the_nearest_names(
    engine: FakeAudit, folder: Path, run: Run
) -> None:
    engine.error = UnresolvedEntryError("CAP904: 'a:B.stp' names no function", remedy="did you mean 'a:B.step'?")
    outcome = run("check", "--entry", "a:B.stp")
    assert (outcome.status, outcome.out) == (2, "")
    assert "did you mean 'a:B.step'?" in outcome.err


def test_strict_refuses_to_call_an_unaudited_program_clean(engine: FakeAudit, folder: Path, run: Run) -> None:
    engine.result = sample(findings=(), boundaries=(), unresolved=0)
    assert run("check").status == 0
    assert "nothing was audited" in run("check", "--output", "json").err
    outcome = run("check", "--strict")
    assert outcome.status == 2
    assert "nothing was audited" in outcome.err


def test_a_path_without_read_permission_is_refused(
    engine: FakeAudit, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "secret.py").write_text("")
    # Permission bits do not bind the superuser, so the answer of the system is replaced.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    outcome = run("check", "secret.py")
    assert outcome.status == 2
    assert "secret.py: it cannot be read: permission denied" in outcome.err


def test_colours_need_a_terminal(engine: FakeAudit, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.result = sample()
    assert "\033[" not in run("check").out
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "\033[" in run("check").out
    assert "\033[" not in run("check", "--no-color").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033[" not in run("check").out


def test_force_color_colours_a_log_that_is_no_terminal(
    engine: FakeAudit, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.result = sample()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "0")
    assert "\033[" not in run("check").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\033[31m" in run("check").out
    assert "\033]8" not in run("check").out
    assert "\033[" not in run("check", "--no-color").out
    monkeypatch.setenv("FORCE_HYPERLINK", "1")
    assert "\033]8;;file:///" in run("check").out


def test_selectors_may_be_repeated_or_joined() -> None:
    assert split(("CAP1, CAP202", "host-scalar-read,")) == ("CAP1", "CAP202", "host-scalar-read")
