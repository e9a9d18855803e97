"""Give back the result of an earlier audit where nothing that it rests on has changed.

Files may differ where ``sameness`` proves that the audit would come to the same result: another comment, another
docstring, blank lines, another text of a file of which nobody asked for more than words. The places of the
result move with their lines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
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


Record = tuple[list[tuple[str, str, str, bytes, bool]], tuple[dict[Any, None], ...], Any]
"""Per file path, shown path, module name, digest and whether it was parsed; the questions; the result."""


class Kept:
    """The last few records of one process, each with the texts that it is about."""

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._records: list[tuple[str, Record, dict[str, bytes]]] = []

    def add(self, key: str, record: Record, texts: dict[str, bytes]) -> None:
        self._records = [(key, record, texts), *self._records][: self._most]

    def all(self, key: str) -> list[tuple[Record, dict[str, bytes]]]:
        """Return the records of a key, newest first."""
        return [(record, texts) for known, record, texts in self._records if known == key]


class Memory:
    """The record of one audit's options: what an audit with the same options found, and what it had looked at."""

    def __init__(self, options: AuditOptions, roots: tuple[Path, ...], kept: Kept | None = None) -> None:
        self.options = options
        self.roots = roots
        self.kept = kept
        self.key = store.content_key(_settings(options, roots)) if _is_eligible(options) else ""

    def recall(self) -> Result | None:
        """Return the result that a new audit would come to, ``None`` where that is not certain."""
        if not self.key:
            return None
        started = time.perf_counter()
        records = self._records()
        if not records:
            return None
        try:
            listing = [(str(file), shown, name) for file, shown, name in self._listing()]
        except (InputError, OSError):
            return None  # a full run says what is wrong
        contents = {file: self._content(file) for file, _, _ in listing}
        there = {file: data for file, data in contents.items() if data is not None}
        if len(there) < len(contents):
            return None
        for record, texts in records:
            result = self._answer(record, texts, listing, there)
            if result is not None:
                return replace(result, statistics=replace(result.statistics, seconds=time.perf_counter() - started))
        return None

    def _records(self) -> list[tuple[Record, Callable[[], Any]]]:
        """Return what is known under the key, each with a function that returns its texts."""
        known = self.kept.all(self.key) if self.kept is not None else []
        if known:
            return [(record, partial(dict, texts)) for record, texts in known]
        stored: Any = store.read(KIND, self.key)
        if stored is None:
            return []
        if self.kept is not None and isinstance(texts := store.read(TEXTS, self.key), dict):
            self.kept.add(self.key, stored, texts)
        return [(stored, partial(store.read, TEXTS, self.key))]

    def _answer(
        self, record: Record, texts: Callable[[], Any], listing: list[tuple[str, str, str]], there: dict[str, bytes]
    ) -> Result | None:
        files, questions, plain = record
        if listing != [(file, shown, name) for file, shown, name, _, _ in files]:
            return None
        changed: dict[str, tuple[str, bytes, bytes, bool]] = {}
        for file, shown, _, digest, parsed in files:
            if stamps.digest(there[file]) != digest:
                changed[file] = shown, digest, there[file], parsed
                if len(changed) > _MOST_CHANGED:
                    return None
        moves = self._moves(changed, texts(), Questions(*questions)) if changed else {}
        if moves is None:
            return None
        try:
            result: Result = Restored(moves, with_fixes=self.options.collect_fixes).value(plain)
        except MovedError:
            return None
        return result

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
        if len(files) < len(deferred.sources):
            return  # a file has gone meanwhile
        questions = tuple(dict(getattr(deferred.questions, field.name)) for field in fields(Questions))
        record: Record = files, questions, flat(result)
        if self.kept is not None:
            self.kept.add(self.key, record, texts)
        store.write(TEXTS, self.key, texts)
        store.write(KIND, self.key, record)

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
        self, changed: Mapping[str, tuple[str, bytes, bytes, bool]], texts: Any, questions: Questions
    ) -> dict[str, Move] | None:
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
