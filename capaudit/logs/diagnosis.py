"""From the lines of a log to what went wrong first."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from capaudit.knowledge import Knowledge
from capaudit.knowledge.messages import Message, Messages
from capaudit.logs.findings import KnownFinding, fitting
from capaudit.logs.prefixes import split_prefix
from capaudit.logs.reading import Line
from capaudit.logs.statements import function_hazard, statement_hazards
from capaudit.logs.tracebacks import Block, Frame, Tracebacks

_WINDOW: Final = 300
"""Lines of one writer after which a message belongs to something else."""

_MOST_WRITERS: Final = 256
_MOST_INCIDENTS: Final = 200
_MOST_MATCHES: Final = 50
_STORY: Final = {"error": 0, "consequence": 1, "warning": 2}

_HIDDEN: Final = "CAP105"

_WARNED_AT: Final = re.compile(r"(?P<file>\S+\.py):(?P<line>\d+): \w*Warning: ")
_RANK: Final = re.compile(r"\[Rank (\d+)\]")


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that went wrong, perhaps on many ranks.

    ``line`` is the first line of the log that says so and ``text`` what it says; ``writers`` are the
    ranks or processes; ``frames`` the traceback, outermost first, and ``place`` its most likely frame.
    ``hazards`` are rule codes, the most likely first. ``exception`` is the first exception of the chain.
    """

    message: Message
    line: int
    text: str
    hazards: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()
    place: Frame | None = None
    exception: str = ""
    writers: tuple[str, ...] = ()
    count: int = 1


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a log says: ``cause`` is ``None`` when nothing in it is about capture."""

    cause: Incident | None
    others: tuple[Incident, ...]
    findings: tuple[KnownFinding, ...]
    lines: int


@dataclass(slots=True)
class _Match:
    message: Message
    line: int
    text: str
    block: Block | None


@dataclass(slots=True)
class _Writer:
    name: str
    tracebacks: Tracebacks = field(default_factory=Tracebacks)
    blocks: list[Block] = field(default_factory=list)
    matches: list[_Match] = field(default_factory=list)
    count: int = 0
    last: int = 0


def diagnose(
    lines: Iterable[Line], messages: Messages, knowledge: Knowledge, findings: Sequence[KnownFinding] = ()
) -> Diagnosis:
    """Read the lines and say what went wrong first. Memory is bounded, whatever the log's size."""
    reader = _Reader(messages, knowledge)
    for line in lines:
        reader.feed(line)
    ordered = reader.incidents()
    cause = ordered[0] if ordered else None
    fits = fitting(findings, cause.frames, cause.hazards) if cause is not None else ()
    return Diagnosis(cause, tuple(ordered[1:]), fits, reader.lines)


class _Reader:
    def __init__(self, messages: Messages, knowledge: Knowledge) -> None:
        self.messages = messages
        self.knowledge = knowledge
        self.lines = 0
        self._writers: OrderedDict[str, _Writer] = OrderedDict()
        self._found: dict[tuple[str, str, int], Incident] = {}

    def feed(self, line: Line) -> None:
        self.lines = max(self.lines, line.number)
        name, text = split_prefix(line.text)
        writer = self._writer(name)
        writer.count += 1
        if writer.matches and writer.count - writer.last > _WINDOW:
            self._close(writer)
        if writer.tracebacks.feed(line.number, text):
            self._begin(writer)
        message = self.messages.find(text)
        if message is not None and len(writer.matches) < _MOST_MATCHES:
            writer.last = writer.count
            block = writer.tracebacks.block if writer.blocks else None
            writer.matches.append(_Match(message, line.number, text.strip()[:300], block))

    def _writer(self, name: str) -> _Writer:
        writer = self._writers.get(name)
        if writer is None:
            if len(self._writers) >= _MOST_WRITERS:
                self._close(self._writers.popitem(last=False)[1])
            writer = self._writers[name] = _Writer(name)
        self._writers.move_to_end(name)
        return writer

    def _begin(self, writer: _Writer) -> None:
        """A traceback begins: part of the chain before it, the place of a message just printed, or a new story."""
        block = writer.tracebacks.block
        assert block is not None
        if not block.chained and writer.blocks:
            self._close(writer)
        writer.blocks.append(block)
        writer.last = writer.count
        if len(writer.blocks) > _MOST_MATCHES:
            del writer.blocks[1]

    def _close(self, writer: _Writer) -> None:
        if any(not match.message.dependent for match in writer.matches):
            self._note(self._incident(writer))
        writer.blocks.clear()
        writer.matches.clear()

    def _note(self, incident: Incident) -> None:
        """Keep one incident per message and place: the first of them, with everybody who had it."""
        place = incident.place
        key = (incident.message.id, place.file if place else "", place.line if place else 0)
        known = self._found.get(key)
        if known is None:
            if len(self._found) < _MOST_INCIDENTS:
                self._found[key] = incident
            return
        first = min(known, incident, key=lambda found: found.line)
        writers = tuple(dict.fromkeys([*known.writers, *incident.writers]))[:_MOST_WRITERS]
        self._found[key] = replace(first, count=known.count + 1, writers=writers)

    def _incident(self, writer: _Writer) -> Incident:
        root, block = self._root(writer)
        frames = tuple(frame for frame in block.frames if frame.file) if block is not None else ()
        place = block.innermost if block is not None else None
        warned = _WARNED_AT.search(root.text)
        if not frames and warned is not None:
            place = Frame(warned["file"], int(warned["line"]), "")
            frames = (place,)
        if place is not None and place.is_library:
            place = None
        rank = writer.name or (found[1] if (found := _RANK.search(root.text)) else "")
        return Incident(
            message=root.message,
            line=root.line,
            text=root.text,
            hazards=self._hazards(root.message, place, frames),
            frames=frames,
            place=place,
            exception=block.exception if block is not None else "",
            writers=(rank,) if rank else (),
        )

    def _root(self, writer: _Writer) -> tuple[_Match, Block | None]:
        """Return the message that tells the cause, and the traceback that it stands in or before."""
        matches = writer.matches
        errors = [match for match in matches if match.message.kind == "error"]
        first = writer.blocks[0] if writer.blocks else None
        if errors:
            # A bare error number says less than what a library says about the same failure.
            root = next((match for match in errors if match.message.number is None), errors[0])
            return root, root.block or first
        root = min(matches, key=lambda match: _STORY[match.message.kind])
        spoken = any(match.block is first for match in matches)
        if root.message.kind == "consequence" and first is not None and first.exception and not spoken:
            message = self.messages.named("exception-in-capture")
            return _Match(message, first.line, first.exception, first), first
        return root, root.block or first

    def _hazards(self, message: Message, place: Frame | None, frames: tuple[Frame, ...]) -> tuple[str, ...]:
        if message.kind == "consequence":
            return message.hazards  # the statement is where it was noticed, not what went wrong
        said = statement_hazards(place, self.knowledge) if place is not None else ()
        if message.number != 900 and not message.vague:
            return tuple(dict.fromkeys([*(code for code in message.hazards if code in said), *message.hazards]))
        below = frames[frames.index(place) + 1 :] if place in frames else frames
        said = said or tuple(code for frame in below if (code := function_hazard(frame, self.knowledge)))
        if said:
            return said
        # A statement that looks harmless waits inside of the library that it calls.
        hidden = [_HIDDEN] if below and place is not None else []
        return tuple(dict.fromkeys([*hidden, *message.hazards]))

    def incidents(self) -> list[Incident]:
        """Return everything found, the likely cause first: failures before what follows from them and warnings."""
        for writer in self._writers.values():
            self._close(writer)
        return sorted(self._found.values(), key=lambda found: (_STORY[found.message.kind], found.line))
