"""The reference collector is clean to the audit, and each of its negative controls is flagged, without torch."""

from __future__ import annotations

import pytest

from capaudit.probe.gates.audits import audit_tick
from capaudit.probe.targets.controls import CONTROLS, Control


def test_the_reference_tick_has_no_finding_and_nothing_unresolved_in_any_of_the_three_audits() -> None:
    audited = audit_tick()
    assert audited.codes == ()
    assert {item.audit for item in audited.observations} == {"environment", "backend", "collector"}
    for item in audited.observations:
        assert item.findings == item.unresolved == 0
        assert item.functions > 0, f"the {item.audit} audit reached nothing, so its zero says nothing"


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.hazard)
def test_each_negative_control_is_flagged_with_its_own_hazard(control: Control) -> None:
    audited = audit_tick(control)
    assert control.accepted & set(audited.codes), audited.places
    assert sum(item.findings for item in audited.observations) == len(audited.places)


def test_every_control_names_one_hazard_and_says_why_where_the_probe_cannot_see_it() -> None:
    assert len({control.code for control in CONTROLS}) == len({control.name for control in CONTROLS}) == len(CONTROLS)
    for control in CONTROLS:
        assert bool(control.why) is (control.probe == "ok"), control.hazard
