from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest

from capaudit.audit import AuditOptions, audit
from capaudit.model import Finding, OwnershipClass, Place, Result, Severity
from capaudit.report import RenderOptions, render
from tests.conftest import ROOT
from tests.report.hostile import NASTY, NASTY_FILE
from tests.report.sample import ACCEPTED, BROKEN_FILE, SILENCED, UPLOAD, full_sample, sample

SCHEMA = json.loads((ROOT / "fixtures" / "schemas" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.FormatChecker())


def log(result: Result, **options: Any) -> dict[str, Any]:
    document = json.loads(render("sarif", result, RenderOptions(**options)))
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    (run,) = document["runs"]
    return dict(run)


def only(finding: Finding, **options: Any) -> dict[str, Any]:
    (made,) = log(sample(findings=(finding,)), **options)["results"]
    return dict(made)


@pytest.mark.parametrize("findings", [(), (UPLOAD,), (UPLOAD, BROKEN_FILE), (NASTY, NASTY)])
def test_every_log_is_valid_by_the_official_schema(findings: tuple[Finding, ...]) -> None:
    assert len(log(sample(findings=findings))["results"]) == len(findings)


def test_the_code_flow_is_the_call_path_and_ends_at_the_operation() -> None:
    (flow,) = only(UPLOAD)["codeFlows"]
    (thread,) = flow["threadFlows"]
    steps = [
        (step["location"]["physicalLocation"]["region"]["startLine"], step["nestingLevel"])
        for step in thread["locations"]
    ]
    assert steps == [(5, 0), (6, 1), (3, 2)]
    assert "Timers.restart" in thread["locations"][1]["location"]["message"]["text"]


def test_every_finding_has_a_flow_also_one_that_no_call_leads_to() -> None:
    assert all(made["codeFlows"][0]["threadFlows"][0]["locations"] for made in log(sample())["results"])


def test_a_result_points_to_its_rule_and_the_rule_has_help_in_both_forms() -> None:
    run = log(sample(findings=(UPLOAD,)))
    rule = run["tool"]["driver"]["rules"][run["results"][0]["ruleIndex"]]
    assert (rule["id"], rule["name"]) == ("CAP103", "host-to-device-copy")
    assert "```python" in rule["help"]["markdown"]
    assert "```" not in rule["help"]["text"]
    assert rule["defaultConfiguration"]["level"] == "error"


def test_columns_count_code_points_and_end_after_the_last() -> None:
    # "ä = '😀'; x.item()": the call starts at character 10 and is 8 characters long.
    made = only(replace(UPLOAD, place=Place("timers.py", 1, 10, 1, 18)))
    region = made["locations"][0]["physicalLocation"]["region"]
    assert log(sample())["columnKind"] == "unicodeCodePoints"
    assert (region["startColumn"], region["endColumn"]) == (10, 18)


def test_files_are_percent_encoded_and_relative_to_the_root() -> None:
    artifact = only(NASTY)["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact["uriBaseId"] in log(sample())["originalUriBaseIds"]
    assert unquote(artifact["uri"]) == NASTY_FILE
    assert set(artifact["uri"]).isdisjoint(" ,:#?[]%ö") or "%" in artifact["uri"]
    assert "%23%3F" in artifact["uri"]
    assert "%25%3A" in artifact["uri"]


def test_a_file_name_that_is_no_text_keeps_its_bytes() -> None:
    made = only(replace(UPLOAD, place=Place("a\udcff.py", 1, 1, 1, 2)))
    assert made["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%FF.py"


def test_a_file_outside_of_the_root_is_an_absolute_uri_without_a_base(tmp_path: Path) -> None:
    inside = tmp_path / "work"
    (related,) = only(NASTY, working_directory=inside)["relatedLocations"]
    artifact = related["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": f"file://{tmp_path.as_posix()}/outside/a%20b.py"}
    assert related["message"]["text"].startswith("bound | here")


def test_a_checkout_names_files_from_its_root(tmp_path: Path) -> None:
    made = only(UPLOAD, working_directory=tmp_path / "sub dir", root=tmp_path)
    assert made["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "sub%20dir/timers.py"


def test_the_invocation_tells_the_status_and_what_limits_the_audit() -> None:
    (invocation,) = log(sample(), status=1)["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (True, 1)
    told = [note.get("associatedRule", {}).get("id") for note in invocation["toolExecutionNotifications"]]
    assert told == ["CAP901", "CAP905"]


def test_a_run_without_a_boundary_does_not_look_clean() -> None:
    (invocation,) = log(sample(findings=(), boundaries=(), unresolved=0))["invocations"]
    (note,) = invocation["toolExecutionNotifications"]
    assert (note["level"], "nothing was audited" in note["message"]["text"]) == ("warning", True)


def test_what_only_strict_fails_is_a_warning() -> None:
    assert only(UPLOAD)["level"] == "error"
    assert only(replace(UPLOAD, ownership=OwnershipClass.UNRESOLVED))["level"] == "warning"


def test_an_index_and_a_call_are_not_read_as_a_link() -> None:
    assert "](" not in only(NASTY)["message"]["text"]


def test_the_fingerprint_is_the_finding_s_own() -> None:
    assert list(only(UPLOAD)["partialFingerprints"].values()) == [UPLOAD.fingerprint]


def test_a_place_without_a_line_is_still_a_valid_region() -> None:
    assert only(replace(UPLOAD, place=Place("a.py", 0, 0, 0, 0)))["locations"]


def test_the_log_is_the_same_wherever_the_checkout_lies(tmp_path: Path) -> None:
    first = render("sarif", sample(), RenderOptions(working_directory=tmp_path / "a"))
    assert first == render("sarif", sample(), RenderOptions(working_directory=tmp_path / "b"))


def test_what_is_accepted_is_told_with_its_reason_and_never_as_new() -> None:
    results = log(full_sample())["results"]
    by_print = {made["partialFingerprints"]["capaudit/v1"]: made for made in results}
    (comment,) = by_print[SILENCED.fingerprint]["suppressions"]
    assert (comment["kind"], comment["justification"]) == ("inSource", "debug build only")
    (entry,) = by_print[ACCEPTED.fingerprint]["suppressions"]
    assert (entry["kind"], by_print[ACCEPTED.fingerprint]["baselineState"]) == ("external", "unchanged")
    assert "suppressions" not in by_print[UPLOAD.fingerprint]
    assert all("baselineState" in made for made in results), "all results have a state, or none has"


def test_without_a_baseline_no_result_has_a_state() -> None:
    assert "baselineState" not in only(UPLOAD)


@pytest.mark.parametrize("severity", list(Severity))
def test_the_level_is_the_severity(severity: Severity) -> None:
    assert only(replace(UPLOAD, severity=severity))["level"] == severity.value


def test_the_demo_s_log_is_valid_with_a_code_flow_per_finding_and_every_place_in_its_file() -> None:
    folder = ROOT / "fixtures" / "demo"
    result = audit(AuditOptions((folder,), working_directory=folder, collect_fixes=True))
    run = log(result, working_directory=folder)
    assert len(run["results"]) == len(result.findings) > 20
    for made in run["results"]:
        (flow,) = made["codeFlows"]
        steps = flow["threadFlows"][0]["locations"]
        assert len(steps) >= 2
        for step in [*steps, *({"location": location} for location in made["locations"])]:
            physical = step["location"]["physicalLocation"]
            lines = (folder / unquote(physical["artifactLocation"]["uri"])).read_text(encoding="utf-8").split("\n")
            region = physical["region"]
            assert lines[region["startLine"] - 1].strip()
            if "endColumn" in region:
                assert region["endColumn"] <= len(lines[region["endLine"] - 1]) + 1
