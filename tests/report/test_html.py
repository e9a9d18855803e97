from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from capaudit.cli.report import report
from capaudit.evidence import Environment, Event, Evidence
from capaudit.model import InputError, Result
from capaudit.report import RenderOptions
from capaudit.report.html import render_page
from capaudit.report.json import document as as_document
from capaudit.report.reading import read_report
from tests.report.sample import UPLOAD, sample, written

PROGRAM = """\
import torch


class Timers:
    def __init__(self) -> None:
        self.left = torch.ones(64, device="cuda")

    def restart(self, ids: torch.Tensor) -> None:
        self.left[ids] = 0.0

    def tick(self, ids: torch.Tensor) -> None:  # capaudit: boundary
        self.restart(ids)
"""


def document(result: Result, *, operations: bool = True) -> dict[str, Any]:
    return as_document(result, RenderOptions(operations=operations))


def data(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def trace(*events: Event) -> Evidence:
    return Evidence(
        "run", "2026-11-29T22:45:28+00:00", Environment("3.12", "Linux"), {}, "trace", {}, "faults", (), events
    )


def test_hostile_text_stays_text_and_cannot_leave_its_script_element(tmp_path: Path) -> None:
    attack = "</script><script>alert(1)</script><!--\u2028"
    finding = replace(UPLOAD, message=attack, remedy=attack, why=(attack,), boundary=attack)
    boundary = replace(sample().boundaries[0], name=attack, entry=attack)
    page = render_page(document(sample(findings=(finding,), boundaries=(boundary,))), tmp_path)
    assert page.lower().count("<script") == 2
    assert page.lower().count("</script") == 2
    assert data(page)["findings"][0]["message"] == attack
    assert "<title>&lt;/script&gt;" in page


def test_the_page_allows_its_own_script_alone_and_names_no_address(tmp_path: Path) -> None:
    page = render_page(document(sample()), tmp_path)
    assert re.search(r"default-src 'none'; script-src 'sha256-[A-Za-z0-9+/=]{44}'", page)
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", page)


def test_the_same_report_gives_the_same_bytes(tmp_path: Path) -> None:
    written(tmp_path)
    assert render_page(document(sample()), tmp_path) == render_page(document(sample()), tmp_path)


def test_a_report_without_operations_still_shows_the_code_around_its_findings(tmp_path: Path) -> None:
    (tmp_path / "timers.py").write_text(PROGRAM, encoding="utf-8")
    finding = replace(UPLOAD, place=replace(UPLOAD.place, line=9, end_line=9))
    path = (replace(UPLOAD.call_path[0], line=11), replace(UPLOAD.call_path[1], line=12))
    content = data(
        render_page(document(sample(findings=(replace(finding, call_path=path),)), operations=False), tmp_path)
    )
    names = {content["strings"][row[0]]: (row[2], row[3]) for row in content["functions"]}
    assert names == {"Timers.tick": (11, 12), "Timers.restart": (8, 9)}
    assert "--operations" in content["note"]


def test_only_python_files_come_into_the_page(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("password\n" * 20, encoding="utf-8")
    finding = replace(UPLOAD, place=replace(UPLOAD.place, file="secret.txt"))
    assert "password" not in render_page(document(sample(findings=(finding,)), operations=False), tmp_path)


def test_evidence_finds_its_lines_by_package_and_not_by_name_alone(tmp_path: Path) -> None:
    here = Event("src", "timers.py", 3, "Timers.restart", "recorded", nodes={"kernel": 3})
    elsewhere = Event("other", "timers.py", 3, "Timers.restart", "recorded", nodes={"kernel": 9})
    text = json.dumps(document(sample())).replace('"timers.py"', '"code/src/timers.py"')
    page = render_page(json.loads(text), tmp_path, [("run.json", trace(here, elsewhere))])
    assert [event["nodes"] for event in data(page)["events"]] == [{"kernel": 3}]


def test_the_command_audits_or_reads_a_report_and_both_give_one_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from capaudit.cli.check import check

    monkeypatch.chdir(tmp_path)
    (tmp_path / "timers.py").write_text(PROGRAM, encoding="utf-8")
    arguments = ["timers.py", "--isolated"]
    assert CliRunner().invoke(report, [*arguments, "--html", "audited.html"]).exit_code == 0
    CliRunner().invoke(check, [*arguments, "--operations", "--output", "json:result.json"], standalone_mode=False)
    assert CliRunner().invoke(report, ["--from", "result.json", "--html", "read.html"]).exit_code == 0
    assert Path("audited.html").read_bytes() == Path("read.html").read_bytes()
    assert "self.left[ids] = 0.0" in Path("read.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "not JSON"),
        ('{"schema": "capaudit-report/1"', "not JSON"),
        ("[]", "not an object"),
        ('{"schema": "capaudit-evidence/1"}', '"schema" is "capaudit-evidence/1"'),
        ('{"schema": "capaudit-report/1"}', '"boundaries" is missing'),
        ('{"schema": "capaudit-report/1", "boundaries": [], "findings": [{}]}', 'findings[0]."file" is missing'),
        ('{"schema": "capaudit-report/1", "boundaries": 1, "findings": []}', '"boundaries" is not a list'),
    ],
)
def test_a_file_that_is_no_report_is_named_with_what_is_wrong(tmp_path: Path, text: str, cause: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_report(file)
    assert cause in caught.value.message
    assert caught.value.place == str(file)
    assert "--operations" in (caught.value.remedy or "")
