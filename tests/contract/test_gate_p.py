"""Gate P: throughput, by what was registered before the runs, and never over semantics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from capaudit.contract import IngressCounters, MalformedError
from capaudit.contract.documents import dumps, loads
from capaudit.contract.gate_p import judge_gate_p
from capaudit.contract.gate_p_evidence import GATE_P_SCHEMA, GatePEvidence, RunSummary, Safety
from capaudit.contract.gate_s import judge_gate_s
from capaudit.contract.gate_words import FIELDS
from capaudit.contract.verdicts import ArmVerdict, GateVerdict
from tests.contract.samples import (
    OTHER_HEAD,
    gate_p_evidence,
    gate_s_evidence,
    manifest,
    registration,
    summary,
    with_run,
)

EVIDENCE = gate_p_evidence()
GATE_S = judge_gate_s(gate_s_evidence())


def null_arm(evidence: GatePEvidence, gate_s: GateVerdict | None = GATE_S) -> ArmVerdict:
    arm = judge_gate_p(evidence, gate_s).arm("null")
    assert arm is not None
    return arm


def codes(arm: ArmVerdict) -> set[str]:
    return {check.code for check in arm.checks if check.verdict != "pass"}


def registered(**changes: Any) -> GatePEvidence:
    return gate_p_evidence(**changes)


def test_a_gain_over_every_decisive_baseline_passes_with_the_figures() -> None:
    verdict = judge_gate_p(EVIDENCE, GATE_S)
    assert (verdict.verdict, [arm.verdict for arm in verdict.arms]) == ("pass", ["pass", "not reached"])
    figures = {figure.baseline: figure for figure in verdict.arms[0].figures}
    assert figures["eager_sync"].gain == pytest.approx(3.8)
    assert figures["eager_graph_physics"].gain == pytest.approx(0.2)
    assert figures["eager_graph_physics"].candidate_rate == 4800
    assert "null arm" in verdict.claim
    assert "+20.0% over eager_graph_physics" in verdict.claim
    assert "mps" not in verdict.claim


@pytest.mark.parametrize(
    ("rate", "verdict"), [(4399.0, "fail"), (4400.0, "pass"), (4060.0, "fail"), (3000.0, "fail"), (9999.0, "pass")]
)
def test_ten_percent_over_the_baseline_is_the_line(rate: float, verdict: str) -> None:
    arm = null_arm(gate_p_evidence({"eager_sync": 1000.0, "eager_graph_physics": 4000.0, "graph": rate}))
    assert arm.verdict == verdict
    assert len(arm.figures) == 2


def test_a_gain_that_is_too_small_is_a_result_with_its_figures_and_no_claim() -> None:
    verdict = judge_gate_p(
        gate_p_evidence({"eager_sync": 500.0, "eager_graph_physics": 4000.0, "graph": 4060.0}), GATE_S
    )
    assert (verdict.verdict, verdict.claim) == ("fail", "evidence only")
    gains = {figure.baseline: round(figure.gain, 3) for figure in verdict.arms[0].figures}
    assert gains == {"eager_sync": 7.12, "eager_graph_physics": 0.015}


def test_only_decisive_baselines_decide_and_the_claim_names_them() -> None:
    rates = {"eager_sync": 500.0, "eager_graph_physics": 4000.0, "graph": 4060.0}
    verdict = judge_gate_p(gate_p_evidence(rates, decisive=("eager_sync",)), GATE_S)
    assert verdict.verdict == "pass"
    assert "over eager_sync" in verdict.claim
    assert "eager_graph_physics" not in verdict.claim
    assert [figure.decisive for figure in verdict.arms[0].figures] == [True, False]


def test_the_gain_is_the_median_of_the_pairs() -> None:
    changed = with_run(EVIDENCE, 1, summary=summary(40_000.0))
    assert null_arm(changed).figures[0].gain == pytest.approx(3.8)
    assert null_arm(changed).figures[0].gains[0] == pytest.approx(39.0)


# -- semantics first ----------------------------------------------------------------------------------------------


def test_without_gate_s_no_arm_is_reached_whatever_the_figures() -> None:
    verdict = judge_gate_p(EVIDENCE, None)
    assert (verdict.verdict, verdict.claim) == ("not reached", "evidence only")
    assert "gate-s-missing" in codes(null_arm(EVIDENCE, None))


def test_gate_s_must_have_passed_on_the_same_arm() -> None:
    for evidence in (replace(gate_s_evidence(), faults=()), replace(gate_s_evidence(), audits=())):
        assert codes(null_arm(EVIDENCE, judge_gate_s(evidence))) == {"gate-s-not-passed"}
    failing = [replace(item, findings=1) for item in gate_s_evidence().audits]
    refused = judge_gate_s(replace(gate_s_evidence(), audits=tuple(failing)))
    assert judge_gate_p(EVIDENCE, refused).verdict == "not reached"


def test_gate_s_must_have_passed_for_the_same_head() -> None:
    assert codes(null_arm(EVIDENCE, replace(GATE_S, git_head=OTHER_HEAD))) == {"other-head"}


@pytest.mark.parametrize("subject", ["mjwarp:g1", "mjwarp", "mjwarp:humanoid-2", "other/mjwarp:humanoid"])
def test_gate_s_must_have_passed_for_the_same_collector(subject: str) -> None:
    arm = null_arm(EVIDENCE, replace(GATE_S, subject=subject))
    assert (arm.verdict, codes(arm)) == ("not reached", {"other-collector"})


def test_a_workload_of_the_collector_passed_for_the_collector() -> None:
    assert null_arm(EVIDENCE, replace(GATE_S, subject="mjwarp:humanoid/airborne")).verdict == "pass"


def test_one_gate_does_not_stand_in_for_the_other() -> None:
    assert judge_gate_p(EVIDENCE, judge_gate_p(EVIDENCE, GATE_S)).verdict == "not reached"


# -- registration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"minimum_gain": 0.2}, {"worlds": 9}, {"shapes": {"action": (8, 4)}}, {"semantic_surface": FIELDS[:-1]},
        {"seeds": {"env": 2}}, {"decisive": ("eager_sync",)}, {"arms": ("null",)},
        {"mode_rules": {"graph": "x", "eager_sync": "y", "eager_graph_physics": "z"}},
    ],
)  # fmt: skip
def test_whatever_is_changed_after_registration_voids_the_result(changes: dict[str, Any]) -> None:
    changed = replace(EVIDENCE, registration=replace(EVIDENCE.registration, **changes))
    verdict = judge_gate_p(changed, GATE_S)
    assert verdict.verdict != "pass"
    assert "void" in codes(null_arm(changed))


def test_a_digest_that_was_written_down_for_something_else_voids_the_result() -> None:
    assert codes(null_arm(replace(EVIDENCE, registered_sha256="0" * 64))) == {"void"}


def test_a_run_that_was_started_under_another_registration_voids_the_result() -> None:
    changed = with_run(EVIDENCE, 4, registration_sha256="0" * 64)
    assert null_arm(changed).verdict == "not reached"
    assert codes(null_arm(changed)) == {"void"}


@pytest.mark.parametrize(
    "changes",
    [
        {"k": 2}, {"metric": "fps"}, {"repeats": 2}, {"iterations": 30}, {"tail": 10}, {"minimum_gain": 0.01},
        {"minimum_gain": -1.0}, {"semantic_surface": FIELDS[:-1]},
    ],
)  # fmt: skip
def test_a_registration_that_asks_for_less_than_the_contract_never_passes(changes: dict[str, Any]) -> None:
    verdict = judge_gate_p(registered(**changes), GATE_S)
    assert verdict.verdict == "fail"
    assert "thresholds" in codes(verdict.arms[0])


@pytest.mark.parametrize(
    "changes",
    [
        {"minimum_gain": float("nan")}, {"minimum_gain": True}, {"baselines": ()}, {"decisive": ()},
        {"decisive": ("graph",)}, {"baselines": ("graph",)}, {"mode_rules": {"graph": "only"}}, {"arms": ()},
        {"arms": ("null", "null")}, {"arms": ("cuda",)}, {"k": 0}, {"k": True}, {"registered_at": "2026-01-01"},
        {"seeds": {}}, {"shapes": {}}, {"semantic_surface": ("qpos", "weather")},
    ],
)  # fmt: skip
def test_a_malformed_registration_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedError):
        registration(**changes)


# -- runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(9))
def test_a_run_that_is_missing_is_not_reached(index: int) -> None:
    runs = EVIDENCE.runs[:index] + EVIDENCE.runs[index + 1 :]
    arm = null_arm(replace(EVIDENCE, runs=runs))
    assert arm.verdict == "not reached"
    assert codes(arm) == {"run-missing"}
    assert arm.figures == ()


def test_two_runs_never_share_a_process() -> None:
    assert codes(null_arm(with_run(EVIDENCE, 1, process=EVIDENCE.runs[0].process))) == {"shared-process"}


def test_modes_are_interleaved() -> None:
    by_mode = sorted(EVIDENCE.runs, key=lambda run: (run.mode, run.repeat))
    runs = [
        replace(run, order=order, started_at=f"2026-01-03T01:{order:02}:00+00:00") for order, run in enumerate(by_mode)
    ]
    assert codes(null_arm(replace(EVIDENCE, runs=tuple(runs)))) == {"not-interleaved"}


def test_the_order_agrees_with_the_starting_times() -> None:
    assert codes(null_arm(with_run(EVIDENCE, 3, started_at="2026-01-03T05:00:00+00:00"))) == {"order"}
    assert codes(null_arm(with_run(EVIDENCE, 8, order=9))) == {"order"}


def test_thresholds_are_registered_before_the_first_run() -> None:
    late = registered(registered_at="2026-01-03T02:00:00+00:00")
    assert codes(null_arm(late)) == {"registered-late"}


@pytest.mark.parametrize(
    "changes",
    [
        {"git_head": OTHER_HEAD},
        {"worlds": 9},
        {"shapes": {"action": (8, 4)}},
        {"seeds": {"env": 2, "algo": 1}},
        {"gpu_uuid": "GPU-00000000-0000-0000-0000-000000000000"},
        {"software": replace(manifest().software, torch="2.10")},
        {"fallbacks": 1, "fallback_reasons": ("stream_event",)},
        {"replays": 50, "eager_ticks": 250},
        {"enabled": False, "state": "invalidated", "capture_id": None, "invalidation_reasons": ("data",)},
    ],
)
def test_a_run_of_something_else_is_not_comparable(changes: dict[str, Any]) -> None:
    changed = with_run(EVIDENCE, 1, manifest=replace(EVIDENCE.runs[1].manifest, **changes))
    arm = null_arm(changed)
    assert arm.verdict == "fail"
    assert "not-comparable" in codes(arm)


def test_a_baseline_is_not_run_in_mode_graph() -> None:
    graph = replace(EVIDENCE.runs[1].manifest)
    assert "not-comparable" in codes(null_arm(with_run(EVIDENCE, 0, manifest=graph)))


@pytest.mark.parametrize(
    "safety", [Safety(False, 0, 0, 0), Safety(True, 1, 0, 0), Safety(True, 0, 1, 0), Safety(True, 0, 0, 1)]
)
@pytest.mark.parametrize("index", [0, 1])
def test_every_safety_observation_must_hold_in_every_run(safety: Safety, index: int) -> None:
    verdict = judge_gate_p(with_run(EVIDENCE, index, safety=safety), GATE_S)
    assert verdict.verdict == "fail"
    assert codes(verdict.arms[0]) == {"unsafe"}


def test_published_and_released_must_be_equal_at_the_end() -> None:
    leaking = replace(EVIDENCE.runs[1].manifest, ordering=IngressCounters(300, 300, 299))
    assert codes(null_arm(with_run(EVIDENCE, 1, manifest=leaking))) == {"unsafe"}


def test_a_rehearsal_supports_no_claim() -> None:
    runs = tuple(replace(run, manifest=replace(run.manifest, rehearsal=True, gpu_uuid="CPU")) for run in EVIDENCE.runs)
    verdict = judge_gate_p(replace(EVIDENCE, runs=runs), GATE_S)
    assert (verdict.verdict, verdict.claim) == ("not reached", "evidence only")


# -- arms ---------------------------------------------------------------------------------------------------------


def both_arms(mps_rates: dict[str, float]) -> tuple[GatePEvidence, GateVerdict]:
    other = gate_p_evidence(mps_rates)
    runs = tuple(
        replace(run, arm="mps", process=f"mps-{run.process}", registration_sha256=EVIDENCE.registered_sha256)
        for run in other.runs
    )
    arms = (EVIDENCE.arms[0], replace(EVIDENCE.arms[0], arm="mps"))
    null = GATE_S.arm("null")
    assert null is not None
    semantics = replace(GATE_S, arms=(null, replace(null, arm="mps")))
    return replace(EVIDENCE, arms=arms, runs=EVIDENCE.runs + runs), semantics


def test_one_passing_arm_passes_the_gate_and_authorises_itself_alone() -> None:
    evidence, semantics = both_arms({"eager_sync": 1000.0, "eager_graph_physics": 4000.0, "graph": 3900.0})
    verdict = judge_gate_p(evidence, semantics)
    assert verdict.verdict == "pass"
    assert [arm.verdict for arm in verdict.arms] == ["pass", "fail"]
    assert "null arm" in verdict.claim
    assert "mps" not in verdict.claim


def test_an_unsafe_arm_fails_the_gate_beside_a_passing_one() -> None:
    evidence, semantics = both_arms({"eager_sync": 1000.0, "eager_graph_physics": 4000.0, "graph": 4800.0})
    unsafe = with_run(evidence, len(evidence.runs) - 1, safety=Safety(False, 0, 0, 0))
    verdict = judge_gate_p(unsafe, semantics)
    assert (verdict.verdict, verdict.claim) == ("fail", "evidence only")


def test_an_arm_that_was_not_registered_is_not_reached() -> None:
    arm = judge_gate_p(registered(arms=("mps",)), GATE_S).arm("null")
    assert arm is not None
    assert arm.verdict == "not reached"


# -- summaries ----------------------------------------------------------------------------------------------------


def test_the_metric_is_the_median_of_the_last_hundred_iterations() -> None:
    rates = tuple(float(rate) for rate in range(1, 301))
    assert RunSummary.of(rates).tail_env_steps_per_sec == 250.5


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tail_env_steps_per_sec": 9999.0}, "tail_env_steps_per_sec"),
        ({"tail_env_steps_per_sec": float("inf")}, "tail_env_steps_per_sec"),
        ({"env_steps_per_sec": (1.0,)}, "env_steps_per_sec"),
        ({"env_steps_per_sec": (0.0,) * 300}, "env_steps_per_sec"),
        ({"env_steps_per_sec": (True,) * 300}, "env_steps_per_sec[0]"),
        ({"iterations": 0}, "iterations"),
        ({"tail": 301}, "tail"),
    ],
)
def test_a_summary_that_contradicts_its_rates_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(MalformedError) as caught:
        replace(summary(100.0), **changes)
    assert caught.value.place == field


def test_a_mode_that_is_not_registered_is_refused() -> None:
    with pytest.raises(MalformedError, match="not registered"):
        with_run(EVIDENCE, 0, mode="turbo")


def test_the_document_survives_the_round_trip_and_the_verdict_with_it() -> None:
    again = loads(GatePEvidence, dumps(EVIDENCE, GATE_P_SCHEMA), GATE_P_SCHEMA)
    assert again == EVIDENCE
    assert judge_gate_p(again, GATE_S) == judge_gate_p(EVIDENCE, GATE_S)


def test_a_fourth_repeat_is_refused_because_it_would_be_a_choice() -> None:
    with pytest.raises(MalformedError, match="that are registered"):
        with_run(EVIDENCE, 8, repeat=3)


def test_two_arms_never_share_a_process() -> None:
    evidence, semantics = both_arms({"eager_sync": 1000.0, "eager_graph_physics": 4000.0, "graph": 4800.0})
    shared = with_run(evidence, 9, process=evidence.runs[0].process)
    assert {arm.verdict for arm in judge_gate_p(shared, semantics).arms} == {"fail"}


def test_an_arm_that_is_called_not_run_does_not_hide_what_it_did_unsafely() -> None:
    evidence, semantics = both_arms({"eager_sync": 1000.0, "eager_graph_physics": 4000.0, "graph": 4800.0})
    stopped = replace(evidence, arms=(evidence.arms[0], replace(evidence.arms[1], status="not_run", reason="stopped")))
    assert judge_gate_p(stopped, semantics).verdict == "pass"
    unsafe = with_run(stopped, len(stopped.runs) - 1, safety=Safety(False, 0, 0, 0))
    assert judge_gate_p(unsafe, semantics).verdict == "fail"


@pytest.mark.parametrize("rates", [(1e308,) * 300, (5e-324,) * 300, (-1.0,) * 300, (float("nan"),) * 300])
def test_rates_that_no_collector_has_are_refused(rates: tuple[float, ...]) -> None:
    with pytest.raises(MalformedError):
        RunSummary.of(rates)


def test_an_eager_tick_among_the_iterations_is_no_graph_run() -> None:
    mixed = replace(EVIDENCE.runs[1].manifest, replays=299, eager_ticks=1)
    assert "not-comparable" in codes(null_arm(with_run(EVIDENCE, 1, manifest=mixed)))
