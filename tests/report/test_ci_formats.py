"""The formats of CI services: what they must escape, and what they do with findings that repeat."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from capaudit.model import Finding, OwnershipClass, Place
from capaudit.report import RenderOptions, render
from tests.report.hostile import NASTY, NASTY_FILE
from tests.report.sample import BROKEN_FILE, UPLOAD, full_sample, sample

ALL = ("sarif", "github", "gitlab", "junit", "markdown")


def made(name: str, *findings: Finding) -> str:
    return render(name, sample(findings=findings, unresolved=0), RenderOptions())


@pytest.mark.parametrize("name", ALL)
def test_every_format_names_place_rule_cause_and_remedy(name: str) -> None:
    text = made(name, UPLOAD)
    for part in ("timers.py", "CAP103", "host-to-device-copy", UPLOAD.message, "index"):
        assert part in text


@pytest.mark.parametrize("name", [*ALL, "text", "json"])
def test_nothing_in_a_source_can_break_out_of_a_report(name: str) -> None:
    text = made(name, NASTY)
    text.encode("utf-8")
    assert "\x1b" not in text
    assert "\x00" not in text


# -- GitHub ----------------------------------------------------------------------------------------------------------


def test_an_annotation_is_one_line_with_its_parts_escaped() -> None:
    (line,) = made("github", NASTY).splitlines()
    found = re.fullmatch(r"::error ([^:]*)::(.*)", line)
    assert found is not None
    properties = dict(part.split("=", 1) for part in found[1].split(","))
    assert properties["file"] == "my robots/gr\u00f6\u00dfe%2C 100%25%3A a[1]#?.py"
    assert (properties["line"], properties["endLine"]) == ("3", "5")
    assert "col" not in properties, "columns are allowed within one line only"
    assert "%0AReached by: " in found[2]


def test_an_annotation_of_one_line_has_columns() -> None:
    assert "file=timers.py,line=3,endLine=3,col=9,endColumn=29::" in made("github", UPLOAD)


def test_a_clean_result_annotates_nothing() -> None:
    assert made("github") == ""


def test_what_only_strict_fails_is_annotated_as_a_warning() -> None:
    assert made("github", replace(UPLOAD, ownership=OwnershipClass.UNRESOLVED)).startswith("::warning ")


# -- GitLab ----------------------------------------------------------------------------------------------------------


def test_a_code_quality_report_has_what_gitlab_reads() -> None:
    (issue,) = json.loads(made("gitlab", NASTY))
    assert issue["location"] == {"path": NASTY_FILE, "lines": {"begin": 3, "end": 5}}
    assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
    assert json.loads(made("gitlab")) == []


def test_equal_findings_keep_fingerprints_of_their_own_that_survive_moved_lines() -> None:
    def prints(*lines: int) -> list[str]:
        findings = [replace(UPLOAD, place=Place("timers.py", line, 1, line, 5)) for line in lines]
        return [issue["fingerprint"] for issue in json.loads(made("gitlab", *findings))]

    assert len(set(prints(3, 8))) == 2
    assert prints(3, 8) == prints(13, 18)


# -- JUnit -----------------------------------------------------------------------------------------------------------


def test_junit_counts_failures_and_holds_no_character_that_xml_forbids() -> None:
    root = ElementTree.fromstring(made("junit", NASTY, BROKEN_FILE))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "0")
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.get("type") == "CAP103"
    assert "\N{REPLACEMENT CHARACTER}" in (failure.text or "")
    assert "]]>" in (failure.text or "")


def test_a_boundary_without_findings_is_a_passed_test() -> None:
    root = ElementTree.fromstring(made("junit"))
    assert (root.get("tests"), root.get("failures")) == ("1", "0")


def test_what_is_accepted_is_skipped_with_the_reason() -> None:
    root = ElementTree.fromstring(render("junit", full_sample(), RenderOptions()))
    reasons = [skipped.get("message") for skipped in root.iter("skipped")]
    assert reasons == ["suppressed: debug build only", "accepted by the baseline"]
    assert (root.get("failures"), root.get("skipped")) == ("1", "2")


# -- Markdown --------------------------------------------------------------------------------------------------------


def test_the_summary_stays_short_whatever_was_found() -> None:
    long = replace(NASTY, message="why " * 500, remedy="do " * 500, call_path=NASTY.call_path * 50)
    text = made("markdown", *[replace(long, place=Place("d/" * 200 + "f.py", n, 1, n, 2)) for n in range(1, 3001)])
    assert "and 2980 more." in text
    assert len(text) < 40_000


def test_the_summary_shows_what_fails_before_what_does_not() -> None:
    warnings = [
        replace(UPLOAD, ownership=OwnershipClass.UNRESOLVED, place=Place("a.py", n, 1, n, 2)) for n in range(30)
    ]
    assert "`z.py:1`" in made("markdown", *warnings, replace(UPLOAD, place=Place("z.py", 1, 1, 1, 2)))


def test_the_summary_makes_neither_links_nor_mentions_nor_markup_of_source_text() -> None:
    text = made("markdown", NASTY)
    rows = [line for line in text.splitlines() if "CAP103" in line and line.startswith("|")]
    assert len(rows) == 1
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 5
    assert re.search(r"(?<!\\)\]\(", text) is None
    for forbidden in ("<b>", "<script>", "@everyone"):
        assert forbidden not in text


def test_the_summary_of_a_clean_run_says_so_and_one_of_no_audit_does_not() -> None:
    assert "## capaudit: no findings in 1 boundary" in made("markdown")
    nothing = render("markdown", sample(findings=(), boundaries=()), RenderOptions())
    assert "## capaudit: nothing was audited" in nothing


def test_the_summary_shows_what_a_run_observed_and_what_is_accepted() -> None:
    text = render("markdown", full_sample(), RenderOptions())
    assert "| CAP103 host-to-device-copy | 1 | 0 | 0 | 2 |" in text
    assert "1 suppressed, 1 accepted by the baseline, 1 gone from the code but still in the baseline." in text
