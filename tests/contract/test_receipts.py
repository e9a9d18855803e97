"""Receipts, the ledger that accepts them, and ingress slots that wait for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capaudit.contract import (
    CompletionReceipt,
    Ingress,
    IngressCounters,
    IngressError,
    MalformedError,
    ReceiptError,
    ReceiptLedger,
    event_receipt,
)
from tests.contract.samples import receipt


class Event:
    """A Torch-like event that notes who waited."""

    def __init__(self) -> None:
        self.waits: list[Any] = []

    def wait(self, stream: Any = None) -> None:
        self.waits.append(("stream", stream))

    def synchronize(self) -> None:
        self.waits.append(("host", None))


class WarpEvent:
    """A Warp-like event: the stream waits for it."""

    def __init__(self) -> None:
        self.cuda_event = 7
        self.waits: list[Any] = []
        self.device = self
        self.stream = self

    def wait_event(self, event: WarpEvent) -> None:
        self.waits.append(event)


def with_event(sequence: int, event: Any, **changes: Any) -> CompletionReceipt:
    values: dict[str, Any] = {"operation": "collector.tick", "producer": "collector", "capture_id": "eager"}
    return event_receipt(event, sequence=sequence, stream_id=5, **(values | changes))


def ledger() -> ReceiptLedger:
    return ReceiptLedger(operation="collector.tick", producer="collector", capture_id="eager")


# -- receipts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("contract_version", 2), ("contract_version", True), ("operation", ""), ("sequence", -1), ("sequence", True),
        ("sequence", 1.0), ("sequence", 2**63), ("producer", ""), ("producer", "p" * 257), ("producer", 1),
        ("capture_id", ""), ("capture_id", "c" * 257), ("capture_id", None), ("stream_id", -1), ("stream_id", None),
        ("event", "an event"), ("event", 7),
    ],
)  # fmt: skip
def test_a_malformed_field_of_a_receipt_is_refused(field: str, value: Any) -> None:
    with pytest.raises(MalformedError) as caught:
        replace(receipt(0), **{field: value})
    assert caught.value.place == field


def test_an_identity_may_have_256_bytes() -> None:
    assert receipt(0, "c" * 256).capture_id == "c" * 256


def test_the_event_form_needs_an_event() -> None:
    with pytest.raises(MalformedError):
        with_event(0, None)


def test_an_immediate_receipt_waits_for_nothing() -> None:
    assert receipt(0).is_immediate
    receipt(0).wait_before_read()
    receipt(0).wait_before_read(host=True)


def test_the_event_form_orders_the_reading_stream_and_leaves_the_host_alone() -> None:
    event = Event()
    with_event(0, event).wait_before_read()
    with_event(0, event).wait_before_read("side")
    assert event.waits == [("stream", None), ("stream", "side")]


def test_a_read_on_the_host_waits_on_the_host() -> None:
    event = Event()
    with_event(0, event).wait_before_read(host=True)
    assert event.waits == [("host", None)]


def test_a_warp_event_is_waited_for_by_the_stream() -> None:
    event, stream = WarpEvent(), WarpEvent()
    with_event(0, event).wait_before_read()
    with_event(0, event).wait_before_read(stream)
    assert event.waits == [event]
    assert stream.waits == [event]


# -- ledger -------------------------------------------------------------------------------------------------------


def refusals(call: Any) -> set[tuple[str, str]]:
    with pytest.raises(ReceiptError) as caught:
        call()
    return {(reason.code, reason.subject) for reason in caught.value.refusals}


def test_sequences_only_grow() -> None:
    held = ledger()
    held.accept(receipt(3))
    for stale in (3, 2, 0):
        assert refusals(lambda stale=stale: held.accept(receipt(stale))) == {("stale-sequence", "sequence")}
    assert held.last_sequence == 3
    held.accept(receipt(9))
    assert (held.last_sequence, held.accepted) == (9, 2)


@pytest.mark.parametrize("field", ["operation", "producer", "capture_id"])
def test_a_foreign_identity_is_refused(field: str) -> None:
    held = ledger()
    foreign = replace(receipt(1), **{field: "somebody-else"})
    assert refusals(lambda: held.accept(foreign)) == {("foreign-identity", field)}
    assert held.accepted == 0


def test_every_reason_is_given_at_once() -> None:
    held = ledger()
    held.accept(receipt(5))
    foreign = replace(receipt(5), producer="a", capture_id="b")
    assert {subject for _, subject in refusals(lambda: held.accept(foreign))} == {"producer", "capture_id", "sequence"}


def test_after_another_capture_the_old_identity_is_foreign_and_the_sequence_goes_on() -> None:
    held = ledger()
    held.accept(receipt(5))
    held.expect("capture-2")
    assert refusals(lambda: held.accept(receipt(6))) == {("foreign-identity", "capture_id")}
    assert refusals(lambda: held.accept(receipt(5, "capture-2"))) == {("stale-sequence", "sequence")}
    held.accept(receipt(6, "capture-2"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 20), max_size=20))
def test_what_a_ledger_accepts_is_strictly_increasing(sequences: list[int]) -> None:
    held = ledger()
    accepted = []
    for sequence in sequences:
        try:
            accepted.append(held.accept(receipt(sequence)).sequence)
        except ReceiptError:
            assert accepted
            assert sequence <= accepted[-1]
    assert accepted == sorted(set(accepted))


# -- ingress ------------------------------------------------------------------------------------------------------


def ingress() -> Ingress[str]:
    return Ingress(("left", "right"), rows=8, ledger=ledger())


def test_a_slot_is_handed_out_only_behind_the_receipts_wait() -> None:
    slots, event = ingress(), Event()
    slots.publish(0, with_event(0, event))
    assert event.waits == []
    assert slots.read(0, "reader") == "left"
    assert event.waits == [("stream", "reader")]


def test_two_slots_take_turns_and_the_third_tick_waits_for_a_release() -> None:
    slots = ingress()
    assert [slots.publish(tick, receipt(tick)) for tick in (0, 1)] == [0, 1]
    with pytest.raises(IngressError, match="tick 0"):
        slots.publish(2, receipt(2))
    assert slots.read(0) == "left"
    slots.release(0)
    assert slots.publish(2, receipt(2)) == 0


@pytest.mark.parametrize("tick", [1, -1, True, None, 0.0])
def test_ticks_are_published_without_gaps(tick: Any) -> None:
    slots = ingress()
    with pytest.raises(IngressError):
        slots.publish(tick, receipt(0))
    assert slots.counters == IngressCounters(0, 0, 0)


def test_a_refused_receipt_publishes_nothing() -> None:
    slots = ingress()
    with pytest.raises(ReceiptError):
        slots.publish(0, receipt(0, "capture-1"))
    assert slots.counters == IngressCounters(0, 0, 0)
    slots.publish(0, receipt(0))


def test_a_slot_is_released_in_order_once_and_after_a_read() -> None:
    slots = ingress()
    slots.publish(0, receipt(0))
    slots.publish(1, receipt(1))
    with pytest.raises(IngressError, match="nobody waited"):
        slots.release(0)
    slots.read(0)
    slots.read(1)
    with pytest.raises(IngressError, match="is due"):
        slots.release(1)
    slots.release(0)
    with pytest.raises(IngressError):
        slots.release(0)
    with pytest.raises(IngressError):
        slots.read(0)


def test_an_ingress_closes_with_equal_counters_only() -> None:
    slots = ingress()
    slots.publish(0, receipt(0))
    with pytest.raises(IngressError, match="1 ticks were published and 0 released"):
        slots.close()
    slots.read(0)
    slots.release(0)
    assert slots.close() == IngressCounters(1, 1, 1)


@pytest.mark.parametrize("values", [(1, 2, 0), (2, 1, 2), (-1, 0, 0), (True, 0, 0)])
def test_counters_that_contradict_each_other_are_malformed(values: Any) -> None:
    with pytest.raises(MalformedError):
        IngressCounters(*values)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["publish", "read", "release"]), st.integers(0, 6)), max_size=30))
def test_no_order_of_calls_loses_or_repeats_a_transition(calls: list[tuple[str, int]]) -> None:
    slots = ingress()
    published: list[int] = []
    released: list[int] = []
    for name, tick in calls:
        try:
            if name == "publish":
                slots.publish(tick, receipt(tick))
                published.append(tick)
            elif name == "read":
                assert slots.read(tick) == ("left", "right")[tick % 2]
            else:
                slots.release(tick)
                released.append(tick)
        except IngressError:
            pass
        assert slots.counters == IngressCounters(len(published), len(published), len(released))
        assert len(published) - len(released) <= 2
    assert published == list(range(len(published)))
    assert released == list(range(len(released)))
