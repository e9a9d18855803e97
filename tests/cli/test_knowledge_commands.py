from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import FakeAudit
from tests.report.sample import sample

Run = Callable[..., object]


@pytest.mark.parametrize("subject", ["CAP103", "cap103", "host-to-device-copy"])
def test_a_rule_is_explained_under_its_code_and_its_name(run: Run, subject: str) -> None:
    outcome = run("explain", subject)
    assert outcome.status == 0
    assert outcome.out.startswith("CAP103 host-to-device-copy (rejected)\n")
    for part in ("Why: ", "Remedy: ", "# expect: CAP103", "index_fill_"):
        assert part in outcome.out


def test_an_operation_is_explained_with_its_conditions_and_their_idioms(run: Run) -> None:
    outcome = run("explain", "torch.Tensor.item")
    assert outcome.status == 0
    for part in ("library: torch", "when self is", "rejected: CAP101 host-scalar-read", "otherwise:"):
        assert part in outcome.out
    _, _, idioms = outcome.out.partition("Idioms (")
    assert ": fails, CAP101" in idioms
    assert ".item()" in idioms


@pytest.mark.parametrize(
    ("subject", "hint"),
    [
        ("Tensor.item", "did you mean torch.Tensor.item?"),
        ("host-scalar-reed", "did you mean host-scalar-read"),
        ("zzzzzz", "`capaudit rules` lists the rules"),
    ],
)
def test_an_unknown_subject_names_the_nearest_and_is_status_2(run: Run, subject: str, hint: str) -> None:
    outcome = run("explain", subject)
    assert outcome.status == 2
    assert hint in outcome.err


def test_rules_lists_every_page_in_the_order_of_codes(run: Run) -> None:
    codes = [line.split()[0] for line in run("rules").out.splitlines()]
    assert codes == sorted(codes)
    assert {"CAP101", "CAP604", "CAP901", "CAP905"} <= set(codes)


def test_rules_can_be_narrowed_by_prefix_and_name(run: Run) -> None:
    codes = [line.split()[0] for line in run("rules", "CAP3", "host-scalar-read").out.splitlines()]
    assert codes == ["CAP101", "CAP301", "CAP302", "CAP303", "CAP304", "CAP305"]
    assert run("rules", "CAP8").status == 2


def test_rules_as_json_carries_message_and_remedy(run: Run) -> None:
    document = json.loads(run("rules", "CAP103", "--output", "json").out)
    assert document["schema"] == "capaudit-rules/1"
    (rule,) = document["rules"]
    assert (rule["code"], rule["name"], rule["class"]) == ("CAP103", "host-to-device-copy", "rejected")
    assert rule["message"]
    assert rule["remedy"]


def test_rules_as_markdown_is_a_reference_of_pages(run: Run, folder: Path) -> None:
    assert run("rules", "--output", "markdown:rules.md").status == 0
    text = (folder / "rules.md").read_text()
    assert "| CAP103 | `host-to-device-copy` | rejected |" in text
    assert "## CAP103 host-to-device-copy" in text


def test_boundaries_says_what_would_be_audited_and_why(engine: FakeAudit, folder: Path, run: Run) -> None:
    outcome = run("boundaries")
    assert outcome.out == "tick: timers:Timers.tick at timers.py:5 (torch capture; comment)\n"
    engine.result = sample(boundaries=())
    assert "Declare one" in run("boundaries").out


def test_inventory_collects_operations_and_never_judges(engine: FakeAudit, folder: Path, run: Run) -> None:
    engine.result = sample()
    outcome = run("inventory", "--output", "markdown")
    assert outcome.status == 0
    assert engine.asked[0].collect_operations
    assert outcome.out.startswith("## Boundary `tick`")
    assert "rejected" in run("inventory").out
