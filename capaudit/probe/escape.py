"""The escape mode: work that an eager step launches and the graph does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from capaudit.evidence import Record
from capaudit.model import CaptureKind
from capaudit.probe.capture import CaptureOutcome, attempt_capture, eager_stream, warm_up
from capaudit.probe.capture_kinds import Streams
from capaudit.probe.escape_launches import Launch, LaunchHooks
from capaudit.probe.locator_cuda import capture_identity
from capaudit.probe.locator_roots import RawFrame, SourceRoots
from capaudit.probe.targets.base import Target
from capaudit.probe.trace_log import EventLog

Line = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Escape:
    """A line that launched and recorded nothing. ``stream`` is the handle that the work went to, if seen.

    ``kind`` is ``eager-only`` for a line that the captured step did not run at all, as a guard may intend.
    """

    stack: tuple[RawFrame, ...]
    launches: int
    stream: int | None
    detail: str
    hazard: str
    kind: str = "escape"


@dataclass(slots=True)
class WatchedCapture:
    """A capture that was made under the launch hooks, with the eager step before it."""

    outcome: CaptureOutcome
    eager: list[Launch] = field(default_factory=list)
    captured: list[Launch] = field(default_factory=list)
    foreign: set[int] = field(default_factory=set)
    """Streams that were launched on and were no part of the capture."""
    side: set[int] = field(default_factory=set)
    """Streams, other than the capture's own, that had joined the capture."""


def watch_capture(target: Target, streams: Streams, kind: CaptureKind, mode: str, roots: SourceRoots) -> WatchedCapture:
    """Run one eager step and one captured step under the launch hooks."""
    eager_hooks = LaunchHooks()
    warm_up(target, streams, kind)
    # With no warm-up wanted the first call has to be the captured one: a lazy step would be warm afterwards.
    if target.warmup:
        with eager_stream(target, streams, kind), eager_hooks.active():
            target.step()
    hooks = _MembershipHooks(streams.handle)
    plain_step = target.step

    def watched() -> object:
        with hooks.active():
            return plain_step()

    target.step = watched
    try:
        outcome = attempt_capture(target, streams, kind, mode, roots)
    finally:
        target.step = plain_step
    return WatchedCapture(outcome, eager_hooks.launches, hooks.launches, hooks.foreign, hooks.side)


def find_escapes(
    eager: Iterable[Launch],
    captured: Iterable[Launch],
    nodes: Mapping[Line, Counter[str]],
    foreign: set[int],
    line_of: Callable[[tuple[RawFrame, ...]], Line],
) -> tuple[Escape, ...]:
    """Compare per line what was launched with what was recorded.

    A launch on a foreign stream is an escape whatever else its line recorded. A line that launched in eager
    and neither launched nor recorded in the capture was skipped there; one that launched on the capturing
    stream and recorded nothing had nothing to do, which is no fault.
    """
    escapes: dict[Line, Escape] = {}
    seen: set[Line] = set()
    for launch in captured:
        line = line_of(launch.stack)
        seen.add(line)
        recorded_nothing = not nodes.get(line)
        if launch.stream in foreign or (launch.graph and recorded_nothing):
            earlier = escapes.get(line)
            count = earlier.launches + 1 if earlier is not None else 1
            hazard = "CAP401" if launch.graph else "CAP402"
            escapes[line] = Escape(launch.stack, count, launch.stream, launch.name, hazard)
    for launch in eager:
        line = line_of(launch.stack)
        if line not in seen and not nodes.get(line):
            earlier = escapes.get(line)
            count = earlier.launches + 1 if earlier is not None else 1
            detail = f"{launch.name} ran in the eager step and not in the captured one"
            escapes[line] = Escape(launch.stack, count, None, detail, "CAP501", "eager-only")
    return tuple(escapes.values())


def report_escapes(watched: WatchedCapture, roots: SourceRoots, log: EventLog, streams: Streams) -> Record:
    """Put the escapes into the log and return the summary."""

    def line_of(stack: tuple[RawFrame, ...]) -> Line:
        frame = roots.innermost_user(stack) or (stack[0] if stack else ("<unknown>", 0, ""))
        return frame[0], frame[1]

    outcome = watched.outcome
    assert outcome.locator is not None
    nodes = outcome.locator.by_place()
    names = _name_streams(watched, streams)
    escapes = (
        find_escapes(watched.eager, watched.captured, nodes, watched.foreign, line_of) if outcome.succeeded else ()
    )
    for escape in escapes:
        stream = f", on {names.get(escape.stream, 'another stream')}" if escape.stream is not None else ""
        log.add(escape.kind, escape.hazard, f"{escape.detail}{stream}", stack=escape.stack, count=escape.launches)
    if not outcome.succeeded and "unjoined" in outcome.first_error:
        for launch in watched.captured:
            if launch.stream in watched.side:
                log.add("unjoined-stream", "CAP403", f"{launch.name} on {names[launch.stream]}", stack=launch.stack)
    escapes = tuple(escape for escape in escapes if escape.kind == "escape")
    return Record(
        id="escape",
        subject="escape",
        outcome="not captured" if not outcome.succeeded else "faults" if escapes else "clean",
        error=outcome.first_error,
        note="the graph holds no nodes" if outcome.succeeded and not outcome.nodes else "",
        values={
            "eager_launches": len(watched.eager),
            "captured_launches": len(watched.captured),
            "nodes": sum(outcome.nodes.values()),
            "escaped_launches": sum(escape.launches for escape in escapes),
            "escaped_lines": len(escapes),
        },
    )


class _MembershipHooks(LaunchHooks):
    """Launch hooks that also ask, at each launch, whether its stream belongs to the capture."""

    def __init__(self, handle: int) -> None:
        super().__init__()
        self.foreign: set[int] = set()
        self.side: set[int] = set()
        self._handle = handle

    def note(self, launch: Launch) -> None:
        super().note(launch)
        if launch.stream == self._handle:
            return
        own = capture_identity(self._handle)
        if own is not None and capture_identity(launch.stream) == own:
            self.side.add(launch.stream)
        else:
            self.foreign.add(launch.stream)


def _name_streams(watched: WatchedCapture, streams: Streams) -> dict[int | None, str]:
    names: dict[int | None, str] = {streams.handle: "the capturing stream", 0: "the default stream"}
    others = sorted((watched.foreign | watched.side) - {0, streams.handle})
    for number, handle in enumerate(others, start=1):
        role = "joined to the capture" if handle in watched.side else "no part of the capture"
        names[handle] = f"side stream {number} ({role})"
    return names
