"""The capture mode: does one step capture, and if not, which line broke it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from capaudit.evidence import JsonScalar, Record
from capaudit.model import CaptureKind
from capaudit.probe.capture_kinds import Captured, Streams, on_stream, open_capture
from capaudit.probe.coverage import LinesByFile
from capaudit.probe.locator import LineLocator, Located, locate_exception
from capaudit.probe.locator_cuda import CudaCaptureSource
from capaudit.probe.locator_roots import SourceRoots
from capaudit.probe.sync_hooks import SynchronizationHooks
from capaudit.probe.targets.base import Target
from capaudit.probe.trace_log import EventLog

# What the first error's text says of the hazard; the order matters, the general words come last.
_HAZARDS = (
    ("conditional body", "CAP303"),
    ("graph capture already in progress", "CAP401"),
    ("prepare for replay during capturing", "CAP401"),
    ("nested", "CAP401"),
    ("graph launch", "CAP401"),
    ("unjoined", "CAP403"),
    ("isolation", "CAP402"),
    ("dependency created on uncaptured work", "CAP402"),
    ("legacy stream", "CAP402"),
    ("unregistered", "CAP502"),
    ("generator", "CAP502"),
    ("memory pool", "CAP302"),
    ("pageable", "CAP103"),
    ("copy between cpu and cuda", "CAP103"),
    ("synchronize", "CAP104"),
    ("cublas", "CAP503"),
    ("cufft", "CAP503"),
    ("failed to allocate", "CAP302"),
)
# The library function in which the capture broke says more than the text, which often is CUDA's general one.
_CAUSES = (("deallocate", "CAP302"), ("set_stream", "CAP402"), ("array.numpy", "CAP102"), ("array.list", "CAP102"))
# Allocations are legal in a capture that Warp knows, so they are no hint at why one failed.
_NO_HINTS = frozenset({"warp-allocation", "warp-free"})


@dataclass(slots=True)
class CaptureOutcome:
    """What one attempt to capture gave. ``output`` is what the captured step returned."""

    mode: str
    captured: Captured | None = None
    output: Any = None
    error: BaseException | None = None
    first_error: str = ""
    located: Located | None = None
    nodes: Counter[str] = field(default_factory=Counter)
    locator: LineLocator | None = None
    seconds: float = 0.0
    step_seconds: float = 0.0

    @property
    def succeeded(self) -> bool:
        """Whether the capture ended well."""
        return self.error is None

    def harmless_lines(self) -> LinesByFile:
        """Return the lines of the target that ran while the capture went on."""
        return self.locator.harmless_lines(self.located) if self.locator is not None else {}

    @property
    def unbalanced(self) -> int:
        """Allocation nodes without a free node; torch's own pool records neither."""
        return self.nodes["alloc"] - self.nodes["free"]


@contextmanager
def eager_stream(target: Target, streams: Streams, kind: CaptureKind) -> Iterator[None]:
    """Put eager steps on the stream that will capture, unless the target's Warp work would race with it."""
    if target.eager_on_default and kind == "torch" and not target.share_warp_stream:
        yield
    else:
        with on_stream(streams, share_warp=target.share_warp_stream or kind != "torch"):
            yield


def warm_up(target: Target, streams: Streams, kind: CaptureKind, hints: EventLog | None = None) -> None:
    """Run the target's warm-up steps; the last one under the trace's hooks if ``hints`` wants its events."""
    import torch

    with eager_stream(target, streams, kind):
        for index in range(target.warmup):
            last = index == target.warmup - 1
            with SynchronizationHooks(hints).active() if hints is not None and last else nullcontext():
                target.step()
    torch.cuda.synchronize(streams.torch_stream.device)


def attempt_capture(
    target: Target, streams: Streams, kind: CaptureKind, mode: str, roots: SourceRoots
) -> CaptureOutcome:
    """Capture one step under the locator. A failure is the outcome and not an exception."""
    outcome = CaptureOutcome(mode)
    begin = time.perf_counter()
    locator = outcome.locator = LineLocator(CudaCaptureSource(streams.handle), roots)
    try:
        opened = open_capture(kind, streams, mode, share_warp=target.share_warp_stream, generators=target.generators)
        with opened as captured, locator:
            begin_step = time.perf_counter()
            outcome.output = target.step()
            outcome.step_seconds = time.perf_counter() - begin_step
        outcome.captured = captured
    except Exception as error:
        outcome.error = error
        first, raised = locate_exception(error, roots)
        outcome.first_error = f"{type(first).__name__}: {first}".split("\n", 1)[0]
        # The status turned before the exception was raised, if it turned at all.
        outcome.located = locator.fault or _allocation_in_body(first, locator, roots) or raised
    outcome.nodes = locator.nodes()
    outcome.seconds = time.perf_counter() - begin
    return outcome


def report_capture(outcome: CaptureOutcome, log: EventLog, hints: EventLog | None = None) -> Record:
    """Put the outcome's events into the log and return its record.

    ``hints`` hold what an eager step did: its events at the located line name the hazard.
    """
    locator = outcome.locator
    assert locator is not None
    for stack, counts in locator.recorded.items():
        log.add("recorded", None, stack=stack, nodes=counts)
    note, hazard = "", None
    if not outcome.succeeded:
        stack = outcome.located.stack if outcome.located is not None else ()
        hazard = _hinted(outcome.located, hints) or hazard_of(outcome.first_error, outcome.located)
        log.add("capture-fault", hazard, outcome.first_error, stack=stack)
    elif outcome.unbalanced:
        note = (
            f"{outcome.nodes['alloc']} allocation and {outcome.nodes['free']} free nodes: every replay allocates anew"
        )
        for stack, counts in locator.recorded.items():
            if counts["alloc"] > counts["free"]:
                log.add("unbalanced-allocation", "CAP302", note, stack=stack, nodes=counts)
    elif not outcome.nodes:
        note = "the graph is empty: the step's work was captured by nobody"
    values: dict[str, JsonScalar] = {
        "polls": locator.events,
        "poll_seconds": round(locator.seconds, 4),
        "step_seconds": round(outcome.step_seconds, 4),
        "capture_seconds": round(outcome.seconds, 4),
        "nodes": sum(outcome.nodes.values()),
        "lines": len(locator.by_place()),
        **{f"nodes_{name}": number for name, number in sorted(outcome.nodes.items())},
    }
    place = outcome.located.place if outcome.located is not None else None
    if place is not None:
        where = log.roots.locate(place[0])
        values["place"] = f"{where.root}/{where.file}:{place[1]}"
    verdict = "fails" if not outcome.succeeded else "unbalanced" if outcome.unbalanced else "ok"
    if verdict == "ok" and not outcome.nodes:
        verdict = "empty"
    return Record(
        id=f"capture-{outcome.mode}",
        subject="capture",
        outcome=verdict,
        hazard=hazard,
        error=outcome.first_error,
        note=note,
        values=values,
    )


def hazard_of(message: str, located: Located | None = None) -> str:
    """Return the hazard code that the cause or the error message of a failed capture speaks of."""
    if located is not None and located.stack:
        for function, code in _CAUSES:
            if located.stack[0][2].endswith(function):
                return code
    lowered = message.lower()
    # CUDA's general message is also what work on another stream gets.
    general = "CAP402" if located is not None and located.elsewhere else "CAP105"
    return next((code for text, code in _HAZARDS if text in lowered), general)


def _allocation_in_body(error: BaseException, locator: LineLocator, roots: SourceRoots) -> Located | None:
    """Return where the body of a conditional node allocated: the error comes when the body is closed."""
    if "conditional body" not in str(error).lower():
        return None
    stack = next((stack for stack, counts in reversed(locator.recorded.items()) if counts["alloc"]), None)
    return None if stack is None else Located(stack, roots.innermost_user(stack))


def _hinted(located: Located | None, hints: EventLog | None) -> str | None:
    if located is None or located.place is None or hints is None:
        return None
    where, line = hints.roots.locate(located.place[0]), located.place[1]
    codes = [
        event.hazard
        for event in hints.events(stacks=False)
        if (event.root, event.file, event.line) == (where.root, where.file, line) and event.kind not in _NO_HINTS
    ]
    named = [code for code in codes if code is not None]
    # What the debug mode alone reports is the least that can be said.
    return next((code for code in named if code != "CAP105"), named[0] if named else None)
