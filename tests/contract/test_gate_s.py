"""Gate S: semantics, from evidence. What is missing is never a pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capaudit.contract import INVALIDATION_REASONS, MalformedError
from capaudit.contract.documents import dumps, from_document, loads, to_document
from capaudit.contract.gate_s import judge_gate_s
from capaudit.contract.gate_s_evidence import GATE_S_SCHEMA, ArmRun, GateSEvidence
from capaudit.contract.gate_words import (
    ABSENT_FIELDS,
    ARMS,
    AUDITS,
    FAULTS,
    FIELDS,
    GROUPED_FIELDS,
    MASKS,
    TOLERANT_FIELDS,
    TRAJECTORIES,
)
from capaudit.contract.verdicts import Check
from tests.contract.samples import (
    HEAD,
    MANIFESTS,
    OTHER_HEAD,
    WORLDS,
    gate_s_evidence,
    manifest,
)

EVIDENCE = gate_s_evidence()
OTHER_DIGEST = "0" * 64


def null_arm(evidence: GateSEvidence) -> tuple[str, tuple[Check, ...]]:
    arm = judge_gate_s(evidence).arm("null")
    assert arm is not None
    return arm.verdict, tuple(check for check in arm.checks if check.verdict != "pass")


def observed(evidence: GateSEvidence, where: Any, **changes: Any) -> GateSEvidence:
    found = [replace(item, **changes) if where(item) else item for item in evidence.observations]
    return replace(evidence, observations=tuple(found))


def with_manifest(trajectory: str, **changes: Any) -> GateSEvidence:
    manifests = dict(MANIFESTS)
    manifests[trajectory] = replace(manifests[trajectory], **changes)
    return replace(EVIDENCE, arms=(ArmRun("null", "run", "", manifests, ()), EVIDENCE.arms[1]))


# -- the whole ----------------------------------------------------------------------------------------------------


def test_the_fields_are_those_that_the_decision_record_lists() -> None:
    assert set(FIELDS) == {
        "observations", "rewards", "reward_components", "terminated", "truncated", "episode_counters",
        "reset_counters", "actions", "commands", "recorder_trace", "reward_means", "curriculum_state", "metrics",
        "terminal_observations", "reset_observations", "post_reset_observations", "qpos", "qvel", "rng_state",
        "rng_versions", "lifecycle_snapshot", "capture_identity", "transition_layout", "transition_order",
        "ingress_commit_order",
    }  # fmt: skip
    assert set(ARMS) == {"null", "mps"}
    assert set(TRAJECTORIES) == {"eager", "graph", "warmup_replay"}
    assert set(MASKS) == {"empty", "partial", "full"}


def test_complete_and_equal_evidence_passes_on_its_arm_and_nowhere_else() -> None:
    verdict = judge_gate_s(EVIDENCE)
    assert [(arm.arm, arm.verdict) for arm in verdict.arms] == [("null", "pass"), ("mps", "not reached")]
    assert verdict.verdict == "not reached"
    assert verdict.arms[1].checks[0].detail == "the MPS daemon cannot be started"
    assert verdict.claim == "evidence only"


def test_both_arms_together_pass_the_gate() -> None:
    def for_mps(items: Any) -> Any:
        return tuple(replace(item, arm="mps") for item in items)

    both = replace(
        EVIDENCE,
        arms=(EVIDENCE.arms[0], replace(EVIDENCE.arms[0], arm="mps")),
        observations=EVIDENCE.observations + for_mps(EVIDENCE.observations),
        faults=EVIDENCE.faults + for_mps(EVIDENCE.faults),
        orderings=EVIDENCE.orderings + for_mps(EVIDENCE.orderings),
    )
    assert judge_gate_s(both).verdict == "pass"
    assert judge_gate_s(both).claim == "evidence only"


def test_an_arm_that_the_evidence_does_not_speak_of_is_not_reached() -> None:
    assert null_arm(replace(EVIDENCE, arms=EVIDENCE.arms[1:]))[0] == "not reached"


def test_a_structural_no_go_is_a_result_with_its_evidence() -> None:
    reason = "replay inside a capture is prohibited, and a transient free invalidates the caller's capture"
    arm = ArmRun("null", "no_go", reason, {}, ("matrix/nested", "matrix/transient-free"))
    verdict, checks = null_arm(replace(EVIDENCE, arms=(arm, EVIDENCE.arms[1])))
    assert verdict == "not reached"
    assert checks[0].code == "no-go"
    assert reason in checks[0].detail
    assert "matrix/transient-free" in checks[0].detail
    with pytest.raises(MalformedError):
        ArmRun("null", "no_go", reason, {}, ())


def test_the_document_survives_the_round_trip_and_the_verdict_with_it() -> None:
    again = loads(GateSEvidence, dumps(EVIDENCE, GATE_S_SCHEMA), GATE_S_SCHEMA)
    assert again == EVIDENCE
    assert judge_gate_s(again) == judge_gate_s(EVIDENCE)


# -- fields -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_must_be_equal(field: str) -> None:
    changed = observed(
        EVIDENCE,
        lambda item: (item.field, item.trajectory, item.mask) == (field, "graph", "partial"),
        sha256=OTHER_DIGEST,
        difference=1e-9 if field in TOLERANT_FIELDS else 1.0,
    )
    verdict, checks = null_arm(changed)
    assert verdict == "fail"
    assert all(check.code == "differs" and "graph, partial mask" in check.detail for check in checks)
    assert {check.subject.partition("[")[0] for check in checks} == {field}
    assert len(checks) == (2 if field in GROUPED_FIELDS else 1)


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_was_not_observed_under_some_mask_on_some_trajectory_is_not_reached(field: str) -> None:
    place = FIELDS.index(field)  # every field once, and every pair of trajectory and mask over the fields
    gone = (field, TRAJECTORIES[place % 3], MASKS[place // 3 % 3])
    kept = [item for item in EVIDENCE.observations if (item.field, item.trajectory, item.mask) != gone]
    verdict, checks = null_arm(replace(EVIDENCE, observations=tuple(kept)))
    assert verdict == "not reached"
    assert {check.code for check in checks} == {"field-missing"}


def test_one_observation_group_does_not_stand_for_another() -> None:
    kept = [item for item in EVIDENCE.observations if item.group != "critic"]
    verdict, checks = null_arm(replace(EVIDENCE, observations=tuple(kept)))
    assert verdict == "not reached"
    assert {check.subject for check in checks} == {f"{field}[critic]" for field in GROUPED_FIELDS}


@pytest.mark.parametrize("field", sorted(set(FIELDS) - ABSENT_FIELDS))
def test_comparing_nothing_is_no_pass(field: str) -> None:
    nothing = observed(EVIDENCE, lambda item: item.field == field, elements=0)
    assert null_arm(nothing)[0] == "not reached"


def test_fields_whose_owners_preflight_rejects_may_be_absent_in_both() -> None:
    one_sided = observed(EVIDENCE, lambda item: item.field == "metrics" and item.trajectory == "graph", elements=3)
    assert null_arm(one_sided)[0] == "fail"


def test_values_that_cannot_be_subtracted_differ() -> None:
    changed = observed(
        EVIDENCE,
        lambda item: item.field == "qpos" and item.trajectory == "graph",
        sha256=OTHER_DIGEST,
        difference=None,
    )
    assert null_arm(changed)[0] == "fail"


def test_equal_digests_with_a_difference_contradict_each_other() -> None:
    changed = observed(EVIDENCE, lambda item: item.field == "qpos" and item.trajectory == "graph", difference=0.5)
    assert null_arm(changed)[1][0].code == "contradiction"


def test_a_declared_tolerance_is_said_and_has_a_limit() -> None:
    workload = replace(EVIDENCE.workload, tolerances={"qpos": 1e-5})
    within = observed(
        replace(EVIDENCE, workload=workload),
        lambda item: item.field == "qpos" and item.trajectory == "graph",
        sha256=OTHER_DIGEST,
        difference=2e-6,
    )
    arm = judge_gate_s(within).arm("null")
    assert arm is not None
    assert arm.verdict == "pass"
    assert any("largest difference 2e-06" in check.detail for check in arm.checks if check.subject == "qpos")
    beyond = observed(within, lambda item: item.field == "qpos" and item.trajectory == "graph", difference=2e-5)
    assert null_arm(beyond)[0] == "fail"


@pytest.mark.parametrize(
    "tolerances", [{"rng_state": 1e-6}, {"terminated": 1e-6}, {"qpos": 1.0}, {"qpos": -1e-6}, {"qpos": float("nan")}]
)
def test_a_tolerance_never_covers_what_has_no_rounding(tolerances: Any) -> None:
    with pytest.raises(MalformedError):
        replace(EVIDENCE.workload, tolerances=tolerances)


@pytest.mark.parametrize(
    "rows",
    [
        {"empty": 0, "partial": 3},
        {"empty": 1, "partial": 3, "full": WORLDS},
        {"empty": 0, "partial": 0, "full": WORLDS},
        {"empty": 0, "partial": WORLDS, "full": WORLDS},
        {"empty": 0, "partial": 3, "full": WORLDS - 1},
    ],
)
def test_empty_partial_and_full_masks_are_what_they_say(rows: Any) -> None:
    verdict, checks = null_arm(replace(EVIDENCE, workload=replace(EVIDENCE.workload, mask_rows=rows)))
    assert verdict == "not reached"
    assert checks[0].subject == "masks"


# -- manifests ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trajectory", TRAJECTORIES)
def test_every_trajectory_has_its_manifest(trajectory: str) -> None:
    kept = {name: found for name, found in MANIFESTS.items() if name != trajectory}
    verdict, checks = null_arm(replace(EVIDENCE, arms=(ArmRun("null", "run", "", kept, ()), EVIDENCE.arms[1])))
    assert verdict == "not reached"
    assert checks[0].code == "manifest-missing"


@pytest.mark.parametrize(
    ("trajectory", "changes", "code"),
    [
        ("graph", {"git_head": OTHER_HEAD}, "other-head"),
        ("graph", {"worlds": WORLDS + 1}, "other-worlds"),
        ("graph", {"gpu_uuid": "GPU-00000000-0000-0000-0000-000000000000"}, "other-gpu-uuid"),
        ("graph", {"seeds": {"env": 2, "algo": 1}}, "other-seeds"),
        ("graph", {"shapes": {"action": (WORLDS, 4)}}, "other-shapes"),
        ("graph", {"rng": replace(MANIFESTS["graph"].rng, draw_version=999)}, "other-rng"),
        ("warmup_replay", {"rng": replace(MANIFESTS["graph"].rng, state_sha256="0" * 64)}, "other-rng"),
        ("graph", {"replays": 0, "eager_ticks": 12}, "no-replay"),
        ("graph", {"fallbacks": 1, "fallback_reasons": ("stream_event",)}, "fallback"),
        ("warmup_replay", {"replays": 12, "eager_ticks": 0}, "no-warm-up"),
    ],
)
def test_a_manifest_that_does_not_fit_its_trajectory_fails(trajectory: str, changes: dict[str, Any], code: str) -> None:
    verdict, checks = null_arm(with_manifest(trajectory, **changes))
    assert verdict == "fail"
    assert code in {check.code for check in checks}


def test_a_graph_that_was_not_enabled_at_the_end_fails_with_its_reasons() -> None:
    lost = {
        "enabled": False, "state": "invalidated", "capture_id": None, "invalidation_reasons": ("stream_event",),
    }  # fmt: skip
    verdict, checks = null_arm(with_manifest("graph", **lost))
    assert verdict == "fail"
    assert "stream_event" in next(check for check in checks if check.code == "not-enabled").detail


def test_an_eager_baseline_in_mode_graph_is_no_baseline() -> None:
    manifests = {**MANIFESTS, "eager": manifest()}
    verdict, _ = null_arm(replace(EVIDENCE, arms=(ArmRun("null", "run", "", manifests, ()), EVIDENCE.arms[1])))
    assert verdict == "fail"


def test_a_rehearsal_on_the_cpu_is_not_reached() -> None:
    manifests = {name: replace(found, rehearsal=True, gpu_uuid="CPU") for name, found in MANIFESTS.items()}
    verdict, checks = null_arm(replace(EVIDENCE, arms=(ArmRun("null", "run", "", manifests, ()), EVIDENCE.arms[1])))
    assert verdict == "not reached"
    assert {check.code for check in checks} == {"rehearsal"}


# -- order --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"published": 11, "released": 11, "final_observations": 11}, "not contiguous"),
        ({"released": 11}, "published and 11 released"),
        ({"final_observations": 11}, "final observation"),
        ({"stale": 1}, "stale"),
        ({"reordered": 1}, "reordered"),
        ({"empty_mask_draws": 1}, "empty mask"),
        ({"capture_identities": ("capture-0",)}, "capture-0"),
        ({"capture_identities": ("capture-1", "capture-0")}, "capture-0"),
        ({"capture_identities": ()}, "no capture"),
        ({"last_tick": 10}, "not contiguous"),
    ],
)
def test_every_irregularity_of_the_order_fails(changes: dict[str, Any], word: str) -> None:
    found = [replace(item, **changes) if item.trajectory == "graph" else item for item in EVIDENCE.orderings]
    verdict, checks = null_arm(replace(EVIDENCE, orderings=tuple(found)))
    assert verdict == "fail"
    assert word in next(check.detail for check in checks if check.subject == "ordering graph")


def test_an_order_that_was_not_observed_is_not_reached() -> None:
    assert null_arm(replace(EVIDENCE, orderings=EVIDENCE.orderings[1:]))[0] == "not reached"


# -- faults -------------------------------------------------------------------------------------------------------


def test_the_planted_faults_cover_what_the_contract_names() -> None:
    assert {f"invalidated_{reason}" for reason in INVALIDATION_REASONS} <= FAULTS.keys()
    assert {
        "replay_failed_unpublished", "replay_failed_published", "stale_receipt", "foreign_identity",
        "malformed_manifest", "unsupported_capability", "rng_rollback",
    } <= FAULTS.keys()  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_planted(fault: str) -> None:
    kept = tuple(item for item in EVIDENCE.faults if item.fault != fault)
    verdict, checks = null_arm(replace(EVIDENCE, faults=kept))
    assert verdict == "not reached"
    assert [check.subject for check in checks] == [f"fault {fault}"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("outcome", ["fell_back", "failed_closed", "refused", "invalidated", "restored", "unnoticed"])
def test_every_fault_ends_as_declared_and_in_no_other_way(fault: Any, outcome: Any) -> None:
    found = [replace(item, outcome=outcome) if item.fault == fault else item for item in EVIDENCE.faults]
    verdict, _ = null_arm(replace(EVIDENCE, faults=tuple(found)))
    assert verdict == ("pass" if FAULTS[fault] == outcome else "fail")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "changes",
    [{"reason": " "}, {"replays_after": 1}, {"fallbacks": 2}, {"rng_restored": False}, {"draws_equal": False}],
)
def test_the_details_of_a_fault_count(fault: Any, changes: dict[str, Any]) -> None:
    rolled_back = FAULTS[fault] in ("fell_back", "restored")
    if not rolled_back and changes.keys() & {"rng_restored", "draws_equal"}:
        return
    found = [replace(item, **changes) if item.fault == fault else item for item in EVIDENCE.faults]
    assert null_arm(replace(EVIDENCE, faults=tuple(found)))[0] == "fail"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_tick_publishes_only_where_that_is_the_fault(fault: Any) -> None:
    published = 0 if fault == "replay_failed_published" else 1
    found = [replace(item, published=published) if item.fault == fault else item for item in EVIDENCE.faults]
    assert null_arm(replace(EVIDENCE, faults=tuple(found)))[0] == "fail"


# -- static audits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AUDITS)
@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"findings": 1}, "fail"),
        ({"functions": 0}, "not reached"),
        ({"packages": ()}, "not reached"),
        (None, "not reached"),
    ],
)
def test_all_three_audits_are_run_and_zero(name: str, changes: dict[str, Any] | None, verdict: str) -> None:
    found = [
        item if item.audit != name else replace(item, **(changes or {}))
        for item in EVIDENCE.audits
        if changes is not None or item.audit != name
    ]
    assert null_arm(replace(EVIDENCE, audits=tuple(found)))[0] == verdict


# -- documents ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["arms", "observations", "faults", "orderings", "audits"])
def test_nothing_is_observed_twice(part: str) -> None:
    items = getattr(EVIDENCE, part)
    with pytest.raises(MalformedError, match="second time"):
        replace(EVIDENCE, **{part: (*items, items[0])})


@pytest.mark.parametrize("date", ["", "yesterday", "2026-01-02", "2026-01-02T03:04:05"])
def test_a_date_has_a_time_zone(date: str) -> None:
    with pytest.raises(MalformedError):
        replace(EVIDENCE, date=date)


def test_an_observation_names_a_group_of_the_workload() -> None:
    with pytest.raises(MalformedError, match="no group"):
        observed(EVIDENCE, lambda item: item.group == "critic", group="other")


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(0, len(EVIDENCE.observations) - 1), min_size=1, max_size=5), st.data())
def test_less_evidence_never_turns_into_a_pass(dropped: set[int], data: st.DataObject) -> None:
    observations = tuple(item for index, item in enumerate(EVIDENCE.observations) if index not in dropped)
    part = data.draw(st.sampled_from(["observations", "faults", "orderings", "audits"]))
    if part == "observations":
        less = replace(EVIDENCE, observations=observations)
    else:
        items = getattr(EVIDENCE, part)
        gone = data.draw(st.integers(0, len(items) - 1))
        less = replace(EVIDENCE, **{part: items[:gone] + items[gone + 1 :]})
    assert null_arm(less)[0] == "not reached"
    assert judge_gate_s(less).git_head == HEAD


@pytest.mark.parametrize("arm", [0, 1])
def test_a_document_without_one_of_its_keys_is_refused_though_the_value_could_be_guessed(arm: int) -> None:
    document: Any = to_document(EVIDENCE, GATE_S_SCHEMA)
    del document["arms"][arm]["evidence"]
    with pytest.raises(MalformedError, match="evidence"):
        from_document(GateSEvidence, document, GATE_S_SCHEMA, "gate-s.json")
