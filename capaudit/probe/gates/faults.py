"""Plants the faults of Gate S in a running collector and says what it did about each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from capaudit.contract import (
    CompletionReceipt,
    ContractError,
    FailClosedError,
    InvalidatedError,
    MalformedError,
    ReceiptError,
    RunManifest,
    Software,
    preflight,
)
from capaudit.contract.documents import dumps, loads
from capaudit.contract.gate_s_evidence import FaultObservation
from capaudit.contract.gate_words import Arm, Fault, Outcome
from capaudit.contract.lifecycle import Fallback
from capaudit.contract.manifest import SCHEMA
from capaudit.contract.reasons import InvalidationReason, Mode
from capaudit.probe.gates.plan import planned_ticks, set_inputs
from capaudit.probe.targets.collector import state
from capaudit.probe.targets.collector.collector import OPERATION, PRODUCER, ReferenceCollector
from capaudit.probe.targets.collector.declare import declare_candidate

Build = Callable[[Mode, Fallback], ReferenceCollector]
_TICKS = 2


@dataclass(frozen=True, slots=True)
class Bench:
    """What every plant needs: how collectors are built and prepared, and what their manifests say."""

    arm: Arm
    build: Build
    seed: int
    gpu_uuid: str
    software: Software
    git_head: str

    def started(self, mode: Mode = "graph", fallback: Fallback = "eager") -> ReferenceCollector:
        """Return a prepared collector that has run some ticks well."""
        collector = self.build(mode, fallback)
        collector.prepare()
        for number in range(_TICKS):
            advance(collector, self.seed, number)
        return collector

    def manifest(self, collector: ReferenceCollector) -> RunManifest:
        """Return the collector's manifest."""
        return collector.manifest(gpu_uuid=self.gpu_uuid, software=self.software, git_head=self.git_head)


def advance(collector: ReferenceCollector, seed: int, number: int) -> None:
    """Run the planned tick ``number`` and release its slot."""
    set_inputs(collector.tick, list(planned_ticks(seed))[number])
    collector.step()
    collector.take()


def plant_all(bench: Bench, progress: Callable[[str], None] = lambda text: None) -> Iterator[FaultObservation]:
    """Plant every fault, each in a state that it does not share with another. Raises nothing for a fault's sake."""
    plants: dict[Fault, Callable[[], FaultObservation]] = {
        "replay_failed_unpublished": lambda: _failed_unpublished(bench),
        "replay_failed_published": lambda: _failed_published(bench),
        "replay_failed_fallback_forbidden": lambda: _failed_forbidden(bench),
        "stale_receipt": lambda: _bad_receipt(bench, "stale_receipt"),
        "foreign_identity": lambda: _bad_receipt(bench, "foreign_identity"),
        "malformed_receipt": lambda: _bad_receipt(bench, "malformed_receipt"),
        "malformed_manifest": lambda: _malformed_manifest(bench),
        "unsupported_capability": lambda: _unsupported(bench),
        "rng_rollback": lambda: _rollback(bench),
    }
    for fault, plant in plants.items():
        progress(f"fault {fault}")
        yield plant()
    progress("invalidations")
    yield from _invalidations(bench)


def _observation(
    bench: Bench,
    fault: Fault,
    outcome: Outcome,
    reason: str,
    *,
    published: int = 0,
    replays_after: int = 0,
    fallbacks: int = 0,
    rng_restored: bool | None = None,
    draws_equal: bool | None = None,
) -> FaultObservation:
    return FaultObservation(
        arm=bench.arm,
        fault=fault,
        outcome=outcome,
        reason=" ".join(reason.split()),
        published=published,
        replays_after=replays_after,
        fallbacks=fallbacks,
        rng_restored=rng_restored,
        draws_equal=draws_equal,
    )


def _failed_unpublished(bench: Bench) -> FaultObservation:
    """The replay runs, and is reported lost before its transition was published."""
    collector, twin = bench.started(), bench.started("eager")
    replays, published = collector.lifecycle.snapshot().replays, collector.ingress.counters.published
    lost_replay(collector, bench.seed)
    rollback = rolled_back(collector)
    try:
        reason = collector.lifecycle.fail("stream_event", "the completion event was lost", rollback=rollback)
        outcome: Outcome = "fell_back"
    except FailClosedError as error:
        return _observation(bench, "replay_failed_unpublished", "failed_closed", error.message)
    during = collector.ingress.counters.published - published
    equal = next_draws_equal(collector, twin, bench.seed)
    snapshot = collector.lifecycle.snapshot()
    return _observation(
        bench,
        "replay_failed_unpublished",
        outcome,
        reason,
        published=during,
        replays_after=snapshot.replays - replays,
        fallbacks=len(snapshot.fallback_reasons),
        rng_restored=rollback.restored,
        draws_equal=equal,
    )


def _failed_published(bench: Bench) -> FaultObservation:
    collector = bench.started()
    published = collector.ingress.counters.published
    lost_replay(collector, bench.seed)
    receipt = collector.issue()
    collector.lifecycle.complete(receipt)
    collector.ingress.publish(published, receipt)
    collector.lifecycle.publish()
    during = collector.ingress.counters.published - published
    return _closed(bench, collector, "replay_failed_published", during)


def _failed_forbidden(bench: Bench) -> FaultObservation:
    collector = bench.started(fallback="forbidden")
    lost_replay(collector, bench.seed)
    return _closed(bench, collector, "replay_failed_fallback_forbidden", 0)


def _closed(bench: Bench, collector: ReferenceCollector, fault: Fault, published: int) -> FaultObservation:
    rollback = rolled_back(collector)
    outcome, reason = "unnoticed", "execution went on"
    replays = 0
    try:
        collector.lifecycle.fail("stream_event", "the completion event was lost", rollback=rollback)
    except FailClosedError as error:
        replays = collector.lifecycle.snapshot().replays
        outcome, reason = _stays_closed(collector), error.message
    snapshot = collector.lifecycle.snapshot()
    return _observation(
        bench,
        fault,
        outcome,  # type: ignore[arg-type]
        reason,
        published=published,
        replays_after=snapshot.replays - replays,
        fallbacks=len(snapshot.fallback_reasons),
        rng_restored=rollback.restored,
    )


def _stays_closed(collector: ReferenceCollector) -> Outcome:
    try:
        collector.lifecycle.begin_tick()
    except FailClosedError:
        return "failed_closed"
    return "unnoticed"


def _bad_receipt(bench: Bench, fault: Fault) -> FaultObservation:
    """The tick is completed with a receipt that is not its own."""
    collector = bench.started()
    before = collector.lifecycle.snapshot()
    lost_replay(collector, bench.seed)
    good = collector.issue()
    outcome: Outcome = "unnoticed"
    reason = "the receipt was taken"
    try:
        collector.lifecycle.complete(_spoiled(fault, good, before.last_sequence or 0))
    except (ReceiptError, MalformedError) as error:
        outcome, reason = "refused", str(error.refusals[0])
    after = collector.lifecycle.snapshot()
    published = after.publications - before.publications
    return _observation(
        bench, fault, outcome, reason, published=published, replays_after=after.replays - before.replays
    )


def _spoiled(fault: Fault, good: CompletionReceipt, last: int) -> CompletionReceipt:
    if fault == "stale_receipt":
        return replace(good, sequence=last)
    if fault == "foreign_identity":
        return replace(good, capture_id="another-collector-1")
    return CompletionReceipt(1, OPERATION, True, PRODUCER, good.capture_id, good.stream_id, good.event)


def _malformed_manifest(bench: Bench) -> FaultObservation:
    collector = bench.started()
    text = dumps(bench.manifest(collector), SCHEMA)
    refused = []
    for spoiled in (text.replace('"replays": ', '"replays": -', 1), text[: len(text) // 2], _with_bool(text)):
        try:
            loads(RunManifest, spoiled, SCHEMA)
        except Exception as error:
            refused.append(f"{type(error).__name__}: {error}".split("\n", 1)[0])
    outcome: Outcome = "refused" if len(refused) == 3 else "unnoticed"
    return _observation(bench, "malformed_manifest", outcome, "; ".join(refused) or "every spoiled manifest loaded")


def _with_bool(text: str) -> str:
    return text.replace('"contract_version": 1', '"contract_version": true', 1)


def _unsupported(bench: Bench) -> FaultObservation:
    collector = bench.build("graph", "eager")
    collector.prepare(record=False)
    candidate = declare_candidate(collector.runner, requested=True)
    lacking = replace(candidate, capabilities=replace(candidate.capabilities, masked_reset="full_refresh"))
    verdict = preflight(lacking, rehearsal=not collector.runner.captures)
    collector.lifecycle.preflighted(verdict)
    outcome: Outcome = "unnoticed"
    reason = "the candidate was taken"
    try:
        collector.lifecycle.begin_capture()
    except ContractError:
        try:
            collector.lifecycle.begin_tick()
        except FailClosedError as error:
            outcome, reason = "refused", error.message
    return _observation(bench, "unsupported_capability", outcome, reason)


def _rollback(bench: Bench) -> FaultObservation:
    """A tick is taken back, and the draws after it are those of a collector that never made it."""
    collector, twin = bench.started(), bench.started("eager")
    before = state.take(collector.tick)
    evidence = collector.rng.begin_tick()
    collector.runner.replay()
    collector.runner.synchronize()
    moved = not collector.rng.evidence().same_draws_follow(evidence)
    rollback = collector.rng.rollback(evidence)
    state.restore(collector.tick, before)
    equal = moved and next_draws_equal(collector, twin, bench.seed)
    reason = f"{len(rollback.before.state)} bytes of generator state put back"
    outcome: Outcome = "restored" if rollback.restored else "unnoticed"
    return _observation(bench, "rng_rollback", outcome, reason, rng_restored=rollback.restored, draws_equal=equal)


def _invalidations(bench: Bench) -> Iterator[FaultObservation]:
    """Each invalidation once; the same collector captures again in between, as an owner would on the cold path."""
    collector = bench.started()
    plants: dict[InvalidationReason, Callable[[], object]] = {
        "model": lambda: collector.lifecycle.invalidate("model", "the model was put on the device again"),
        "data": lambda: rebind(collector, "finite"),
        "view": lambda: rebind(collector, "actor"),
        "capacity": lambda: rebind(collector, "ingress"),
        "policy_io": lambda: rebind(collector, "action"),
        "stream_event": lambda: collector.lifecycle.invalidate("stream_event", "the completion event was lost"),
        "capture_failed": lambda: fail_capture(collector),
    }
    for reason, plant in plants.items():
        before = collector.lifecycle.snapshot()
        undo = plant()
        outcome, why = _refused_replay(collector, reason)
        after = collector.lifecycle.snapshot()
        yield _observation(
            bench,
            f"invalidated_{reason}",  # type: ignore[arg-type]
            outcome,
            why,
            published=after.publications - before.publications,
            replays_after=after.replays - before.replays,
            fallbacks=len(after.fallback_reasons) - len(before.fallback_reasons),
        )
        if callable(undo):
            undo()
        recover(collector)


def _refused_replay(collector: ReferenceCollector, reason: InvalidationReason) -> tuple[Outcome, str]:
    try:
        collector.step()
    except InvalidatedError as error:
        reasons = collector.lifecycle.snapshot().invalidation_reasons
        if reason in reasons:
            return "invalidated", str(next(item for item in error.refusals if item.subject == reason))
        return "unnoticed", f"invalidated by {', '.join(reasons)} and not by {reason}"
    return "unnoticed", "the capture was replayed"


# -- what a fault is made of ---------------------------------------------------------------------------------------


def lost_replay(collector: ReferenceCollector, seed: int) -> None:
    """Begin a tick and replay it; its completion is left open. What it wrote is there."""
    set_inputs(collector.tick, list(planned_ticks(seed))[_TICKS])
    collector.kept = state.take(collector.tick)
    collector.lifecycle.begin_tick()
    collector.before = collector.rng.begin_tick()
    collector.runner.replay()
    collector.runner.synchronize()


def rolled_back(collector: ReferenceCollector):  # type: ignore[no-untyped-def]
    """Put generators and carriers back to where the open tick began, and return the proof for the generators."""
    assert collector.before is not None
    assert collector.kept is not None
    rollback = collector.rng.rollback(collector.before)
    state.restore(collector.tick, collector.kept)
    return rollback


def next_draws_equal(collector: ReferenceCollector, twin: ReferenceCollector, seed: int) -> bool:
    """Run the same tick in both and compare everything that was drawn, bit for bit."""
    for item in (collector, twin):
        advance(item, seed, _TICKS)
        item.runner.synchronize()
    mine, theirs = collector.tick.carriers, twin.tick.carriers
    same = (
        torch.equal(state.random_state(collector.tick), state.random_state(twin.tick)),
        torch.equal(mine.noise, theirs.noise),
        torch.equal(mine.reset_values, theirs.reset_values),
        torch.equal(mine.phase, theirs.phase),
    )
    return all(same)


def rebind(collector: ReferenceCollector, name: str) -> Callable[[], None]:
    """Bind a carrier's name to a copy of it, as careless set-up code does; the result undoes it."""
    carriers = collector.tick.carriers
    original = getattr(carriers, name)
    setattr(carriers, name, original.clone())
    return lambda: setattr(carriers, name, original)


def fail_capture(collector: ReferenceCollector) -> None:
    """Capture again and have the recording fail."""
    collector.lifecycle.invalidate("model", "captured again")
    candidate = declare_candidate(collector.runner, requested=True)
    collector.lifecycle.preflighted(preflight(candidate, rehearsal=not collector.runner.captures))
    try:
        with collector.lifecycle.capturing(f"{PRODUCER}-failed"):
            raise RuntimeError("the recording was refused")
    except RuntimeError:
        return


def recover(collector: ReferenceCollector) -> None:
    """Capture again on the cold path. Raises what the capture raises."""
    collector.capture()
