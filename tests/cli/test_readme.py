"""The README's reference part is data for these tests, so that it cannot drift from the program."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import click
import jsonschema
import pytest

from capaudit.audit.configuration import Configuration, load_configuration
from capaudit.cli.check import check
from capaudit.cli.main import COMMANDS
from tests.conftest import ROOT
from tests.report.test_json import SCHEMA

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_json_example_is_a_valid_report_and_shows_every_key() -> None:
    (example,) = blocks("json")
    document = json.loads(example)
    jsonschema.validate(document, SCHEMA)
    assert "operations" in document


def test_the_configuration_example_is_valid_and_shows_every_setting(tmp_path: Path) -> None:
    (example,) = blocks("toml")
    file = tmp_path / "pyproject.toml"
    file.write_text(example, encoding="utf-8")
    configuration = load_configuration(file)
    defaults = Configuration()
    # ``strict`` is shown with its default.
    unset = [
        field.name
        for field in fields(configuration)
        if field.name != "strict" and getattr(configuration, field.name) == getattr(defaults, field.name)
    ]
    assert unset == []
    assert "strict = false" in example


def test_every_option_of_check_and_every_command_is_documented() -> None:
    options = [option for parameter in check.params if isinstance(parameter, click.Option) for option in parameter.opts]
    missing = [option for option in options if option.startswith("--") and f"`{option}" not in README]
    assert missing == []
    for command in COMMANDS:
        assert f"| `capaudit {command}" in README


def test_the_first_screen_has_exactly_two_commands() -> None:
    assert blocks("sh") == ["pip install . && capaudit check fixtures/demo\n", 'pip install -e ".[dev]" && pytest\n']
    assert README.index("pytest\n") < README.index("## What a finding says")


@pytest.mark.parametrize("step", ['pip install --quiet -e ".[dev]"', "pytest", "capaudit check capaudit"])
def test_the_project_s_own_check_runs_what_the_readme_says(step: str) -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(rf'^check "[^"]+" {re.escape(step)}( |$)', script, re.MULTILINE)


def test_the_python_examples_are_valid_python() -> None:
    for example in blocks("python"):
        compile(example, "README.md", "exec")
