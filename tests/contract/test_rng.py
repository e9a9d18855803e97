"""Random draws: versions, recorded order, rollback, and an empty mask that consumes nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from capaudit.contract import MalformedError, RngError, RngEvidence, RngLedger, require_nothing_consumed


class Generator:
    """A generator whose state is bytes: one byte per draw made."""

    def __init__(self) -> None:
        self.state = b"seed"

    def get_state(self) -> bytes:
        return self.state

    def set_state(self, state: bytes) -> None:
        self.state = state

    def draw(self) -> float:
        self.state += b"."
        return random.Random(self.state).random()


def eager(ledger: RngLedger, generator: Generator, names: tuple[str, ...]) -> list[float]:
    ledger.begin_tick()
    values = []
    for name in names:
        ledger.draw(name)
        values.append(generator.draw())
    ledger.end_tick()
    return values


def refusal(call: Any) -> tuple[str, str]:
    with pytest.raises(RngError) as caught:
        call()
    return caught.value.refusals[0].code, caught.value.refusals[0].subject


@pytest.mark.parametrize(
    ("values", "field"),
    [
        (("", b"x", 0, 0), "device"),
        (("cpu", b"", 0, 0), "state"),
        (("cpu", "x", 0, 0), "state"),
        (("cpu", b"x", -1, 0), "state_version"),
        (("cpu", b"x", 0, True), "draw_version"),
    ],
)
def test_malformed_evidence_is_refused(values: Any, field: str) -> None:
    with pytest.raises(MalformedError) as caught:
        RngEvidence(*values)
    assert caught.value.place == field


def test_every_tick_raises_the_draw_version_by_its_draws() -> None:
    generator = Generator()
    ledger = RngLedger(generator, device="cpu")
    versions = []
    for _ in range(3):
        eager(ledger, generator, ("reset", "noise"))
        versions.append(ledger.evidence().draw_version)
    assert versions == [2, 4, 6]
    assert ledger.evidence().state_version == 0


def test_the_first_tick_records_the_order_and_every_later_one_is_held_to_it() -> None:
    generator = Generator()
    ledger = RngLedger(generator, device="cpu")
    eager(ledger, generator, ("reset", "noise"))
    assert ledger.order == ("reset", "noise")
    ledger.begin_tick()
    assert refusal(lambda: ledger.draw("noise")) == ("rng-draw-order", "draw_order")
    ledger.draw("reset")
    assert refusal(ledger.end_tick) == ("rng-draw-order", "draw_order")
    ledger.draw("noise")
    assert refusal(lambda: ledger.draw("noise")) == ("rng-draw-order", "draw_order")
    ledger.end_tick()


def test_a_replay_counts_as_the_recorded_order() -> None:
    generator = Generator()
    ledger = RngLedger(generator, device="cpu")
    ledger.begin_tick()
    assert refusal(ledger.replayed) == ("rng-draw-order", "draw_order")
    ledger.draw("reset")
    ledger.draw("noise")
    ledger.end_tick()
    ledger.begin_tick()
    assert ledger.replayed().draw_version == 4
    ledger.begin_tick()
    ledger.draw("reset")
    assert refusal(ledger.replayed) == ("rng-draw-order", "draw_order")


def test_draws_belong_to_a_tick() -> None:
    ledger = RngLedger(Generator(), device="cpu")
    assert refusal(lambda: ledger.draw("noise")) == ("rng-tick", "tick")
    ledger.begin_tick()
    assert refusal(ledger.begin_tick) == ("rng-tick", "tick")
    assert refusal(ledger.seed_installed) == ("rng-tick", "tick")


def test_a_rollback_restores_the_whole_state_and_the_next_draws_equal_eager_ones() -> None:
    generator, twin = Generator(), Generator()
    ledger = RngLedger(generator, device="cpu")
    other = RngLedger(twin, device="cpu")
    assert eager(ledger, generator, ("a", "b")) == eager(other, twin, ("a", "b"))
    before = ledger.begin_tick()
    generator.draw()  # the replay that fails has consumed something
    rolled_back = ledger.rollback(before)
    assert rolled_back.restored
    assert ledger.evidence().draw_version == before.draw_version
    assert ledger.evidence().state_version == before.state_version + 1
    assert eager(ledger, generator, ("a", "b")) == eager(other, twin, ("a", "b"))


def test_a_rollback_behind_a_replay_takes_its_draws_back() -> None:
    ledger = RngLedger(Generator(), device="cpu", order=("a", "b"))
    before = ledger.begin_tick()
    assert ledger.replayed().draw_version == 2
    assert ledger.rollback(before).restored
    assert ledger.evidence().draw_version == 0


def test_a_generator_that_does_not_take_its_state_back_is_not_restored() -> None:
    class Stubborn(Generator):
        def set_state(self, state: bytes) -> None:
            self.state = state + b"!"

    generator = Stubborn()
    ledger = RngLedger(generator, device="cpu")
    before = ledger.begin_tick()
    assert not ledger.rollback(before).restored


def test_a_rollback_to_another_device_or_to_the_future_is_refused() -> None:
    ledger = RngLedger(Generator(), device="cpu")
    assert refusal(lambda: ledger.rollback(RngEvidence("cuda:0", b"x", 0, 0)))[1] == "device"
    assert refusal(lambda: ledger.rollback(RngEvidence("cpu", b"x", 1, 0)))[1] == "versions"
    assert refusal(lambda: ledger.rollback(RngEvidence("cpu", b"x", 0, 1)))[1] == "versions"


def test_the_state_version_never_goes_back() -> None:
    generator = Generator()
    ledger = RngLedger(generator, device="cpu")
    seen = [ledger.evidence().state_version]
    before = ledger.begin_tick()
    seen.append(ledger.rollback(before).after.state_version)
    seen.append(ledger.seed_installed().state_version)
    seen.append(ledger.rollback(before).after.state_version)
    assert seen == sorted(set(seen))


def test_an_empty_mask_leaves_the_masked_draws_out_and_consumes_nothing() -> None:
    generator = Generator()
    ledger = RngLedger(generator, device="cpu", order=("reset.bias", "reset.pose"), masked=("reset.bias", "reset.pose"))
    before = ledger.begin_tick()
    after = ledger.end_tick()
    require_nothing_consumed(before, after)
    before = ledger.begin_tick()
    require_nothing_consumed(before, ledger.replayed(empty_mask=True))


def test_masked_draws_come_all_or_none() -> None:
    generator = Generator()
    ledger = RngLedger(generator, device="cpu", order=("bias", "pose", "noise"), masked=("bias", "pose"))
    eager(ledger, generator, ("noise",))
    eager(ledger, generator, ("bias", "pose", "noise"))
    ledger.begin_tick()
    ledger.draw("bias")
    assert refusal(lambda: ledger.draw("noise")) == ("rng-draw-order", "draw_order")


def test_a_draw_under_an_empty_mask_is_found() -> None:
    generator = Generator()
    ledger = RngLedger(generator, device="cpu")
    before = ledger.evidence()
    generator.draw()
    assert refusal(lambda: require_nothing_consumed(before, ledger.evidence())) == ("rng-empty-mask", "empty_mask")


def test_a_tick_under_an_empty_mask_does_not_record_a_short_order() -> None:
    generator = Generator()
    ledger = RngLedger(generator, device="cpu", masked=("reset",))
    eager(ledger, generator, ("noise",))
    assert ledger.order is None
    eager(ledger, generator, ("reset", "noise"))
    assert ledger.order == ("reset", "noise")


def test_the_device_may_count_its_draws_itself() -> None:
    count = 0
    ledger = RngLedger(Generator(), device="cuda:0", order=("reset",), draws=lambda: count)
    ledger.begin_tick()
    count = 40
    assert ledger.replayed().draw_version == 40


def test_a_torch_generator_draws_the_same_after_a_rollback_bit_for_bit() -> None:
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(3)
    twin = torch.Generator().manual_seed(3)
    ledger = RngLedger(generator, device="cpu")
    before = ledger.begin_tick()
    torch.rand(100, generator=generator)
    torch.randn(7, generator=generator)
    assert ledger.rollback(before).restored
    assert torch.equal(torch.randn(64, generator=generator), torch.randn(64, generator=twin))
    assert before.state == bytes(torch.Generator().manual_seed(3).get_state().tolist())
