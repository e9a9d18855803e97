"""``capture_check``: the probe as a function, for a test suite of the user's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from capaudit.evidence import Event, Record, SelfProof
from capaudit.model import CapauditError, CaptureKind
from capaudit.probe.capture import CaptureOutcome, report_capture
from capaudit.probe.capture_kinds import DEFAULT_MODE, open_streams
from capaudit.probe.carriers import as_tensor, find_carriers
from capaudit.probe.environment import require_cuda
from capaudit.probe.escape import report_escapes, watch_capture
from capaudit.probe.locator_roots import SourceRoots
from capaudit.probe.replay import restorer, seed_everything
from capaudit.probe.replay_differential import Divergence, Side, addresses, compare, poison, record_trajectory
from capaudit.probe.selfproof import is_proven, prove_detectors
from capaudit.probe.targets.base import Target
from capaudit.probe.trace_log import EventLog

CheckVerdict = Literal["clean", "fails", "escapes", "wrong_on_replay", "inconclusive"]


class CaptureCheckError(CapauditError, AssertionError):
    """The callable cannot be captured, or its replays are wrong; ``place`` is the line."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found. ``place`` is ``file:line`` relative to its root, ``None`` where nothing is wrong.

    ``nodes`` counts the graph's nodes by type, ``events`` are what the detectors saw, ``diverging`` the
    outputs that replays give wrongly.
    """

    verdict: CheckVerdict
    message: str
    place: str | None
    nodes: dict[str, int]
    events: tuple[Event, ...]
    records: tuple[Record, ...]
    diverging: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether the capture is sound and its replays agree with eager steps."""
        return self.verdict == "clean"

    def require(self) -> CheckResult:
        """Return the result. Raises CaptureCheckError with the located line unless it is clean."""
        if not self.clean:
            raise CaptureCheckError(f"{self.verdict}: {self.message}", place=self.place)
        return self


def capture_check(
    step: Callable[[], Any],
    carriers: Any = None,
    *,
    capture: CaptureKind = "torch",
    roots: Iterable[str | Path] = (),
    warmup: int = 3,
    replays: int = 3,
    mutate: bool = True,
    tolerance: float = 1e-5,
    device: str = "cuda",
    before_step: Callable[[int], None] | None = None,
) -> CheckResult:
    """Capture ``step`` under the locator, then compare replays with eager steps from the same state.

    ``carriers`` is an object, list or dict that is walked for device tensors and Warp arrays; by default what
    ``step`` itself holds. They are put back to their values before the check. ``roots`` are the folders of
    the source to which lines are attributed; by default the folder of the caller. The step must be free of
    effects outside its carriers. A capture that fails can leave CUDA's state in this process unusable:
    run such checks in processes of their own.

    Raises NoDeviceError without a CUDA device, and whatever the step raises in eager.
    """
    require_cuda(device)
    folders = [Path(root) for root in roots] or [Path(sys._getframe(1).f_code.co_filename).resolve().parent]
    source = SourceRoots([(folder, folder.name) for folder in folders])
    owner = step if carriers is None else carriers
    uses_warp = "warp" in sys.modules
    target = Target(
        name=getattr(step, "__qualname__", type(step).__qualname__),
        step=step,
        owner=owner,
        roots=(),
        uses_warp=uses_warp,
        warmup=warmup,
        before_step=before_step,
        mutate=mutate,
        tolerance=tolerance,
    )
    proofs = _proofs(device)
    if not is_proven(proofs):
        missed = "; ".join(f"{proof.detector} ({proof.detail or 'not seen'})" for proof in proofs if not proof.seen)
        return CheckResult("inconclusive", f"detectors missed their planted faults: {missed}", None, {}, (), ())
    return _check(target, capture, source, replays, device)


def _check(target: Target, kind: CaptureKind, roots: SourceRoots, replays: int, device: str) -> CheckResult:
    import torch

    log = EventLog(roots)
    streams = open_streams(device, with_warp=target.uses_warp or kind != "torch")
    options: dict[str, Any] = {"mutate": target.mutate, "synchronize": torch.cuda.synchronize}
    eager_stream_step = target.step
    for _ in range(target.warmup):
        target.step()
    restore = restorer(_save(target.owner))
    seed_everything(0)
    eager = record_trajectory(Side(target.owner, eager_stream_step, target.before_step), replays, "cuda", **options)
    restore()
    before = addresses(target.owner, "cuda")
    watched = watch_capture(target, streams, kind, DEFAULT_MODE[kind], roots)
    outcome = watched.outcome
    captured = report_capture(outcome, log)
    escaped = report_escapes(watched, roots, log, streams)
    if not outcome.succeeded or outcome.captured is None or outcome.captured.replay is None:
        return _result("fails", outcome, log, (captured, escaped), outcome.first_error, _place_of(captured))
    restore()
    kept = {int(tensor.untyped_storage().data_ptr()) for tensor, _ in _save(target.owner)}
    poisoned = poison(outcome.output, kept, "cuda")
    seed_everything(0)
    side = Side(target.owner, outcome.captured.replay, target.before_step, outcome.output)
    graph = record_trajectory(side, replays, "cuda", **options)
    after = addresses(target.owner, "cuda")
    rebound = frozenset(name for name, address in after.items() if before.get(name, address) != address)
    found = compare(graph, eager, None, target.tolerance, rebound, poisoned)
    restore()
    records = (captured, escaped)
    if escaped.outcome == "faults":
        event = next(event for event in log.events() if event.kind == "escape")
        place = f"{event.root}/{event.file}:{event.line}"
        return _result("escapes", outcome, log, records, event.detail, place, found)
    if found:
        first = found[0]
        message = f"{first.name} is {first.kind} from replay {first.step + 1} on: {first.detail}"
        return _result("wrong_on_replay", outcome, log, records, message, None, found)
    if outcome.unbalanced:
        return _result("wrong_on_replay", outcome, log, records, captured.note, None)
    return _result("clean", outcome, log, records, captured.note, None)


def _result(
    verdict: CheckVerdict,
    outcome: CaptureOutcome,
    log: EventLog,
    records: tuple[Record, ...],
    message: str,
    place: str | None,
    found: tuple[Divergence, ...] = (),
) -> CheckResult:
    names = tuple(item.name for item in found)
    return CheckResult(verdict, message, place, dict(outcome.nodes), log.events(), records, names)


def _place_of(record: Record) -> str | None:
    place = record.values.get("place")
    return str(place) if place is not None else None


def _save(owner: Any) -> list[tuple[Any, Any]]:
    tensors = (as_tensor(carrier.value) for carrier in find_carriers(owner, "cuda"))
    return [(tensor, tensor.clone()) for tensor in tensors if tensor is not None]


@lru_cache(maxsize=8)
def _proofs(device: str) -> tuple[SelfProof, ...]:
    return prove_detectors(device)
