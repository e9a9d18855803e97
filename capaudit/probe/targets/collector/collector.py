"""The reference collector: the tick under the contract, with its lifecycle, receipts, ingress and random evidence.

collector = ReferenceCollector(plant, worlds=2048, device="cuda", seed=1, mode="graph", fallback="eager")
collector.prepare()
collector.tick.carriers.action.copy_(action)
receipt = collector.step()
real, flags = collector.take()  # behind the receipt
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from capaudit.contract import (
    CaptureLifecycle,
    CompletionReceipt,
    Ingress,
    IngressShape,
    Mode,
    Preflight,
    ReceiptLedger,
    RngEvidence,
    RngLedger,
    RunManifest,
    Software,
    event_receipt,
    immediate_receipt,
    preflight,
)
from capaudit.contract.lifecycle import Fallback
from capaudit.contract.receipts import EAGER_CAPTURE
from capaudit.model import CaptureKind
from capaudit.probe.targets.collector import state
from capaudit.probe.targets.collector.carriers import INGRESS_DEPTH
from capaudit.probe.targets.collector.declare import (
    declare_candidate,
    describe_carriers,
    fingerprint,
    ingress_slots,
    storages,
    stream_contract,
)
from capaudit.probe.targets.collector.modes import WARMUP, TickRunner
from capaudit.probe.targets.collector.plant import Plant
from capaudit.probe.targets.collector.tick import DRAW_ORDER, CollectorTick

# The methods of the tick that draw, in the recorded order, and whether an empty mask leaves the draw out.
_DRAWING = (("_observe_terminal", False), ("_reset", True), ("_observe_after_reset", False))
OPERATION, PRODUCER = "collector.tick", "reference-collector"
REPLAY_CAPACITY = 512


class DeviceGenerators:
    """Every generator of the tick as one state: Torch's, then the draw counters that the worlds keep."""

    def __init__(self, tick: CollectorTick) -> None:
        self._tick = tick

    def get_state(self) -> bytes:
        """Return the bytes; waits for the device."""
        return bytes(state.random_state(self._tick).numpy().tobytes())

    def set_state(self, data: bytes) -> None:
        """Install bytes of ``get_state``, in place."""
        size = self._tick.generator.get_state().numel()
        values = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        self._tick.generator.set_state(values[:size].clone())
        self._tick.carriers.reset_draws.copy_(values[size:].clone().view(torch.int32))


class ReferenceCollector:
    """One collector. ``evidence`` false leaves the whole random state to the end of a run: reading it waits.

    ``kind`` and ``make`` serve the negative controls.
    """

    def __init__(
        self,
        plant: Plant,
        *,
        worlds: int,
        device: str,
        seed: int = 1,
        mode: Mode = "graph",
        fallback: Fallback = "eager",
        evidence: bool = True,
        make: type[CollectorTick] = CollectorTick,
        kind: CaptureKind = "shared",
    ) -> None:
        self.seed = seed
        self.device = device
        self.tick = make(plant, worlds, device, seed)
        self.runner = TickRunner(self.tick, device, kind)
        self.lifecycle = CaptureLifecycle(mode, fallback=fallback, operation=OPERATION, producer=PRODUCER)
        self.rng = RngLedger(
            DeviceGenerators(self.tick) if evidence else self.tick.generator,
            device=str(self.tick.carriers.action.device),
            order=DRAW_ORDER,
            masked=("reset-values",),
        )
        self.ingress_ledger = ReceiptLedger(operation=OPERATION, producer=PRODUCER, capture_id=EAGER_CAPTURE)
        self.ingress: Ingress[tuple[torch.Tensor, torch.Tensor]] = Ingress(
            ingress_slots(self.tick), rows=worlds, ledger=self.ingress_ledger
        )
        self.evidence = evidence
        self.verdict: Preflight | None = None
        self.receipts: list[str] = []
        self.before: RngEvidence | None = None
        self.kept: state.Snapshot | None = None
        self._captures = 0
        self._sequence = 0
        self._known: Any = None
        self._declared: tuple[torch.Tensor, ...] = ()
        self._seen: tuple[torch.Tensor, ...] = ()

    # -- the cold path -------------------------------------------------------------------------------------------

    def prepare(self, *, record: bool = True) -> Preflight | None:
        """Allocate, warm up, put the state back, preflight and record. Raises what the capture raises."""
        # An address tells a carrier apart only while the declared storage lives: a freed one is given out again.
        self._declared = storages(self.tick)
        self.lifecycle.allocate(declare_candidate(self.runner, requested=True).carriers)
        begin = state.take(self.tick)
        # On the CPU there is nothing that a second tick would load.
        self.runner.warm_up(WARMUP if self.runner.captures else 1)
        state.restore(self.tick, begin)
        self.runner.synchronize()
        self.lifecycle.warmed_up()
        self._note_carriers()
        if self.lifecycle.mode == "graph" and record:
            self.capture()
        return self.verdict

    def capture(self) -> None:
        """Preflight, and record where it is supported."""
        candidate = declare_candidate(self.runner, requested=True)
        self.verdict = preflight(candidate, rehearsal=not self.runner.captures)
        self.lifecycle.preflighted(self.verdict)
        if not self.verdict:
            return
        self._captures += 1
        with self.lifecycle.capturing(f"{PRODUCER}-{self._captures}"):
            self.runner.record()
        self._note_carriers()

    # -- ticks ---------------------------------------------------------------------------------------------------

    def step(self) -> CompletionReceipt:
        """Run one tick as the lifecycle has it, and publish its transition."""
        kind = self.lifecycle.begin_tick(self._drifted())
        self.before = self.rng.begin_tick() if self.evidence else None
        if kind == "graph":
            self.runner.replay()
            if self.evidence:
                self.runner.synchronize()
                self.rng.replayed(empty_mask=not bool(self.tick.carriers.done.any()))
        elif self.evidence:
            with self._noting_draws():
                self.runner.eager()
            self.runner.synchronize()
            self.rng.end_tick()
        else:
            self.runner.eager()
        receipt = self.issue()
        self.finish(receipt)
        return receipt

    def issue(self) -> CompletionReceipt:
        """Return the receipt of the work that was put on the stream last."""
        identity = self.lifecycle.capture_identity
        event = self.runner.event()
        sequence, self._sequence = self._sequence, self._sequence + 1
        if event is None:
            return immediate_receipt(
                operation=OPERATION, sequence=sequence, producer=PRODUCER, capture_id=identity, stream_id=0
            )
        return event_receipt(
            event,
            operation=OPERATION,
            sequence=sequence,
            producer=PRODUCER,
            capture_id=identity,
            stream_id=self.runner.stream_id,
        )

    def finish(self, receipt: CompletionReceipt) -> None:
        """Complete the tick with its receipt and publish the slot that it filled."""
        self.lifecycle.complete(receipt)
        self.ingress_ledger.expect(self.lifecycle.capture_identity)
        self.ingress.publish(self.ingress.counters.published, receipt)
        self.lifecycle.publish()
        self.lifecycle.end_tick()
        if self.evidence:
            self.receipts.append(receipt.capture_id)

    def take(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the oldest slot that is held, behind its receipt, and give it back to the ring.

        The storage is overwritten two ticks later.
        """
        tick = self.ingress.counters.released
        slot = self.ingress.read(tick, host=False)
        self.ingress.release(tick)
        return slot

    # -- what is said about a run --------------------------------------------------------------------------------

    def manifest(self, *, gpu_uuid: str, software: Software, git_head: str) -> RunManifest:
        """Describe the run up to now; everything published has to be released."""
        c = self.tick.carriers
        ledger = RngLedger(DeviceGenerators(self.tick), device=str(c.action.device), order=DRAW_ORDER)
        found = self.rng.evidence()
        rng = RngEvidence(found.device, ledger.evidence().state, found.state_version, found.draw_version)
        return RunManifest.of(
            self.lifecycle.snapshot(),
            ordering=self.ingress.close(),
            stream=stream_contract(self.runner),
            rng=rng,
            seeds={"env": self.seed},
            gpu_uuid=gpu_uuid,
            software=software,
            worlds=self.tick.worlds,
            shapes={item.name: item.shape for item in describe_carriers(self.tick) if item.role != "ingress"},
            ingress=IngressShape(INGRESS_DEPTH, self.tick.worlds, REPLAY_CAPACITY * self.tick.worlds),
            git_head=git_head,
        )

    def _drifted(self) -> Any:
        """Return the carriers as they are now where anything moved, ``None`` where nothing did."""
        if fingerprint(self.tick) == self._known:
            return None
        self._note_carriers()
        return describe_carriers(self.tick)

    def _note_carriers(self) -> None:
        """Remember the carriers as they are now, and keep them: a freed one's address would look unmoved."""
        self._seen, self._known = storages(self.tick), fingerprint(self.tick)

    @contextmanager
    def _noting_draws(self) -> Iterator[None]:
        """Tell the ledger of each draw as the eager tick makes it, so that their order is checked."""
        tick = self.tick
        try:
            for (method, _), name in zip(_DRAWING, DRAW_ORDER, strict=True):
                setattr(tick, method, self._noted(getattr(tick, method), name))
            yield
        finally:
            for method, _ in _DRAWING:
                delattr(tick, method)

    def _noted(self, method: Callable[[], None], name: str) -> Callable[[], None]:
        masked = dict(zip(DRAW_ORDER, (masked for _, masked in _DRAWING), strict=True))[name]

        def noted() -> None:
            method()
            if not masked or bool(self.tick.carriers.done.any()):
                self.rng.draw(name)

        return noted
