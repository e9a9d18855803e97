"""The composite action and the GitLab job: their own shell text, run as the services run it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.conftest import ROOT
from tests.gate.project import BAD, GOOD, environment, repository

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
GITLAB: dict[str, Any] = yaml.safe_load((ROOT / ".ci" / "gitlab.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
CHECK = next(step for step in STEPS if step.get("id") == "check")


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A folder with ``capaudit`` in it, as an installation leaves it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "capaudit"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m capaudit "$@"\n')
    script.chmod(0o755)
    return folder


class Job:
    """One run of the action's check step; the files are those that a runner hands to a step."""

    def __init__(self, tmp_path: Path, command: Path, source: str) -> None:
        self.folder = repository(tmp_path / "checkout", source)
        self.temp = tmp_path / "temp"
        self.temp.mkdir()
        self.command = command

    def run(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        given = {name: inputs.get(name, str(spec["default"])) for name, spec in ACTION["inputs"].items()}
        variables = {name: fill(value, given) for name, value in CHECK["env"].items()}
        files = {name: str(self.temp / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", CHECK["run"]],
            cwd=self.folder / given["working-directory"],
            env=environment(
                CAPAUDIT=str(self.command / "capaudit"),
                RUNNER_TEMP=str(self.temp),
                GITHUB_WORKSPACE=str(self.folder),
                **files,
                **variables,
            ),
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in (self.temp / "GITHUB_OUTPUT").read_text().splitlines())


def fill(text: str, inputs: dict[str, str]) -> str:
    for name, value in inputs.items():
        text = text.replace(f"${{{{ inputs.{name} }}}}", value)
    assert "${{" not in text, "an expression that this test does not know"
    return text


def test_findings_are_summarised_uploaded_and_fail_the_job(tmp_path: Path, command: Path) -> None:
    job = Job(tmp_path, command, BAD)
    done = job.run(paths="src")
    assert done.returncode == 0, "the result is told after the upload"
    assert "CAP103[host-to-device-copy]" in done.stdout
    assert job.outputs == {"status": "1", "sarif": "./capaudit.sarif"}
    assert "## capaudit: 1 finding in 1 boundary" in (job.temp / "GITHUB_STEP_SUMMARY").read_text()
    log = json.loads((job.folder / "capaudit.sarif").read_text())
    assert [found["ruleId"] for found in log["runs"][0]["results"]] == ["CAP103"]
    assert STEPS[-1]["run"] == 'exit "$CAPAUDIT_STATUS"'


def test_a_clean_run_passes(tmp_path: Path, command: Path) -> None:
    job = Job(tmp_path, command, GOOD)
    assert job.run(paths="src").returncode == 0
    assert job.outputs["status"] == "0"


def test_a_part_of_the_checkout_is_named_from_its_root(tmp_path: Path, command: Path) -> None:
    job = Job(tmp_path, command, BAD)
    done = job.run(paths="robots", args="--exit-zero\n--no-color", annotations="true", **{"working-directory": "src"})
    assert "::error title=CAP103 host-to-device-copy,file=src/robots/timers.py,line=9," in done.stdout
    assert job.outputs == {"status": "0", "sarif": "src/capaudit.sarif"}


def test_a_job_that_cannot_be_done_uploads_nothing_and_fails(tmp_path: Path, command: Path) -> None:
    job = Job(tmp_path, command, GOOD)
    done = job.run(paths="absent")
    assert "there is no such file or folder" in done.stderr
    assert job.outputs == {"status": "2"}


def test_inputs_run_nothing(tmp_path: Path, command: Path) -> None:
    job = Job(tmp_path, command, GOOD)
    job.run(
        paths='src"; touch "$RUNNER_TEMP/owned"; "', args="$(touch $RUNNER_TEMP/owned)", sarif="`touch owned`.sarif"
    )
    assert not (job.temp / "owned").exists()
    assert not (job.folder / "owned").exists()
    assert "${{" not in CHECK["run"]


def test_the_gitlab_job_leaves_the_reports_that_it_declares(tmp_path: Path, command: Path) -> None:
    job = GITLAB[".capaudit"]
    folder = repository(tmp_path / "checkout", BAD)
    variables = {name: str(value) for name, value in job["variables"].items() if "$" not in str(value)}
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(job["script"])],
        cwd=folder,
        env=environment(CI_PROJECT_DIR=str(folder), **variables, PATH=f"{command}:{environment()['PATH']}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (issue,) = json.loads((folder / job["artifacts"]["reports"]["codequality"]).read_text())
    assert issue["location"]["path"] == "src/robots/timers.py"
    suites = ElementTree.parse(folder / job["artifacts"]["reports"]["junit"]).getroot()
    assert suites.get("failures") == "1"
    assert all((folder / name).is_file() for name in job["artifacts"]["paths"])
    assert job["artifacts"]["when"] == "always", "a job that fails is the one whose reports are wanted"
