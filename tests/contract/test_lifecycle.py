"""The capture lifecycle: what may follow what, and what happens when it goes wrong."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capaudit.contract import (
    INVALIDATION_REASONS,
    CaptureLifecycle,
    ContractError,
    FailClosedError,
    IllegalTransitionError,
    InvalidatedError,
    MalformedError,
    ReceiptError,
    RngEvidence,
    RngLedger,
    Rollback,
    preflight,
)
from capaudit.contract.ownership import CaptureViolation
from capaudit.contract.reasons import MODES, STATES
from capaudit.model import CapauditError
from tests.contract.samples import candidate, carriers, ready, receipt, supported, tick

BEFORE = RngEvidence("cuda:0", b"state", 0, 4)
RESTORED = Rollback(BEFORE, replace(BEFORE, state_version=1))
NOT_RESTORED = Rollback(BEFORE, replace(BEFORE, state=b"other"))


def unsupported() -> Any:
    return preflight(candidate(stepping=False))


# -- the way through ----------------------------------------------------------------------------------------------


def test_a_capture_goes_through_its_whole_life() -> None:
    life = CaptureLifecycle("graph")
    seen = [life.state]
    life.allocate(carriers())
    seen.append(life.state)
    assert [tick(life, sequence) for sequence in range(2)] == ["eager", "eager"]
    life.warmed_up()
    life.preflighted(supported())
    seen.append(life.state)
    with life.capturing("capture-1"):
        pass
    seen.append(life.state)
    assert [tick(life, sequence) for sequence in range(2, 5)] == ["graph"] * 3
    last = life.close()
    seen.append(life.state)
    assert seen == ["unavailable", "eager", "eager", "ready", "unavailable"]
    assert (last.enabled, last.capture_id, last.replays, last.eager_ticks, last.ticks) == (True, "capture-1", 3, 2, 5)
    assert (last.publications, last.last_sequence, last.fallback_reasons) == (5, 4, ())


def test_mode_eager_runs_eager_ticks_and_never_captures() -> None:
    life = CaptureLifecycle("eager")
    life.allocate(carriers())
    assert tick(life, 0) == "eager"
    life.warmed_up()
    with pytest.raises(IllegalTransitionError, match="no graph was requested"):
        life.preflighted(supported())
    assert life.snapshot().disable_reasons == ("mode is eager",)
    assert (life.snapshot().requested, life.snapshot().enabled) == (False, False)


def test_mode_disabled_runs_nothing_and_says_why() -> None:
    life = CaptureLifecycle()
    with pytest.raises(IllegalTransitionError):
        life.allocate(carriers())
    with pytest.raises(FailClosedError, match="mode is disabled"):
        life.begin_tick()
    assert life.snapshot().disable_reasons == ("mode is disabled",)


@pytest.mark.parametrize(
    "step",
    [
        lambda life: life.preflighted(supported()),
        lambda life: life.begin_capture(),
        lambda life: life.end_capture("capture-1"),
        lambda life: life.capture_failed("why"),
        lambda life: life.fall_back(),
        lambda life: life.complete(receipt(0)),
        lambda life: life.publish(),
        lambda life: life.end_tick(),
        lambda life: life.fail("stream_event"),
    ],
)
def test_a_step_that_is_not_due_is_refused_and_changes_nothing(step: Any) -> None:
    life = CaptureLifecycle("graph")
    life.allocate(carriers())
    before = life.snapshot()
    with pytest.raises(IllegalTransitionError) as caught:
        step(life)
    assert life.snapshot() == before
    assert caught.value.refusals[0].code == "illegal-transition"
    assert isinstance(caught.value, CapauditError)


def test_the_warm_up_needs_carriers_and_the_capture_a_preflight() -> None:
    life = CaptureLifecycle("graph")
    with pytest.raises(IllegalTransitionError, match="no carriers"):
        life.warmed_up()
    life.allocate(carriers())
    with pytest.raises(IllegalTransitionError, match="warm-up has not run"):
        life.preflighted(supported())
    life.warmed_up()
    with pytest.raises(IllegalTransitionError, match="no preflight"):
        life.begin_capture()


def test_an_unsupported_candidate_fails_closed_before_capture() -> None:
    life = CaptureLifecycle("graph", fallback="eager")
    life.allocate(carriers())
    life.warmed_up()
    life.preflighted(unsupported())
    assert life.state == "unavailable"
    with pytest.raises(IllegalTransitionError):
        life.begin_capture()
    with pytest.raises(FailClosedError) as caught:
        life.begin_tick()
    assert [reason.subject for reason in caught.value.refusals] == ["stepping"]
    assert "stepping" in life.snapshot().disable_reasons[0]


# -- mode ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["", "on", None, True, "GRAPH"])
def test_an_unknown_mode_is_malformed(mode: Any) -> None:
    with pytest.raises(MalformedError):
        CaptureLifecycle(mode)
    with pytest.raises(MalformedError):
        ready().choose_mode(mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_the_mode_never_changes_inside_a_tick(mode: Any, steps: int) -> None:
    life = ready()
    life.begin_tick()
    for step in (lambda: life.complete(receipt(0, "capture-1")), life.publish)[:steps]:
        step()
    with pytest.raises(IllegalTransitionError, match="a tick is open"):
        life.choose_mode(mode)
    assert life.mode == "graph"


def test_another_mode_gives_the_capture_up() -> None:
    life = ready()
    life.choose_mode("eager")
    assert (life.state, life.capture_id, life.capture_identity) == ("eager", None, "eager")
    life.choose_mode("graph")
    assert life.state == "eager"
    with pytest.raises(IllegalTransitionError):
        life.begin_capture()  # the old preflight does not count any more


@pytest.mark.parametrize("call", [lambda life: life.choose_mode("eager"), lambda life: life.allocate(carriers())])
def test_cold_path_work_is_refused_while_a_capture_records(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    life = ready()
    cuda = SimpleNamespace(is_initialized=lambda: True, is_current_stream_capturing=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    with pytest.raises(CaptureViolation):
        call(life)


# -- capture ------------------------------------------------------------------------------------------------------


def test_a_capture_that_fails_is_invalidated_with_its_reason() -> None:
    life = CaptureLifecycle("graph", fallback="eager")
    life.allocate(carriers())
    life.warmed_up()
    life.preflighted(supported())
    with pytest.raises(RuntimeError, match="boom"), life.capturing("capture-1"):
        raise RuntimeError("boom")
    assert life.state == "invalidated"
    assert life.snapshot().invalidation_reasons == ("capture_failed",)
    assert life.fall_back() == "capture_failed: RuntimeError: boom"
    assert tick(life, 0) == "eager"


@pytest.mark.parametrize("reason", INVALIDATION_REASONS)
def test_what_is_invalidated_while_it_records_never_becomes_ready(reason: Any) -> None:
    life = CaptureLifecycle("graph")
    life.allocate(carriers())
    life.warmed_up()
    life.preflighted(supported())
    life.begin_capture()
    assert life.invalidate(reason, "changed meanwhile")
    with pytest.raises(InvalidatedError, match="changed meanwhile"):
        life.end_capture("capture-1")
    assert life.state == "invalidated"


@pytest.mark.parametrize("identity", ["", "x" * 257, None, 3, "eager", "capture-1"])
def test_a_capture_has_an_identity_of_its_own(identity: Any) -> None:
    life = ready(capture_id="capture-1")
    life.invalidate("model")
    life.preflighted(supported())
    with pytest.raises(MalformedError), life.capturing(identity):
        raise AssertionError("nothing may be recorded under this identity")
    life.begin_capture()
    with pytest.raises(MalformedError):
        life.end_capture(identity)
    life.end_capture("capture-2")
    assert life.capture_id == "capture-2"


# -- invalidation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", INVALIDATION_REASONS)
def test_every_reason_invalidates_before_the_next_replay(reason: Any) -> None:
    life = ready(fallback="forbidden")
    tick(life, 0)
    assert life.invalidate(reason, "something changed")
    assert life.state == "invalidated"
    with pytest.raises(InvalidatedError) as caught:
        life.begin_tick()
    assert [(item.code, item.subject) for item in caught.value.refusals] == [("invalidated", reason)]
    assert life.snapshot().replays == 1
    assert life.snapshot().invalidation_reasons == (reason,)
    assert life.snapshot().capture_id is None


@pytest.mark.parametrize("reason", ["weather", "", None, True, "Model"])
def test_there_are_no_other_reasons(reason: Any) -> None:
    with pytest.raises(MalformedError):
        ready().invalidate(reason)
    assert len(INVALIDATION_REASONS) == 7


def test_without_a_capture_there_is_nothing_to_invalidate_but_the_preflight_is_taken_back() -> None:
    life = CaptureLifecycle("graph")
    life.allocate(carriers())
    life.warmed_up()
    life.preflighted(supported())
    assert not life.invalidate("model")
    assert life.state == "eager"
    with pytest.raises(IllegalTransitionError, match="no preflight"):
        life.begin_capture()


def test_after_an_invalidation_the_way_back_is_preflight_and_a_new_capture() -> None:
    life = ready()
    life.invalidate("data")
    life.preflighted(supported())
    with life.capturing("capture-2"):
        pass
    assert (life.state, life.capture_id) == ("ready", "capture-2")
    assert life.snapshot().invalidation_reasons == ()
    assert life.snapshot().invalidations == 1
    with pytest.raises(IllegalTransitionError), life.capturing("capture-3"):
        pass


def test_a_replay_whose_capture_is_invalidated_meanwhile_does_not_complete() -> None:
    life = ready()
    life.begin_tick()
    life.invalidate("data", "resized")
    with pytest.raises(InvalidatedError):
        life.complete(receipt(0, "capture-1"))
    assert life.fail("data", "resized", rollback=RESTORED)
    assert life.snapshot().publications == 0


# -- receipts in the tick -----------------------------------------------------------------------------------------


def test_a_stale_or_foreign_receipt_completes_nothing() -> None:
    life = ready()
    tick(life, 5)
    life.begin_tick()
    for wrong in (receipt(5, "capture-1"), receipt(6, "capture-0"), receipt(6, "capture-1", producer="other")):
        with pytest.raises(ReceiptError):
            life.complete(wrong)
    life.complete(receipt(6, "capture-1"))


def test_a_tick_completes_publishes_and_ends_once_each_in_this_order() -> None:
    life = ready()
    life.begin_tick()
    with pytest.raises(IllegalTransitionError):
        life.begin_tick()
    with pytest.raises(IllegalTransitionError):
        life.publish()
    life.complete(receipt(0, "capture-1"))
    with pytest.raises(IllegalTransitionError):
        life.end_tick()
    life.publish()
    with pytest.raises(IllegalTransitionError):
        life.publish()
    with pytest.raises(IllegalTransitionError):
        life.close()
    life.end_tick()
    assert (life.snapshot().ticks, life.snapshot().publications) == (1, 1)


# -- fallback -----------------------------------------------------------------------------------------------------


def test_an_unpublished_failure_with_a_restored_rng_falls_back_counted_and_with_its_reason() -> None:
    life = ready()
    life.begin_tick()
    assert life.fail("stream_event", "the event was lost", rollback=RESTORED) == "stream_event: the event was lost"
    assert (life.mode, life.state) == ("graph", "eager")
    assert tick(life, 0) == "eager"
    found = life.snapshot()
    assert found.fallback_reasons == ("stream_event: the event was lost",)
    assert (found.enabled, found.capture_id, found.replays, found.eager_ticks) == (False, None, 0, 1)
    assert "fallback" in found.disable_reasons[0]


@pytest.mark.parametrize("completed", [False, True])
@pytest.mark.parametrize(
    ("fallback", "published", "rollback", "why"),
    [
        ("forbidden", False, RESTORED, "fallback is forbidden"),
        ("eager", True, RESTORED, "published a transition"),
        ("eager", False, None, "not rolled back"),
        ("eager", False, NOT_RESTORED, "not restored"),
    ],
)
def test_without_every_condition_of_a_fallback_it_fails_closed(
    fallback: str, published: bool, rollback: Rollback | None, why: str, completed: bool
) -> None:
    life = ready(fallback=fallback)
    life.begin_tick()
    if published or completed:
        life.complete(receipt(0, "capture-1"))
    if published:
        life.publish()
    with pytest.raises(FailClosedError, match=why):
        life.fail("stream_event", rollback=rollback)
    assert life.state == "unavailable"
    assert life.snapshot().fallback_reasons == ()
    assert life.snapshot().invalidation_reasons == ("stream_event",)
    for step in (life.begin_tick, life.fall_back, life.warmed_up, life.begin_capture):
        with pytest.raises(FailClosedError, match=why):
            step()
    with pytest.raises(FailClosedError):
        life.choose_mode("eager")


def test_an_invalidation_between_ticks_falls_back_only_where_that_was_allowed() -> None:
    life = ready(fallback="forbidden")
    life.invalidate("capacity", "more rows")
    with pytest.raises(FailClosedError, match="forbidden"):
        life.fall_back()
    allowed = ready(fallback="eager")
    allowed.invalidate("capacity", "more rows")
    assert allowed.fall_back() == "capacity: more rows"
    assert tick(allowed, 0) == "eager"


def test_nothing_falls_back_by_itself() -> None:
    life = ready(fallback="eager")
    life.invalidate("model")
    for _ in range(3):
        with pytest.raises(InvalidatedError):
            life.begin_tick()
    assert life.snapshot().fallback_reasons == ()


def test_an_eager_tick_that_fails_has_nothing_to_fall_back_to() -> None:
    life = CaptureLifecycle("eager", fallback="eager")
    life.allocate(carriers())
    life.begin_tick()
    with pytest.raises(FailClosedError, match="eager tick failed"):
        life.fail("data", rollback=RESTORED)


def test_after_a_fallback_a_new_capture_may_be_made_on_the_cold_path() -> None:
    life = ready()
    life.invalidate("view")
    life.fall_back()
    tick(life, 0)
    life.preflighted(supported())
    with life.capturing("capture-2"):
        pass
    assert tick(life, 1) == "graph"
    assert (life.snapshot().enabled, len(life.snapshot().fallback_reasons)) == (True, 1)


def test_after_a_failed_replay_the_old_preflight_does_not_count_any_more() -> None:
    life = ready()
    life.begin_tick()
    life.fail("stream_event", rollback=RESTORED)
    with pytest.raises(IllegalTransitionError, match="no preflight"):
        life.begin_capture()


def test_a_second_capture_that_fails_ends_the_fallback_and_has_to_be_fallen_back_from_again() -> None:
    life = ready()
    life.invalidate("view")
    life.fall_back()
    life.preflighted(supported())
    life.begin_capture()
    life.capture_failed("out of memory")
    assert life.state == "invalidated"
    with pytest.raises(InvalidatedError):
        life.begin_tick()
    life.fall_back()
    assert len(life.snapshot().fallback_reasons) == 2


def test_a_refused_preflight_does_not_stop_a_fallback_that_runs() -> None:
    life = ready()
    life.invalidate("view")
    life.fall_back()
    life.preflighted(unsupported())
    assert tick(life, 0) == "eager"


def test_reasons_of_any_length_and_content_fit_into_a_manifest() -> None:
    life = ready()
    life.begin_tick()
    reason = life.fail("stream_event", "ü\n\x00" * 500, rollback=RESTORED)
    assert len(reason.encode()) <= 256
    assert life.snapshot().fallback_reasons == (reason,)


def test_errors_survive_a_worker_process_with_their_reasons() -> None:
    life = ready(fallback="forbidden")
    life.invalidate("model", "changed")
    with pytest.raises(InvalidatedError) as caught:
        life.begin_tick()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), copy.refusals, copy.message) == (
        InvalidatedError,
        caught.value.refusals,
        caught.value.message,
    )


# -- any order of events ------------------------------------------------------------------------------------------

EVENTS = {
    "allocate": lambda life, data: life.allocate(carriers()),
    "warm": lambda life, data: life.warmed_up(),
    "preflight": lambda life, data: life.preflighted(supported()),
    "preflight-unsupported": lambda life, data: life.preflighted(unsupported()),
    "begin-capture": lambda life, data: life.begin_capture(),
    "end-capture": lambda life, data: life.end_capture(f"capture-{data}"),
    "capture-failed": lambda life, data: life.capture_failed("why"),
    "begin-tick": lambda life, data: life.begin_tick(),
    "begin-tick-drifted": lambda life, data: life.begin_tick(carriers().carriers[1:]),
    "complete": lambda life, data: life.complete(receipt(data, life.capture_identity)),
    "complete-foreign": lambda life, data: life.complete(receipt(data, "somebody-else")),
    "publish": lambda life, data: life.publish(),
    "end-tick": lambda life, data: life.end_tick(),
    "fail": lambda life, data: life.fail("stream_event", rollback=(None, RESTORED, NOT_RESTORED)[data % 3]),
    "invalidate": lambda life, data: life.invalidate(INVALIDATION_REASONS[data % 7], "event"),
    "fall-back": lambda life, data: life.fall_back(),
    "choose": lambda life, data: life.choose_mode(MODES[data % 3]),
    "close": lambda life, data: life.close(),
}
SETUP = ("allocate", "warm", "preflight", "begin-capture", "end-capture")
STEPS = st.lists(st.tuples(st.sampled_from(sorted(EVENTS)), st.integers(0, 40)), max_size=25)
# Closing ends everything that could follow, so it is rarer than the rest.
LEGAL = {
    ("unavailable", "eager"), ("eager", "ready"), ("eager", "invalidated"), ("ready", "invalidated"),
    ("ready", "eager"), ("invalidated", "eager"), ("invalidated", "ready"), ("eager", "unavailable"),
    ("ready", "unavailable"), ("invalidated", "unavailable"),
}  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(
    mode=st.sampled_from(MODES),
    fallback=st.sampled_from(["forbidden", "eager"]),
    set_up=st.integers(0, len(SETUP)),
    steps=STEPS,
)
def test_no_order_of_events_reaches_an_illegal_state(
    mode: Any, fallback: Any, set_up: int, steps: list[tuple[str, int]]
) -> None:
    life = CaptureLifecycle(mode, fallback=fallback)
    valid: str | None = None  # the capture that may be replayed, by what happened and not by what the object says
    closed = False
    for name, data in [*((name, 99) for name in SETUP[:set_up]), *steps]:
        before, in_tick, state = life.snapshot(), life.in_tick, life.state
        error: ContractError | None = None
        kind = None
        try:
            kind = EVENTS[name](life, data)
        except ContractError as caught:
            error = caught
        after = life.snapshot()  # a snapshot checks itself: enabled, reasons and counters never contradict
        assert after.state in STATES
        assert after.state == state or (state, after.state) in LEGAL, (name, state, after.state)
        if isinstance(error, (IllegalTransitionError, MalformedError, ReceiptError)):
            assert after == before, name
            assert life.in_tick == in_tick
        if error is not None:
            assert error.refusals
        if in_tick and life.in_tick:
            assert after.mode == before.mode
        if closed:
            assert (after.ticks, after.publications, after.state) == (before.ticks, before.publications, "unavailable")
        if name == "end-capture" and error is None:
            valid = f"capture-{data}"
        if name in ("invalidate", "fail", "begin-tick-drifted", "choose", "close") and after.state != "ready":
            valid = None
        if kind == "graph":
            assert before.capture_id == valid is not None
            assert state == "ready"
        assert after.capture_id == (valid if after.state == "ready" else None)
        assert len(after.fallback_reasons) - len(before.fallback_reasons) in (0, 1)
        if len(after.fallback_reasons) > len(before.fallback_reasons):
            assert fallback == "eager"
            assert name in ("fail", "fall-back")
            assert after.publications == before.publications == after.ticks
        if after.replays > before.replays:
            assert name in ("end-tick", "fail")
        closed = (
            closed
            or (name == "close" and error is None)
            or (
                isinstance(error, FailClosedError)
                and name
                in (
                    "fail",
                    "fall-back",
                )
            )
        )


def test_an_argument_of_another_kind_is_refused_as_such_and_changes_nothing() -> None:
    life = ready()
    life.begin_tick()
    before = life.snapshot()
    rng = RngLedger(SimpleNamespace(get_state=lambda: b"state", set_state=None), device="cpu")
    for call in (
        lambda: life.complete("receipt"),  # type: ignore[arg-type]
        lambda: life.fail("stream_event", rollback=True),  # type: ignore[arg-type]
        lambda: life.check_drift(["action"]),  # type: ignore[list-item]
        lambda: preflight(None),  # type: ignore[arg-type]
        lambda: rng.rollback(b"state"),  # type: ignore[arg-type]
    ):
        with pytest.raises(MalformedError, match="expected a "):
            call()
    assert life.snapshot() == before


def test_a_carrier_that_is_shown_twice_must_be_right_both_times() -> None:
    held = carriers()
    first = held.carriers[0]
    moved = replace(first, address=(first.address or 0) + 4096)
    for observed in ([moved, *held.carriers], [*held.carriers, moved]):
        life = ready()
        with pytest.raises(InvalidatedError, match=first.name):
            life.begin_tick(observed)
