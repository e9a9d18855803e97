"""The capture mode: does one step capture, and if not, which line broke it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from capaudit.evidence import JsonScalar, Record
from capaudit.model import CaptureKind
from capaudit.probe.capture_kinds import Captured, Streams, on_stream, open_capture
from capaudit.probe.locator import LineLocator, Located, locate_exception
from capaudit.probe.locator_cuda import CudaCaptureSource
from capaudit.probe.locator_roots import SourceRoots
from capaudit.probe.targets.base import Target
from capaudit.probe.trace_log import EventLog

_LATE_ERRORS = ("previous error during capture", "capture was invalidated", "StreamCaptureInvalidated")

# The first error's text gives the hazard; the order matters, the general texts come last.
_HAZARDS = (
    ("graph capture already in progress", "CAP401"),
    ("nested", "CAP401"),
    ("graph launch", "CAP401"),
    ("unjoined", "CAP403"),
    ("isolation", "CAP402"),
    ("dependency created on uncaptured work", "CAP402"),
    ("legacy stream", "CAP402"),
    ("unregistered", "CAP502"),
    ("generator", "CAP502"),
    ("memory pool", "CAP302"),
    ("allocat", "CAP301"),
    ("pageable", "CAP103"),
    ("copy between cpu and cuda", "CAP103"),
    ("cannot copy", "CAP103"),
    ("cublas", "CAP503"),
    ("cufft", "CAP503"),
)


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

    @property
    def succeeded(self) -> bool:
        """Whether the capture ended well."""
        return self.error is None

    @property
    def unbalanced(self) -> int:
        """Allocation nodes without a free node; torch's own pool records neither."""
        return self.nodes["alloc"] - self.nodes["free"]


def warm_up(target: Target, streams: Streams, kind: CaptureKind) -> None:
    """Run the target's warm-up steps on the stream that will capture."""
    import torch

    with on_stream(streams, share_warp=target.share_warp_stream or kind != "torch"):
        for _ in range(target.warmup):
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
        with open_capture(kind, streams, mode, share_warp=target.share_warp_stream) as captured, locator:
            outcome.output = target.step()
        outcome.captured = captured
    except Exception as error:
        outcome.error = error
        first, raised = locate_exception(error, roots)
        outcome.first_error = f"{type(first).__name__}: {first}".split("\n", 1)[0]
        late = any(text in str(first) for text in _LATE_ERRORS)
        # An error that only reports an earlier one stands at the wrong line; the status does not.
        outcome.located = locator.fault if late or raised.place is None else raised
        if outcome.located is None:
            outcome.located = raised
    outcome.nodes = locator.nodes()
    outcome.seconds = time.perf_counter() - begin
    return outcome


def report_capture(outcome: CaptureOutcome, log: EventLog) -> Record:
    """Put the outcome's events into the log and return its record."""
    locator = outcome.locator
    assert locator is not None
    for stack, counts in locator.recorded.items():
        log.add("recorded", None, stack=stack, nodes=counts)
    note = ""
    if not outcome.succeeded:
        stack = outcome.located.stack if outcome.located is not None else ()
        log.add("capture-fault", hazard_of(outcome.first_error), outcome.first_error, stack=stack)
        if locator.fault is not None and locator.fault.place != (outcome.located and outcome.located.place):
            log.add(
                "capture-invalidated", None, "first line after which the capture was invalid", stack=locator.fault.stack
            )
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
    return Record(
        id=f"capture-{outcome.mode}",
        subject="capture",
        outcome=verdict,
        hazard=hazard_of(outcome.first_error) if not outcome.succeeded else None,
        error=outcome.first_error,
        note=note,
        values=values,
    )


def hazard_of(message: str) -> str:
    """Return the hazard code that an error message of a failed capture speaks of."""
    lowered = message.lower()
    return next((code for text, code in _HAZARDS if text in lowered), "CAP105")
