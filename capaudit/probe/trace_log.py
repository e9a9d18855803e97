"""What detectors saw, gathered per line and kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from capaudit.evidence import Event, StackFrame
from capaudit.probe.coverage import SourceTexts
from capaudit.probe.locator_roots import RawFrame, SourceRoots, current_stack


@dataclass(slots=True)
class _Row:
    root: str
    file: str
    line: int
    function: str
    raw: tuple[RawFrame, ...]
    detail: str
    count: int = 0
    nodes: dict[str, int] = field(default_factory=dict)


class EventLog:
    """Counts events per place and kind; the first stack and the first detail of each are kept."""

    def __init__(self, roots: SourceRoots) -> None:
        self.roots = roots
        self.texts = SourceTexts()
        self._rows: dict[tuple[str, str, int, str, str | None], _Row] = {}

    def add(
        self,
        kind: str,
        hazard: str | None,
        detail: str = "",
        *,
        stack: tuple[RawFrame, ...] | None = None,
        nodes: Mapping[str, int] | None = None,
        count: int = 1,
    ) -> None:
        """Record one event. ``stack`` runs innermost first and defaults to the running one."""
        raw = current_stack() if stack is None else stack
        place = self.roots.innermost_user(raw) or (raw[0] if raw else ("unknown", 0, ""))
        where = self.roots.locate(place[0])
        key = (where.root, where.file, place[1], kind, hazard)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row(where.root, where.file, max(place[1], 0), place[2], raw, detail)
        row.count += count
        for name, number in (nodes or {}).items():
            row.nodes[name] = row.nodes.get(name, 0) + number

    def count(self, kind: str) -> int:
        """Return how often a kind was seen, over all places."""
        return sum(row.count for key, row in self._rows.items() if key[3] == kind)

    def events(self, *, stacks: bool = True) -> tuple[Event, ...]:
        """Return everything, by file and line."""
        return tuple(
            Event(
                root=row.root,
                file=row.file,
                line=row.line,
                function=row.function,
                kind=kind,
                hazard=hazard,
                count=row.count,
                nodes=row.nodes,
                stack=self._frames(row.raw) if stacks else (),
                detail=row.detail,
                text=self._text(row.raw) if stacks else "",
            )
            for (_, _, _, kind, hazard), row in sorted(
                self._rows.items(), key=lambda item: (*item[0][:4], item[0][4] or "")
            )
        )

    def _frames(self, raw: tuple[RawFrame, ...]) -> tuple[StackFrame, ...]:
        named = zip(self.roots.frames(raw), raw, strict=False)  # a long stack is shortened to its innermost frames
        return tuple(
            replace(frame, text=self.texts.statement(file, line)) if self.roots.is_user(file) else frame
            for frame, (file, line, _) in named
        )

    def _text(self, raw: tuple[RawFrame, ...]) -> str:
        place = self.roots.innermost_user(raw)
        return self.texts.statement(place[0], place[1]) if place is not None else ""
