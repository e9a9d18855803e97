"""What a newcomer reads: every hazard says what runs and what helps, in words that stand alone in a report."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from capaudit.audit import AuditOptions, audit
from capaudit.knowledge import Rule, load
from capaudit.report import RenderOptions, render
from tests.conftest import ROOT

KNOWLEDGE = load()


def hazards() -> Iterator[tuple[str, str, str]]:
    """(entry, why, remedy) of everything in the tables that rejects; the remedy may be the rule's."""
    for entry in KNOWLEDGE.entries:
        if entry.hazard:
            yield entry.name, entry.why, entry.remedy or KNOWLEDGE.rules[entry.hazard].remedy
        for case in entry.cases:
            if case.hazard:
                yield entry.name, case.why or entry.why, case.remedy or KNOWLEDGE.rules[case.hazard].remedy


def test_every_hazard_of_the_tables_says_what_runs_and_what_helps() -> None:
    short = [(name, why) for name, why, remedy in hazards() if len(why.split()) < 5 or len(remedy.split()) < 2]
    assert short == []


def test_no_reason_begins_with_the_call_that_stands_before_it_anyway() -> None:
    verbs = r"(?:of|is|reads|takes|asks|goes|selects|binds|expands|wants)\b"
    doubled = [
        (name, why)
        for name, why, _ in hazards()
        if re.match(rf"(?:[\w.]+\.)?{re.escape(name.rpartition('.')[2])}(?:\([\w, ]*\))? {verbs}", why)
    ]
    assert doubled == []


def test_reasons_are_clauses_and_remedies_are_sentences() -> None:
    wrong = [
        (name, why, remedy) for name, why, remedy in hazards() if why.endswith(".") or not remedy.endswith((".", ")"))
    ]
    assert wrong == []


@pytest.mark.parametrize("rule", KNOWLEDGE.rules.values(), ids=lambda rule: rule.code)
def test_a_rule_gives_its_reason_and_the_kind_of_change(rule: Rule) -> None:
    assert len(rule.message.split()) >= 8, "why capture forbids it"
    assert len(rule.remedy.split()) >= 3, "what kind of change helps"
    assert not rule.message.endswith(".")


def test_every_finding_of_the_demo_answers_a_newcomer_s_five_questions() -> None:
    folder = ROOT / "fixtures" / "demo"
    result = audit(AuditOptions((folder,), working_directory=folder))
    assert len({finding.code for finding in result.findings}) > 15
    for finding in result.findings:
        assert finding.message, "what runs here"
        assert finding.call_path, "how the call gets here"
        assert finding.remedy, "what kind of change helps"
    report = render("text", result, RenderOptions(working_directory=folder))
    for code in {finding.code for finding in result.findings if finding.hazard}:
        rule = KNOWLEDGE.rules[code]
        assert f"{code}[{rule.name}]" in report, "by which name it goes"
        shown = rule.message in report
        assert shown, f"{code}: why capture forbids it"
