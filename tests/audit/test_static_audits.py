"""The three audits, and boundaries that would cover more than one control step."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capaudit.audit import AuditOptions, audit, find_boundaries
from capaudit.audit.configuration import load_configuration
from capaudit.model import BoundaryRefusedError, ConfigurationError, StaticAudit

ENVIRONMENT = """\
import mujoco_warp as mjw
import torch

from robots import physics


class Env:
    def __init__(self, model, data) -> None:
        self.reward = torch.zeros(8, device="cuda")
        self.model, self.data = model, data

    def step(self):{mark}
        self.reward += 1.0
        physics.advance(self.reward)
        mjw.step(self.model, self.data)
"""
PHYSICS = """\
def advance(reward):
    if reward.sum() > 0:
        reward.zero_()
    return reward.item()
"""
CONFIGURATION = """\
[[tool.capaudit.boundary]]
entry = "robots.env:Env.step"
capture = "shared"
{extra}
[tool.capaudit.audits]
environment = ["robots.env"]
backend = ["robots.phys*", "mujoco_warp"]
collector = ["robots.collector"]
"""


def write(folder: Path, mark: str = "", extra: str = "", text: str = CONFIGURATION) -> Path:
    (folder / "robots").mkdir(exist_ok=True)
    (folder / "robots" / "__init__.py").write_text("")
    (folder / "robots" / "env.py").write_text(ENVIRONMENT.replace("{mark}", mark))
    (folder / "robots" / "physics.py").write_text(PHYSICS)
    (folder / "pyproject.toml").write_text(text.replace("{extra}", extra))
    return folder


def audits(folder: Path) -> dict[str, StaticAudit]:
    configuration = load_configuration(folder / "pyproject.toml")
    result = audit(AuditOptions(paths=(folder,), configuration=configuration, working_directory=folder))
    return {found.audit: found for found in result.audits}


def test_findings_count_for_the_packages_that_hold_them(tmp_path: Path) -> None:
    found = audits(write(tmp_path))
    assert list(found) == ["environment", "backend", "collector"]
    assert (found["environment"].findings, found["environment"].functions) == (0, 1)
    assert found["backend"].findings >= 2
    assert (found["collector"].findings, found["collector"].functions) == (0, 0)


def test_a_package_that_is_only_called_is_looked_at_too(tmp_path: Path) -> None:
    text = CONFIGURATION.replace('"robots.phys*", ', "")
    assert audits(write(tmp_path, text=text))["backend"].functions == 1


def test_a_finding_counts_where_it_stands_and_for_what_it_calls(tmp_path: Path) -> None:
    # Warp is not told of the capture here, so that its step would lose it.
    text = CONFIGURATION.replace('"robots.phys*", ', "").replace("shared", "torch")
    found = audits(write(tmp_path, text=text))
    assert found["environment"].findings == found["backend"].findings >= 1


def test_audits_that_nobody_configured_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, text='[[tool.capaudit.boundary]]\nentry = "robots.env:Env.step"\n')
    assert audits(tmp_path) == {}


def test_a_selection_of_rules_does_not_make_an_audit_zero(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    everything = json.loads(run("check", "--output", "json").out)
    narrow = json.loads(run("check", "--output", "json", "--select", "CAP601").out)
    assert narrow["findings"] == []
    assert narrow["audits"] == everything["audits"]
    assert everything["audits"][1]["findings"] >= 2


def test_the_report_for_people_names_all_three(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    out = run("check").out
    assert "audit environment (robots.env): 0 findings in 1 function" in out
    assert "audit collector (robots.collector): not reached" in out


@pytest.mark.parametrize("value", ['["robots"]', '{ learner = ["x"] }', '{ backend = "x" }', '{ backend = [""] }'])
def test_audits_are_configured_strictly(tmp_path: Path, value: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.capaudit]\naudits = {value}\n")
    with pytest.raises(ConfigurationError):
        load_configuration(tmp_path / "pyproject.toml")


# -- more than one control step -----------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", ["k = 2", "k = 0", "action-sequence = true", "speculative = true"])
def test_configuration_refuses_more_than_one_step_with_the_place(tmp_path: Path, extra: str) -> None:
    with pytest.raises(BoundaryRefusedError) as caught:
        audits(write(tmp_path, extra=extra))
    assert str(caught.value.place).endswith("pyproject.toml: tool.capaudit.boundary[0]")


@pytest.mark.parametrize("extra", ["k = true", "k = 1.0", 'k = "1"', "speculative = 0"])
def test_configuration_wants_the_right_types(tmp_path: Path, extra: str) -> None:
    with pytest.raises(ConfigurationError):
        audits(write(tmp_path, extra=extra))


def test_configuration_takes_one_step_and_what_crosses(tmp_path: Path) -> None:
    write(tmp_path, extra='k = 1\ninputs = ["action"]\noutputs = ["reward"]')
    boundary = load_configuration(tmp_path / "pyproject.toml").boundaries[0]
    assert (boundary.k, boundary.inputs, boundary.outputs) == (1, ("action",), ("reward",))


@pytest.mark.parametrize("mark", ["  # capaudit: boundary k=2", "  # capaudit: boundary speculative=true"])
def test_a_comment_refuses_more_than_one_step_before_the_analysis(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, mark=mark, text="[tool.capaudit]\n")
    monkeypatch.setattr("capaudit.audit.engine.evaluate_entry", lambda *_: pytest.fail("the analysis has begun"))
    with pytest.raises(BoundaryRefusedError) as caught:
        audits(tmp_path)
    assert caught.value.place == "robots/env.py:12"


def test_what_a_decorator_says_crosses_the_boundary_is_read_without_running_it(tmp_path: Path) -> None:
    (tmp_path / "env.py").write_text(
        "import capaudit\n\n\nclass Env:\n"
        "    @capaudit.boundary(inputs=('action',), outputs=['reward', 'done'])\n    def step(self):\n        pass\n"
    )
    boundary = find_boundaries(AuditOptions(paths=(tmp_path,), working_directory=tmp_path))[0]
    assert (boundary.inputs, boundary.outputs) == (("action",), ("reward", "done"))


@pytest.mark.parametrize("argument", ["k=2", "action_sequence=True", "speculative=True"])
def test_a_decorator_refuses_more_than_one_step_before_the_analysis(tmp_path: Path, argument: str) -> None:
    (tmp_path / "env.py").write_text(
        f"import capaudit\n\n\nclass Env:\n    @capaudit.boundary({argument})\n    def step(self):\n        pass\n"
    )
    with pytest.raises(BoundaryRefusedError) as caught:
        audit(AuditOptions(paths=(tmp_path,), working_directory=tmp_path))
    assert caught.value.place == "env.py:6"
