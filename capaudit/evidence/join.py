"""Findings beside what a device showed: confirmed, refuted, not exercised, and events that nobody predicted.

An event finds its finding by function, statement text and hazard, so moved lines change nothing. What it
says of a function that reads differently now is stale: such evidence still confirms a statement that is
there unchanged, but its silence refutes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from capaudit.evidence.document import Event, Evidence, StackFrame
from capaudit.evidence.matching import AuditedSource, Spot
from capaudit.evidence.source import SourceOutline, Statement
from capaudit.evidence.visibility import (
    always_evaluated,
    blind_spot,
    is_fault,
    is_release,
    is_usable,
    on_device,
    other_version,
    speaks_of,
)
from capaudit.model import CaptureKind, Confidence, EvidenceVerdict, Finding, Hop, Observation, Place

NamedEvidence = tuple[str, Evidence]


@dataclass(frozen=True, slots=True)
class Start:
    """Where a boundary begins: its function, or the lines of a discovered capture inside it."""

    boundary: str
    capture: CaptureKind
    file: str
    function: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Audited:
    """What the join needs of the audit.

    ``files`` are named as findings name them, relative to ``folder``; ``outline`` gives their source.
    ``owned`` holds (file, function) of what a declaration leaves to the completion side or the cold path,
    ``versions`` the library versions that the audit was told to judge by.
    """

    files: tuple[str, ...]
    folder: Path
    outline: Callable[[str], SourceOutline | None]
    starts: tuple[Start, ...]
    owned: frozenset[tuple[str, str]] = frozenset()
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Missed:
    """An event that no finding predicted. ``path`` runs from the boundary's entry to the statement."""

    boundary: str
    place: Place
    function: str
    text: str
    hazard: str
    observation: Observation
    path: tuple[tuple[str, str, int], ...]


@dataclass(slots=True)
class Joined:
    """The findings with their verdicts, and what was missed.

    ``stale`` counts events whose code is gone or changed and findings judged by such code; ``unexercised``
    are boundaries whose entry ran on no device in the form that it has today; ``foreign`` are documents that
    speak of no audited file.
    """

    findings: list[Finding]
    missed: list[Missed] = field(default_factory=list)
    stale: int = 0
    unexercised: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def join(findings: Sequence[Finding], documents: Sequence[NamedEvidence], audited: Audited) -> Joined:
    """Lay documents of ``probe run`` beside findings; with none of them every finding stays not probed."""
    runs = [(name, document) for name, document in documents if document.kind == "run"]
    if not runs:
        return Joined(list(findings), unexercised=tuple(start.boundary for start in audited.starts))
    return _Join(findings, runs, audited).joined()


class _Join:
    def __init__(self, findings: Sequence[Finding], runs: Sequence[NamedEvidence], audited: Audited) -> None:
        self.findings = findings
        self.runs = [
            (name, document, AuditedSource(document, audited.files, audited.folder, audited.outline))
            for name, document in runs
        ]
        self.audited = audited
        self.captures = {start.boundary: start.capture for start in audited.starts}
        self.by_function: dict[tuple[str, str], list[int]] = {}
        self.statements: list[Statement | None] = []
        for index, finding in enumerate(findings):
            outline = audited.outline(finding.place.file) if finding.hazard is not None else None
            function = outline.function_at(finding.place.line) if outline is not None else None
            self.statements.append(outline.statement_at(finding.place.line) if outline is not None else None)
            if function is not None:
                self.by_function.setdefault((finding.place.file, function.name), []).append(index)
        self.confirmed: dict[int, Observation] = {}
        self.missed: dict[tuple[str, str, int, str], Missed] = {}
        self.stale = 0

    def joined(self) -> Joined:
        for name, document, source in self.runs:
            for event in document.events:
                if event.hazard is not None:
                    self._event(name, document, source, event)
        found = [self._judged(index, finding) for index, finding in enumerate(self.findings)]
        missed = sorted(self.missed.values(), key=lambda item: (item.boundary, item.place, item.hazard))
        old = sum(finding.observation is not None and finding.observation.stale for finding in found)
        foreign = tuple(name for name, _, source in self.runs if source.is_foreign)
        return Joined(found, missed, self.stale + old, tuple(self._unexercised()), foreign)

    def _unexercised(self) -> Iterator[str]:
        for start in self.audited.starts:
            if not any(
                on_device(document) and is_usable(document) and source.is_fresh(start.file, start.function)
                for _, document, source in self.runs
            ):
                yield start.boundary

    # -- events -----------------------------------------------------------------------------------------------

    def _event(self, name: str, document: Evidence, source: AuditedSource, event: Event) -> None:
        own = StackFrame(event.file, event.line, event.function, event.root, event.text)
        frames = _from_place(own, event.stack)
        spots = [source.spot(frame) for frame in frames]
        # A frame without its statement's text may have moved; then its function and the hazard have to do.
        loose = [source.loose_spot(frame) for frame in frames]
        for depth, spot in [*enumerate(spots), *enumerate(loose)]:
            if spot is None or not spot.statements:
                continue
            matches = self._matches(document, event, spot, frames[depth - 1] if depth else None)
            if matches:
                for index in matches:
                    self._confirm(index, name, document, event, spot.stale)
                return
        if is_release(event):
            below = self._released_below(document, event, spots)
            if len(below) == 1:  # of several nobody can say which array it was
                self._confirm(below[0], name, document, event, any(spot is not None and spot.stale for spot in spots))
            if below:
                return
        # Code that was not audited counts for the audited statement that called it.
        innermost = next((spot for spot in spots if spot is not None), None)
        if innermost is None:
            return
        if not innermost.statements or (innermost.stale and not innermost.exact):
            self.stale += 1
            return
        if on_device(document) and not any(self._is_owned(spot) for spot in spots):
            self._miss(name, document, event, spots, innermost)

    def _is_fault(self, document: Evidence, event: Event, index: int) -> bool:
        finding = self.findings[index]
        return is_fault(event, document, finding.code, self.captures.get(finding.boundary, "torch"))

    def _released_below(self, document: Evidence, event: Event, spots: Sequence[Spot | None]) -> list[int]:
        """Findings below the call where memory was given back: its arrays died as the function returned."""
        places = [spot for spot in spots if spot is not None and spot.statements][:2]
        return [
            index
            for index, finding in enumerate(self.findings)
            if speaks_of(event, finding.code)
            and self._is_fault(document, event, index)
            and places
            and _is_below(finding, places)
        ]

    def _matches(self, document: Evidence, event: Event, spot: Spot, callee: StackFrame | None) -> list[int]:
        """Findings at a frame's statement that the event speaks of, the best fit alone."""
        best: dict[int, list[int]] = {}
        for index in self.by_function.get((spot.file, spot.function), ()):
            fit = speaks_of(event, self.findings[index].code)
            if not fit or not self._is_at(index, spot) or not self._is_fault(document, event, index):
                continue
            if callee is None or _calls(self.findings[index], callee):
                best.setdefault(fit, []).append(index)
        found = best[max(best)] if best else []
        # Of several on one statement those on the event's own line, where lines can be told apart.
        near = [index for index in found if spot.line is not None and self._spans(index, spot.line)]
        return near or found

    def _is_at(self, index: int, spot: Spot) -> bool:
        statement = self.statements[index]
        if statement is None:
            return False
        if spot.exact:
            return statement in spot.statements
        # Without the statement's text the function alone places the event: one candidate, or none.
        rivals = [
            other
            for other in self.by_function.get((spot.file, spot.function), ())
            if self.findings[other].code == self.findings[index].code
        ]
        return len(rivals) == 1

    def _spans(self, index: int, line: int) -> bool:
        place = self.findings[index].place
        return place.line <= line <= place.end_line

    def _confirm(self, index: int, name: str, document: Evidence, event: Event, stale: bool) -> None:
        detail = event.detail or event.kind
        if not on_device(document):
            detail += " (on the CPU, standing in for a device)"
        seen = Observation(name, document.mode, event.count, detail, stale)
        old = self.confirmed.get(index)
        if old is None or (old.stale and not stale):
            self.confirmed[index] = seen

    def _is_owned(self, spot: Spot | None) -> bool:
        return spot is not None and (spot.file, spot.function) in self.audited.owned

    def _miss(self, name: str, document: Evidence, event: Event, spots: Sequence[Spot | None], innermost: Spot) -> None:
        start = self._start_of(spots, truncated=len(event.stack) >= _LONGEST_STACK)
        statement = innermost.statements[0]
        if start is None or event.hazard is None or not is_fault(event, document, event.hazard, start.capture):
            return
        key = (start.boundary, innermost.file, statement.first, event.hazard)
        if key in self.missed:
            return
        outline = self.audited.outline(innermost.file)
        line = outline.lines[statement.first - 1] if outline is not None else ""
        place = Place(
            innermost.file, statement.first, len(line) - len(line.lstrip()) + 1, statement.last, len(line) + 1
        )
        path = [
            (spot.function, spot.file, spot.statements[0].first)
            for spot in reversed(spots)
            if spot is not None and spot.statements
        ]
        seen = Observation(name, document.mode, event.count, event.detail or event.kind, innermost.stale)
        self.missed[key] = Missed(
            start.boundary, place, innermost.function, statement.text, event.hazard, seen, tuple(path)
        )

    def _start_of(self, spots: Sequence[Spot | None], truncated: bool) -> Start | None:
        """The boundary that the event happened in: its entry is on the stack, or may have been cut off it."""
        for spot in spots:
            for start in self.audited.starts:
                if spot is None or (spot.file, spot.function) != (start.file, start.function):
                    continue
                if any(start.first <= item.first <= start.last for item in spot.statements):
                    return start
        return self.audited.starts[0] if truncated and len(self.audited.starts) == 1 else None

    # -- findings ---------------------------------------------------------------------------------------------

    def _judged(self, index: int, finding: Finding) -> Finding:
        if finding.hazard is None:
            return finding
        if index in self.confirmed:
            return replace(finding, evidence=EvidenceVerdict.CONFIRMED, observation=self.confirmed[index])
        silent: Observation | None = None
        for name, document, source in self.runs:
            verdict, observation = self._silence(index, finding, name, document, source)
            if verdict is EvidenceVerdict.REFUTED:
                return replace(finding, evidence=verdict, observation=observation)
            silent = silent or observation
        return replace(finding, evidence=EvidenceVerdict.NOT_EXERCISED, observation=silent)

    def _silence(
        self, index: int, finding: Finding, name: str, document: Evidence, source: AuditedSource
    ) -> tuple[EvidenceVerdict, Observation | None]:
        """What a document without a fitting event says of a finding."""
        statement = self.statements[index]
        ran = source.ran(finding.place.file, finding.place.line, statement)
        if statement is None or ran is None:
            return EvidenceVerdict.NOT_EXERCISED, None
        if ran.stale:
            detail = "the function reads differently now from what ran"
            return EvidenceVerdict.NOT_EXERCISED, Observation(name, document.mode, 0, detail, stale=True)
        if not ran.reached:
            return EvidenceVerdict.NOT_EXERCISED, Observation(name, document.mode, 0, "the statement did not run")
        reason = other_version(document, self.audited.versions)
        reason = reason or blind_spot(document, finding, self.captures.get(finding.boundary, "torch"))
        outline = self.audited.outline(finding.place.file)
        if reason is None and (outline is None or not always_evaluated(outline, finding.place)):
            reason = "the statement ran, but this part of it may have been skipped"
        if reason is None and not self._started(finding.boundary, source):
            reason = "the run did not start at this boundary"
        if reason is not None:
            return EvidenceVerdict.NOT_EXERCISED, Observation(name, document.mode, 0, reason)
        detail = f"the statement ran and no {finding.name} was seen"
        if finding.confidence is not Confidence.CERTAIN:
            detail += "; the finding holds for some values, which this run may not have had"
        return EvidenceVerdict.REFUTED, Observation(name, document.mode, 0, detail)

    def _started(self, boundary: str, source: AuditedSource) -> bool:
        starts = [start for start in self.audited.starts if start.boundary == boundary]
        return any(source.has_run(start.file, start.function) for start in starts)


_LONGEST_STACK = 16
"""Frames that the probe keeps; a stack of this length may have lost its outermost ones."""


def _from_place(own: StackFrame, stack: Iterable[StackFrame]) -> list[StackFrame]:
    """The frames from the event's place outwards; library frames inside it say how, not where."""
    frames = list(stack)
    for index, frame in enumerate(frames):
        if (frame.root, frame.file, frame.line) == (own.root, own.file, own.line):
            return [own, *frames[index + 1 :]]
    return [own]


def _is_below(finding: Finding, places: Sequence[Spot]) -> bool:
    """Whether the way to a finding leads through a call, or the finding is in the function that the call names.

    ``places`` are the call and the one around it: a decorator's wrapper calls many functions from one line.
    """
    name = finding.call_path[-1].function.rpartition(".")[2] if finding.call_path else ""
    if name and any(f"{name}(" in item.text for item in places[0].statements):
        return True
    calls = finding.call_path[:0:-1]  # the innermost first, without the entry
    return any(
        all(_enters(hop, spot) for hop, spot in zip(calls[start:], places, strict=False)) for start in range(len(calls))
    )


def _enters(hop: Hop, spot: Spot) -> bool:
    return hop.file == spot.file and any(item.first <= hop.line <= item.last for item in spot.statements)


def _calls(finding: Finding, callee: StackFrame) -> bool:
    """Whether a finding's operation is the call that led to the frame inside it."""
    name = callee.function.rpartition(".")[2]
    if name.startswith("__") and name.endswith("__"):
        return True  # an operator, a subscript, a call of an instance: no name to be found
    return f"{name}(" in finding.text or finding.operation.rpartition(".")[2] == name
