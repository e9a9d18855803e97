"""The table of negative controls: when its rows agree, and what becomes of one that does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capaudit.evidence import loads
from capaudit.evidence.storage import dumps
from capaudit.model import InputError
from capaudit.probe.gates import control_table
from capaudit.probe.gates.audits import Audited
from capaudit.probe.gates.control_table import Row, probe_controls, render, table
from capaudit.probe.gates.gate_s import GateOptions
from capaudit.probe.targets.controls import CONTROLS, Control, control

OPTIONS = GateOptions(worlds=8, device="cpu")


def row(hazard: str, codes: tuple[str, ...], probe: str, gate: str = "fail") -> Row:
    return Row(control(hazard), Audited(codes, (), ()), probe, "", "", gate, "audit environment (findings)")


@pytest.mark.parametrize(
    ("found", "agreement"),
    [
        (row("host-scalar-read", ("CAP101",), "fails"), "agree"),
        (row("frozen-host-state", ("CAP501", "CAP101"), "wrong_on_replay"), "agree"),
        (row("data-dependent-branch", ("CAP101",), "fails"), "agree"),
        (row("host-scalar-read", ("CAP501",), "fails"), "disagree"),
        (row("host-scalar-read", ("CAP101",), "ok"), "disagree"),
        (row("host-scalar-read", ("CAP101",), "failed"), "disagree"),
        (row("host-scalar-read", ("CAP101",), "fails", gate="pass"), "disagree"),
        (row("backend-private-probing", ("CAP601",), "ok"), "explained"),
        (row("backend-private-probing", ("CAP601",), "inconclusive"), "disagree"),
        (row("host-scalar-read", ("CAP101",), "not run"), "not reached"),
        (row("host-scalar-read", ("CAP101",), "fails", gate="not run"), "not reached"),
    ],
)
def test_a_row_agrees_where_all_three_refuse_or_says_why_the_probe_cannot_see_it(found: Row, agreement: str) -> None:
    assert found.agreement == agreement


def test_the_table_is_evidence_that_loads_again_and_names_the_reason_of_an_explained_row() -> None:
    rows = [row("host-scalar-read", ("CAP101",), "fails"), row("silent-eager-fallback", ("CAP604",), "ok")]
    found = table(rows, OPTIONS)
    assert found.verdict == "agrees"
    assert loads(dumps(found)) == found
    lines = list(render(found))
    assert len(lines) == 4
    assert "explained: the tick itself captures" in lines[3]


def test_one_row_that_disagrees_makes_the_table_disagree() -> None:
    rows = [row("host-scalar-read", ("CAP101",), "not run"), row("host-to-device-copy", (), "fails")]
    assert table(rows, OPTIONS).verdict == "disagrees"
    assert table(rows[:1], OPTIONS).verdict == "inconclusive"
    assert table([], OPTIONS).verdict == "inconclusive", "nothing was asked, so nothing agrees"


def test_finished_rows_are_kept_while_others_still_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(item: Control, options: GateOptions) -> Row:
        return replace(row("host-scalar-read", (item.code,), "fails"), control=item)

    monkeypatch.setattr(control_table, "run_control", run)
    kept: list[int] = []
    found = probe_controls(OPTIONS, jobs=1, keep=lambda part: kept.append(len(part.records)))
    assert kept == list(range(1, len(CONTROLS) + 1))
    assert [record.hazard for record in found.records] == sorted(item.code for item in CONTROLS)


def test_an_unknown_hazard_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="no control for 'CAP999'"):
        control("CAP999")
