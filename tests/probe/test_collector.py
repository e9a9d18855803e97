"""The reference collector on the CPU: what a tick does, and what both gates make of a rehearsal without graphs."""

from __future__ import annotations

import json
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capaudit.contract import InvalidatedError, RunManifest
from capaudit.contract.documents import from_document
from capaudit.contract.gate_s import judge_gate_s
from capaudit.contract.gate_s_evidence import GATE_S_SCHEMA, GateSEvidence
from capaudit.contract.gate_words import FIELDS, GROUPED_FIELDS, MASKS, TRAJECTORIES
from capaudit.contract.manifest import SCHEMA
from capaudit.model import InputError

torch = pytest.importorskip("torch")
pytest.importorskip("mujoco_warp")

WORLDS = 4
HEAD = "ab" * 20


def collector(mode: str = "graph", **options: Any) -> Any:
    from capaudit.probe.targets.collector.collector import ReferenceCollector
    from capaudit.probe.targets.collector.plant import load_plant

    made = ReferenceCollector(load_plant("humanoid"), worlds=WORLDS, device="cpu", mode=mode, **options)  # type: ignore[arg-type]
    made.prepare()
    return made


@pytest.fixture(scope="module")
def evidence() -> GateSEvidence:
    from capaudit.probe.gates.audits import audit_tick
    from capaudit.probe.gates.gate_s_child import run_arm

    payload = {
        "arm": "null",
        "robot": "humanoid",
        "worlds": WORLDS,
        "device": "cpu",
        "seed": 1,
        "date": "2026-01-01T00:00:00+00:00",
        "head": HEAD,
        "control": None,
        "faults": False,
    }
    answer = run_arm(payload, None)  # type: ignore[arg-type]
    document = json.loads(json.dumps(answer["evidence"]))
    found = from_document(GateSEvidence, document, GATE_S_SCHEMA, "test")
    return replace(found, audits=audit_tick().observations)


# -- the tick ------------------------------------------------------------------------------------------------------


def test_a_partial_reset_touches_the_masked_worlds_alone() -> None:
    made = collector("eager")
    tick, c = made.tick, made.tick.carriers
    made.step()
    made.take()
    before, drawn = tick.simulation.position.clone(), c.reset_draws.clone()
    c.episode_length[1] = tick.maximum_episode
    made.step()
    assert c.done.tolist() == [False, True, False, False]
    assert c.truncated.tolist() == [False, True, False, False]
    assert not c.terminated.any()
    assert (c.reset_draws - drawn).tolist() == [0, 1, 0, 0], "an unmasked world drew"
    assert c.episode_length.tolist() == [2, 0, 2, 2]
    start = torch.as_tensor(tick.plant.start, dtype=torch.float32)
    assert torch.equal(tick.simulation.position[1, :3], start[:3])
    assert not torch.equal(tick.simulation.position[0], before[0]), "the other worlds went on"
    assert torch.equal(c.actor[0], c.terminal_actor[0])
    assert torch.equal(c.actor[1], c.post_actor[1])
    assert not torch.equal(c.terminal_actor[1], c.post_actor[1])


def test_a_transition_holds_what_was_seen_before_and_after_the_action_and_slots_alternate() -> None:
    from capaudit.probe.targets.collector.carriers import transition_columns

    made = collector("eager")
    c, columns = made.tick.carriers, transition_columns(made.tick.joints)
    for number in range(3):
        seen = c.actor.clone()
        c.action.fill_(0.1 * number)
        made.step()
        assert made.ingress.slot_of(number) == number % 2
        real, flags = made.take()
        assert real.data_ptr() == c.ingress[number % 2].data_ptr()
        part = {name: real[:, begin:end] for name, (begin, end) in columns.items()}
        assert torch.equal(part["observation.actor"], seen)
        assert torch.equal(part["next_observation.actor"], c.actor)
        assert torch.equal(part["action"], c.action)
        assert torch.equal(part["reward"][:, 0], c.reward)
        assert torch.equal(flags[0], c.done)
    assert made.ingress.close().published == 3


def test_the_reward_is_the_sum_of_eleven_components_and_all_of_it_is_finite() -> None:
    made = collector("eager")
    made.step()
    c = made.tick.carriers
    assert c.components.shape == (WORLDS, 11)
    torch.testing.assert_close(c.reward, c.components.sum(1))
    assert bool(c.finite.all())


def test_an_action_that_is_not_finite_reaches_the_verdict_carrier_and_stays_there() -> None:
    made = collector("eager")
    made.tick.carriers.action[0, 0] = float("nan")
    made.step()
    made.tick.carriers.action.zero_()
    made.take()
    made.step()
    assert not bool(made.tick.carriers.finite.any())


def test_a_slot_that_nobody_released_stops_the_collector_and_not_the_data() -> None:
    from capaudit.contract import IngressError

    made = collector("eager")
    made.step()
    made.step()
    with pytest.raises(IngressError, match="still holds"):
        made.step()


def test_the_g1_has_the_widths_of_the_decision_record() -> None:
    from capaudit.probe.targets.collector.carriers import actor_width, critic_width
    from capaudit.probe.targets.collector.plant import load_plant

    assert (actor_width(29), critic_width(29)) == (160, 289)
    try:
        plant = load_plant("g1")
    except InputError as error:
        pytest.skip(str(error))
    assert plant.model.nu == 29


def test_an_unknown_robot_is_bad_input_that_names_the_known_ones() -> None:
    from capaudit.probe.targets.collector.plant import load_plant

    with pytest.raises(InputError, match="humanoid"):
        load_plant("h1")


# -- Gate S --------------------------------------------------------------------------------------------------------


def test_every_trajectory_is_observed_in_every_field_under_every_mask(evidence: GateSEvidence) -> None:
    wanted = {
        (trajectory, mask, field, group)
        for trajectory in TRAJECTORIES
        for mask in MASKS
        for field in FIELDS
        for group in (("actor", "critic") if field in GROUPED_FIELDS else (None,))
    }
    assert {(item.trajectory, item.mask, item.field, item.group) for item in evidence.observations} == wanted
    assert all(item.difference == 0 for item in evidence.observations), "the CPU adds in a fixed order"


def test_a_rehearsal_on_the_cpu_without_planted_faults_reaches_no_gate(evidence: GateSEvidence) -> None:
    verdict = judge_gate_s(evidence)
    null = verdict.arm("null")
    assert null is not None
    assert (verdict.verdict, null.verdict) == ("not reached", "not reached")
    assert {check.code for check in null.checks if check.verdict != "pass"} == {"rehearsal", "fault-missing"}


def test_an_empty_mask_consumes_no_draw_and_every_transition_is_released(evidence: GateSEvidence) -> None:
    for ordering in evidence.orderings:
        assert ordering.empty_mask_draws == ordering.stale == ordering.reordered == 0
        assert ordering.published == ordering.released == ordering.final_observations == 9


def test_a_carrier_that_is_bound_anew_stops_the_next_replay() -> None:
    from capaudit.probe.targets.controls import control, control_class

    made = collector("graph", make=control_class(control("carrier-rebind")))
    made.step()
    with pytest.raises(InvalidatedError, match="phase: address"):
        made.step()


def test_the_address_of_a_declared_carrier_is_given_to_nobody_else() -> None:
    from capaudit.probe.targets.controls import control, control_class

    class Watched(control_class(control("carrier-rebind"))):  # type: ignore[misc]
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.declared = weakref.ref(self.carriers.phase)

    made = collector("graph", make=Watched)
    made.step()
    declared = made.tick.declared()
    assert declared is not None
    assert declared is not made.tick.carriers.phase


def test_draws_out_of_their_recorded_order_are_refused() -> None:
    from capaudit.contract import RngError
    from capaudit.probe.targets.collector.tick import CollectorTick

    class DrawsTooEarly(CollectorTick):
        def _terminate(self) -> None:
            super()._terminate()
            self._reset()

    made = collector("eager", make=DrawsTooEarly)
    made.tick.carriers.episode_length.fill_(made.tick.maximum_episode)
    with pytest.raises(RngError, match="draw 0 is 'reset-values'"):
        made.step()


# -- Gate P --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    from capaudit.probe.gates.gate_p_child import run_once

    folder = tmp_path_factory.mktemp("run")
    payload: dict[str, Any] = {
        "mode": "graph",
        "robot": "humanoid",
        "worlds": WORLDS,
        "device": "cpu",
        "seed": 1,
        "iterations": 4,
        "head": HEAD,
        "folder": str(folder),
    }
    return run_once(payload, None), folder  # type: ignore[arg-type, misc]


def test_one_performance_run_leaves_a_summary_whose_tail_is_the_median_of_its_rates(
    measured: tuple[dict[str, Any], Path],
) -> None:
    _, folder = measured
    found = json.loads((folder / "run_summary.json").read_text())
    rates = sorted(found["env_steps_per_sec"])
    assert len(rates) == found["iterations"] == 4
    assert found["tail_env_steps_per_sec"] == pytest.approx((rates[1] + rates[2]) / 2)


def test_a_performance_run_on_the_cpu_says_that_it_is_a_rehearsal(measured: tuple[dict[str, Any], Path]) -> None:
    answer, _ = measured
    manifest = from_document(RunManifest, answer["manifest"], SCHEMA, "test")
    assert manifest.rehearsal
    assert manifest.replays == 4
    assert manifest.ordering.published == manifest.ordering.released == 4
    assert answer["safety"] == {
        "finite_outputs": True,
        "validation_failures": 0,
        "stale_receipts": 0,
        "reordered": 0,
    }


def test_runs_are_interleaved_and_an_arm_whose_run_fails_is_not_run(
    measured: tuple[dict[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from capaudit.probe.child import ChildResult
    from capaudit.probe.gates import gate_p
    from capaudit.probe.gates.gate_s import GateOptions

    answer, folder = measured
    summary = (folder / "run_summary.json").read_text()
    calls: list[str] = []

    def fake(module: str, payload: dict[str, Any], timeout: float, **_: Any) -> ChildResult:
        if payload.get("shapes"):
            result: Any = {"shapes": {"action": [WORLDS, 21]}}
            return ChildResult("completed", result, (), None, "", "", 0, 0.1)
        calls.append(payload["mode"])
        if len(calls) == 8:
            return ChildResult("killed", None, (), None, "it was ended by SIGKILL", "", -9, 0.1)
        Path(payload["folder"], "run_summary.json").write_text(summary)
        result = {**answer, "process": f"host-{len(calls)}"}
        return ChildResult("completed", result, (), None, "", "", 0, 0.1)

    monkeypatch.setattr(gate_p, "run_child", fake)
    monkeypatch.setenv("CAPAUDIT_GIT_HEAD", HEAD)
    options = GateOptions(worlds=WORLDS, device="cpu")
    registration = gate_p.register(options, iterations=4, repeats=3)
    found = gate_p.gather_gate_p(options, registration)
    assert calls == [*registration.modes, *registration.modes, *registration.modes[:2]]
    status = {arm.arm: (arm.status, arm.reason) for arm in found.arms}
    assert status["null"][0] == "not_run"
    assert "SIGKILL" in status["null"][1]
    assert status["mps"] == ("not_run", "MPS shares a CUDA device, and there is none")
    assert [run.order for run in found.runs] == list(range(7))


def test_the_commit_has_to_be_known_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    from capaudit.probe.gates.machine import git_head

    monkeypatch.setenv("CAPAUDIT_GIT_HEAD", "main")
    with pytest.raises(InputError, match="commit"):
        git_head()
    monkeypatch.setenv("CAPAUDIT_GIT_HEAD", HEAD)
    assert git_head() == HEAD


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks what happens without a CUDA device")
def test_performance_is_not_measured_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from capaudit.model import NoDeviceError
    from capaudit.probe.gates.gate_p import register
    from capaudit.probe.gates.gate_s import GateOptions

    monkeypatch.setenv("CAPAUDIT_GIT_HEAD", HEAD)
    with pytest.raises(NoDeviceError):
        register(GateOptions(worlds=WORLDS, device="cuda"))


# -- a control ------------------------------------------------------------------------------------------------------


def test_a_value_kept_by_a_cached_property_is_another_when_every_replay_makes_it_anew() -> None:
    from capaudit.probe.targets.collector.plant import load_plant
    from capaudit.probe.targets.controls import control, control_class

    make = control_class(control("lazy-initialisation"))
    eager, replayed = (make(load_plant("humanoid"), WORLDS, "cpu", 1) for _ in range(2))
    apart = []
    for _ in range(2):
        # A graph that recorded the first tick holds the copy, and every replay repeats it.
        vars(replayed).pop("first_phase", None)
        eager.tick()
        replayed.tick()
        apart.append(float((eager.carriers.reward - replayed.carriers.reward).abs().max()))
    assert apart[0] == 0.0
    assert apart[1] > 0.05
