"""What the order of stream events says: work nobody captures, streams never joined, foreign waits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from capaudit.audit.contexts import OperationRecord, StreamEvent
from capaudit.model import Confidence, OwnershipClass


def judge_streams(events: list[StreamEvent], own: Collection[Any] = ()) -> list[OperationRecord]:
    """Replay fork, join, work and event records of one tick in program order; ``own`` are the capture's streams."""
    captured: dict[Any, StreamEvent | None] = {"capture": None}
    unjoined: dict[Any, StreamEvent] = {}
    recorded: dict[Any, Any] = {}
    found: list[OperationRecord] = []
    escaped: set[Any] = set()
    for event in events:
        stream, other = ("capture" if key in own else key for key in (event.stream, event.other))
        if event.kind == "work":
            if stream not in captured and stream is not None and stream not in escaped:
                escaped.add(stream)
                found.append(_escape(event))
            continue
        if event.kind == "record":
            recorded[other] = stream if stream in captured else None
            continue
        if event.kind == "wait":
            source = other
            known = source in captured
        else:
            if other is None:
                continue
            source = recorded.get(other)
            known = source is not None
            if other not in recorded:
                source = other
        if source is None:
            continue
        if stream in captured:
            if known:
                unjoined.pop(source, None)
            else:
                found.append(_foreign_wait(event))
        elif known:
            captured[stream] = event
            unjoined[stream] = event
    found.extend(_unjoined(event) for event in unjoined.values())
    return found


def _record(event: StreamEvent, hazard: str, message: str, remedy: str) -> OperationRecord:
    return OperationRecord(
        event.module,
        event.node,
        "torch.cuda.stream",
        OwnershipClass.REJECTED,
        hazard,
        Confidence.CERTAIN,
        message,
        remedy,
        (),
    )


def _escape(event: StreamEvent) -> OperationRecord:
    where = "the default stream" if event.stream == "default" else "a side stream that never waited for the capture"
    return _record(
        event,
        "CAP402",
        f"this work goes to {where}: the capture does not record it, and a replay does nothing for it",
        "Keep the work on the capturing stream, or fork first (side.wait_stream(current)) and join afterwards.",
    )


def _foreign_wait(event: StreamEvent) -> OperationRecord:
    return _record(
        event,
        "CAP402",
        "the captured stream waits for work that is not part of the capture, which the driver refuses",
        "Wait before the capture begins, or fork the other stream from the capture first.",
    )


def _unjoined(event: StreamEvent) -> OperationRecord:
    return _record(
        event,
        "CAP403",
        "a stream is forked from the capture here and never joined, so the capture cannot end",
        "Let the capturing stream wait for it before the boundary ends: current.wait_stream(side).",
    )
