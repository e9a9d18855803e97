"""Give back the result of an earlier audit where nothing that it rests on has changed.

Files may differ where ``sameness`` proves that the audit would come to the same result: another comment, another
docstring, blank lines, another text of a file of which nobody asked for more than words. The places of the
result move with their lines.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from capaudit.audit.options import AuditOptions
from capaudit.audit.sameness import Move, compare
from capaudit.audit.shelf import MovedError, Restored, flat
from capaudit.cache import stamps, store
from capaudit.model import InputError, Result
from capaudit.program.index import Deferred, Program, list_sources
from capaudit.program.text import Questions

KIND, TEXTS = "audit", "texts"
_MOST_CHANGED = 20
"""Changed files beyond which a comparison costs more than it is likely to save."""


class Memory:
    """The record of one audit's options: what an audit with the same options found, and what it had looked at."""

    def __init__(self, options: AuditOptions, roots: tuple[Path, ...]) -> None:
        self.options = options
        self.roots = roots
        self.key = store.content_key(_settings(options, roots)) if _is_eligible(options) else ""

    def recall(self) -> Result | None:
        """Return the result that a new audit would come to, ``None`` where that is not certain."""
        started = time.perf_counter()
        record: Any = store.read(KIND, self.key) if self.key else None
        if record is None:
            return None
        files, questions, plain = record
        try:
            there = {str(file): (shown, name) for file, shown, name in self._listing()}
        except (InputError, OSError):
            return None  # a full run says what is wrong
        if list(there.items()) != [(file, (shown, name)) for file, shown, name, _, _ in files]:
            return None
        changed: dict[str, tuple[str, bytes, bytes, bool]] = {}
        for file, shown, _, digest, parsed in files:
            data = self._content(file)
            if data is None:
                return None
            if stamps.digest(data) != digest:
                changed[file] = shown, digest, data, parsed
                if len(changed) > _MOST_CHANGED:
                    return None
        moves = self._moves(changed, Questions(*questions)) if changed else {}
        if moves is None:
            return None
        try:
            result: Result = Restored(moves, with_fixes=self.options.collect_fixes).value(plain)
        except MovedError:
            return None
        return replace(result, statistics=replace(result.statistics, seconds=time.perf_counter() - started))

    def keep(self, result: Result, program: Program, deferred: Deferred) -> None:
        """Remember the result of a full audit."""
        if not self.key or deferred.sources is None:
            return
        read = {module.file: deferred.is_read(module) for module in program.modules.values()}
        files, texts = [], {}
        for file, shown, name in self._listing():
            if file not in deferred.sources:
                return  # it could not be read, or appeared meanwhile
            texts[str(file)] = data = deferred.sources[file]
            files.append((str(file), shown, name, stamps.digest(data), read.get(shown, True)))
        questions = tuple(getattr(deferred.questions, field.name) for field in fields(Questions))
        store.write(TEXTS, self.key, texts)
        store.write(KIND, self.key, (files, questions, flat(result)))

    def _listing(self) -> Any:
        configuration, folder = self.options.configuration, self.options.working_directory
        return list_sources(self.roots, folder, configuration.excludes, self.options.unsaved)

    def _content(self, file: str) -> bytes | None:
        unsaved = self.options.unsaved.get(Path(file)) if self.options.unsaved else None
        if unsaved is not None:
            return unsaved
        try:
            with open(file, "rb") as stream:
                return stream.read()
        except OSError:
            return None

    def _moves(
        self, changed: Mapping[str, tuple[str, bytes, bytes, bool]], questions: Questions
    ) -> dict[str, Move] | None:
        texts: Any = store.read(TEXTS, self.key)
        if texts is None:
            return None
        moves: dict[str, Move] = {}
        for file, (shown, digest, data, parsed) in changed.items():
            before = texts.get(file)
            if before is None or stamps.digest(before) != digest:
                return None  # another run has written since
            move = compare(before, data, shown, questions, parsed=parsed)
            if move is None:
                return None
            if move.shifts and any(f"{shown}:".encode() in text for text in texts.values()):
                return None  # a text that names places of the file could be taken for one that the audit made
            moves[shown] = move
        return moves


def _is_eligible(options: AuditOptions) -> bool:
    return store.is_enabled() and not options.evidence


def _settings(options: AuditOptions, roots: tuple[Path, ...]) -> list[tuple[str, bytes]]:
    """Everything but the program that a result depends on."""
    package = Path(__file__).parent.parent
    knowledge = [(str(file), file.read_bytes()) for file in options.configuration.knowledge_files()]
    given = (options.entries, options.capture, options.collect_operations, options.collect_fixes, options.today)
    places = (options.working_directory, *options.paths, "", *roots)
    state = stamps.program_state(str(package))
    return [(text, b"") for text in [repr(given), *map(str, places), repr(options.configuration), *state]] + knowledge
