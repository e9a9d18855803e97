"""Selection by path and weight: what is reported, and what fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from capaudit.audit.configuration import Configuration
from capaudit.audit.selection import Override, severity_of
from capaudit.model import Severity
from tests.conftest import Outcome
from tests.gate.robot import project

Run = Callable[..., Outcome]
ROOT = Path("/project")
SCALAR, COPY = ("CAP101", "host-scalar-read"), ("CAP103", "host-to-device-copy")


def overridden(*overrides: Override, **settings: object) -> Configuration:
    return Configuration(root=ROOT, overrides=overrides, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("configuration", "reported"),
    [
        (overridden(Override(("robots/*",), ignore=("CAP1",))), False),
        (overridden(Override(("robots",), ignore=("CAP1",))), False),
        (overridden(Override(("robots/",), ignore=("CAP1",))), False),
        (overridden(Override(("robot",), ignore=("CAP1",))), True),
        (overridden(Override(("env.py",), ignore=("CAP103",))), False),
        (overridden(Override(("scripts",), ignore=("CAP1",))), True),
        (overridden(Override(("robots",), select=("CAP2",))), False),
        (overridden(Override(("robots",), select=("CAP1",)), select=("CAP2",)), True),
        (overridden(Override(("robots",), extend_select=("CAP103",)), ignore=("CAP103",)), True),
        (overridden(Override(("robots",), ignore=("CAP1",), extend_select=("CAP103",))), True),
        (
            overridden(Override(("robots",), ignore=("CAP103",)), Override(("*",), extend_select=("CAP1",))),
            True,
        ),
        (
            overridden(Override(("*",), extend_select=("CAP1",)), Override(("robots",), ignore=("CAP103",))),
            False,
        ),
        (
            overridden(Override(("robots",), extend_select=("CAP103",)), per_file_ignores={"robots/*": ("CAP103",)}),
            False,
        ),
    ],
)
def test_the_last_override_that_names_the_rule_decides(configuration: Configuration, reported: bool) -> None:
    assert configuration.reports(*COPY, ROOT / "robots" / "env.py") is reported


def test_a_narrow_override_does_not_hide_meta_findings() -> None:
    configuration = overridden(Override(("robots",), select=("CAP2",)))
    assert configuration.reports("CAP905", "unparsable-file", ROOT / "robots" / "env.py")


def test_the_most_specific_weight_counts_and_an_override_s_comes_first() -> None:
    configuration = overridden(
        Override(("scripts",), severity={"CAP1": Severity.NOTE}),
        severity={"CAP": Severity.WARNING, "CAP103": Severity.ERROR},
    )
    inside, outside = ROOT / "scripts" / "a.py", ROOT / "env.py"
    assert severity_of(configuration, *COPY, outside) is Severity.ERROR
    assert severity_of(configuration, *SCALAR, outside) is Severity.WARNING
    assert severity_of(configuration, *COPY, inside) is Severity.NOTE
    assert severity_of(Configuration(), *COPY, outside) is Severity.ERROR


@pytest.mark.parametrize(
    ("level", "arguments", "status"),
    [
        ("error", (), 1),
        ("warning", (), 0),
        ("warning", ("--strict",), 1),
        ("note", (), 0),
        ("note", ("--strict",), 0),
        ("error", ("--exit-zero",), 0),
    ],
)
def test_the_weight_decides_what_fails(
    folder: Path, run: Run, level: str, arguments: tuple[str, ...], status: int
) -> None:
    project(folder, f'severity = {{CAP = "{level}"}}\n')
    outcome = run("check", "--output", "json", *arguments)
    assert outcome.status == status
    findings = json.loads(outcome.out)["findings"]
    assert findings
    assert {finding["severity"] for finding in findings} == {level}


def test_the_command_line_weighs_last(folder: Path, run: Run) -> None:
    project(
        folder,
        'severity = {CAP = "note"}\n[[tool.capaudit.overrides]]\npaths = ["robots"]\nseverity = {CAP1 = "note"}\n',
    )
    outcome = run("check", "--output", "json", "--severity", "host-scalar-read=error")
    weights = {finding["code"]: finding["severity"] for finding in json.loads(outcome.out)["findings"]}
    assert (outcome.status, weights) == (1, {"CAP101": "error", "CAP201": "note"})
    assert run("check", "--severity", "CAP101=loud").status == 2
    assert run("check", "--severity", "CAP998=note").status == 2


def test_settings_and_files_are_shown_and_nothing_is_audited(folder: Path, run: Run) -> None:
    project(folder, 'ignore = ["CAP5"]\n')
    shown = run("check", "--show-settings", "--select", "host-scalar-read")
    assert shown.status == 0
    assert 'select = ["CAP101"]' in shown.out
    assert 'ignore = ["CAP5"]' in shown.out
    assert "# configuration: pyproject.toml" in shown.out
    assert run("check", "--show-files").out == "robots/env.py\n"
    isolated = run("check", "--show-settings", "--isolated")
    assert "# configuration: none" in isolated.out


def test_statistics_count_per_rule(folder: Path, run: Run) -> None:
    project(folder)
    lines = run("check", "--statistics").out.splitlines()
    assert "2  CAP101  host-scalar-read" in lines
    assert "1  CAP201  dynamic-compaction" in lines
