"""A small collector with Torch and Warp on the CPU: every piece of the contract together, without a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from capaudit.contract import (
    Candidate,
    CaptureLifecycle,
    CarrierManifest,
    FailClosedError,
    Ingress,
    IngressShape,
    InvalidatedError,
    ReceiptLedger,
    RngLedger,
    RunManifest,
    StreamContract,
    describe,
    immediate_receipt,
    preflight,
)
from capaudit.contract.documents import dumps, loads
from capaudit.contract.manifest import SCHEMA
from tests.contract.samples import BOUNDARY, HEAD, SOFTWARE, capabilities

torch = pytest.importorskip("torch")
warp = pytest.importorskip("warp")

WORLDS = 4


class Collector:
    """Adds the action and some noise to a position that Warp holds; resets worlds under a mask."""

    def __init__(self, fallback: Any = "eager") -> None:
        warp.init()
        self.position = warp.zeros(WORLDS, dtype=warp.float32, device="cpu")
        self.view = warp.to_torch(self.position)
        self.action, self.reward = torch.zeros(WORLDS), torch.zeros(WORLDS)
        self.slots = (torch.zeros(WORLDS), torch.zeros(WORLDS))
        self.generator = torch.Generator().manual_seed(7)
        self.rng = RngLedger(self.generator, device="cpu", order=("noise",))
        self.life = CaptureLifecycle("graph", fallback=fallback)
        self.ledger = ReceiptLedger(operation="collector.tick", producer="collector", capture_id="eager")
        self.ingress = Ingress(self.slots, rows=WORLDS, ledger=self.ledger)
        self.sequence = 0
        self.fail_next = False

    def carriers(self) -> CarrierManifest:
        return CarrierManifest(
            (
                describe("action", self.action, owner="collector", role="input"),
                describe("reward", self.reward, owner="collector", role="output"),
                describe("position", self.position, owner="backend", role="output", drift="data"),
                *(describe(f"slot[{i}]", slot, owner="replay", role="ingress") for i, slot in enumerate(self.slots)),
            )
        )

    def compute(self) -> None:
        noise = torch.rand(WORLDS, generator=self.generator)
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("the device was lost")
        self.view.add_(self.action + noise)
        self.reward.copy_(self.view)

    def prepare(self) -> None:
        self.life.allocate(self.carriers())
        self.life.warmed_up()
        declared = Candidate(BOUNDARY, capabilities(devices=("cpu",)), self.carriers())
        self.life.preflighted(preflight(declared, rehearsal=True))
        with self.life.capturing("capture-1"):
            pass
        self.ledger.expect(self.life.capture_identity)

    def tick(self) -> str:
        before = self.rng.begin_tick()
        kind = self.life.begin_tick(self.carriers().carriers)
        number = self.ingress.counters.published
        try:
            self.compute()
        except RuntimeError as error:
            self.life.fail("stream_event", str(error), rollback=self.rng.rollback(before))
            self.ledger.expect(self.life.capture_identity)
            return self.tick()
        if kind == "eager":
            self.rng.draw("noise")
            self.rng.end_tick()
        else:
            self.rng.replayed()
        self.slots[self.ingress.slot_of(number)].copy_(self.reward)
        identity = self.life.capture_identity
        receipt = immediate_receipt(
            operation="collector.tick", sequence=self.sequence, producer="collector", capture_id=identity
        )
        self.sequence += 1
        self.life.complete(receipt)
        self.ingress.publish(number, receipt)
        self.life.publish()
        self.life.end_tick()
        assert torch.equal(self.ingress.read(number, host=True), self.reward)
        self.ingress.release(number)
        return kind

    def manifest(self) -> RunManifest:
        return RunManifest.of(
            self.life.snapshot(),
            ordering=self.ingress.close(),
            stream=StreamContract("cpu", 0),
            rng=self.rng.evidence(),
            seeds={"env": 7},
            gpu_uuid="CPU",
            software=replace(SOFTWARE, driver="absent", cuda="absent"),
            worlds=WORLDS,
            shapes={item.name: item.shape for item in self.carriers().carriers},
            ingress=IngressShape(2, WORLDS, 512 * WORLDS),
            git_head=HEAD,
        )


def test_a_collector_runs_its_whole_life_on_the_cpu_with_immediate_receipts() -> None:
    collector = Collector()
    collector.prepare()
    assert [collector.tick() for _ in range(5)] == ["graph"] * 5
    found = collector.manifest()
    assert (found.enabled, found.rehearsal, found.replays, found.ordering.released) == (True, True, 5, 5)
    assert loads(RunManifest, dumps(found, SCHEMA), SCHEMA) == found


def test_a_failed_replay_falls_back_and_the_trajectory_is_that_of_an_undisturbed_run() -> None:
    disturbed, quiet = Collector(), Collector()
    for collector in (disturbed, quiet):
        collector.prepare()
        collector.tick()
    disturbed.fail_next = True
    assert disturbed.tick() == "eager"
    assert quiet.tick() == "graph"
    assert torch.equal(disturbed.reward, quiet.reward)
    assert disturbed.rng.evidence().same_draws_follow(quiet.rng.evidence())
    found = disturbed.manifest()
    assert (found.enabled, found.fallbacks, found.fallback_reasons) == (
        False,
        1,
        ("stream_event: the device was lost",),
    )


def test_without_a_fallback_a_failed_replay_ends_the_run_with_a_manifest_that_says_why() -> None:
    collector = Collector(fallback="forbidden")
    collector.prepare()
    collector.tick()
    collector.fail_next = True
    with pytest.raises(FailClosedError, match="fallback is forbidden"):
        collector.tick()
    found = collector.manifest()
    assert (found.state, found.ordering.published) == ("unavailable", 1)
    assert found.invalidation_reasons == ("stream_event",)


@pytest.mark.parametrize(("name", "reason"), [("action", "policy_io"), ("position", "data"), ("slots", "capacity")])
def test_storage_that_moved_is_found_before_the_replay(name: str, reason: str) -> None:
    collector = Collector()
    collector.prepare()
    collector.tick()
    moved = {
        "action": torch.zeros(WORLDS),
        "position": warp.zeros(WORLDS, dtype=warp.float32, device="cpu"),
        "slots": (collector.slots[0], torch.zeros(WORLDS)),
    }[name]
    setattr(collector, name, moved)
    with pytest.raises(InvalidatedError, match=reason):
        collector.tick()
    assert collector.life.snapshot().invalidation_reasons == (reason,)
