"""Idioms as data: small programs with a declared verdict, from ``rules/idioms`` or a JSON-lines file of facts."""

from __future__ import annotations

import fnmatch
import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import cast

from capaudit.evidence import JsonObject
from capaudit.knowledge import parse_range, rules_folder
from capaudit.model import InputError

VERDICTS = ("ok", "fails", "wrong-on-replay", "advances")

# Warp's modules, process groups and compiled code are kept by name for the whole process.
_RUNTIMES = ("wp.", "warp", "ws()", "kmod", "distributed", "compile", "torch.set_", "torch.use_", "backends")
_LIBRARIES = ("warp", "mujoco_warp", "mujoco", "numpy")


@dataclass(frozen=True, slots=True)
class Idiom:
    """One program: ``setup`` runs once, ``body`` is the captured step, ``mutate`` changes inputs before the replay.

    ``capture`` is the declared verdict, ``op`` the operation entry it speaks of, ``versions`` the range of the
    library for which it was declared.
    """

    id: str
    body: str
    capture: str
    op: str = ""
    setup: str = ""
    mutate: str = ""
    hazard: str | None = None
    twin: str | None = None
    versions: str = ""

    @property
    def library(self) -> str:
        """The distribution that ``versions`` speaks of."""
        package = self.op.split(".")[0]
        return package if package in _LIBRARIES else "torch"


def load_idioms(folder: Path | None = None) -> tuple[Idiom, ...]:
    """Read every idiom of a folder of TOML files, by default the shipped ones. Raises InputError with file and id."""
    place = folder or rules_folder() / "idioms"
    found = []
    for path in sorted(place.glob("*.toml")):
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"the idioms cannot be read: {error}", place=str(path)) from None
        entries = document.get("idiom", [])
        if not isinstance(entries, list):
            raise InputError("'idiom' is an array of tables: [[idiom]]", place=str(path))
        found += [_read(entry, f"{path}: idiom[{index}]") for index, entry in enumerate(entries)]
    if not found:
        raise InputError("there are no idioms here", place=str(place))
    return _unique(found)


def load_facts(path: Path) -> tuple[Idiom, ...]:
    """Read a JSON-lines file of measured programs (name, setup, body, capture). Raises InputError with the line."""
    found = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the facts cannot be read: {error}", place=str(path)) from None
    for number, line in enumerate(lines, 1):
        place = f"{path}:{number}"
        try:
            fact = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"the line is not JSON: {error.msg}", place=place) from None
        if not isinstance(fact, dict):
            raise InputError("a fact is an object", place=place)
        if "meta" in fact:
            continue
        taken = {key: fact[key] for key in ("setup", "body") if key in fact}
        capture = str(fact.get("capture", "")).replace("_", "-")
        found.append(_read({**taken, "id": fact.get("name"), "capture": capture}, place))
    return _unique(found)


def select(idioms: Sequence[Idiom], patterns: Iterable[str]) -> tuple[Idiom, ...]:
    """Keep what a glob or a prefix of the id names; without patterns everything. Raises InputError if none is left."""
    wanted = tuple(patterns)
    kept = tuple(idiom for idiom in idioms if not wanted or any(matches(idiom.id, pattern) for pattern in wanted))
    if not kept:
        raise InputError(f"nothing matches {', '.join(wanted)}", remedy="--select takes a glob or a prefix of an id")
    return kept


def matches(identifier: str, pattern: str) -> bool:
    """Whether a glob or a prefix names the identifier."""
    return identifier.startswith(pattern) or fnmatch.fnmatchcase(identifier, pattern)


def to_entry(idiom: Idiom) -> JsonObject:
    """Return what the measuring process needs of an idiom."""
    texts: JsonObject = {"setup": idiom.setup, "body": idiom.body, "mutate": idiom.mutate}
    return texts | {"id": idiom.id, "shareable": _is_shareable(idiom)}


def _is_shareable(idiom: Idiom) -> bool:
    """Whether the idiom may share a process: it is expected to capture, and starts no runtime that outlives it."""
    text = idiom.setup + idiom.body + idiom.mutate
    return idiom.capture in ("ok", "advances") and not any(mark in text for mark in _RUNTIMES)


def _read(entry: object, place: str) -> Idiom:
    if not isinstance(entry, dict):
        raise InputError("an idiom is a table", place=place)
    known = {field.name for field in fields(Idiom)}
    for key, value in entry.items():
        if key not in known:
            raise InputError(f"unknown key {key!r}; known keys: {', '.join(sorted(known))}", place=place)
        if not isinstance(value, str):
            raise InputError(f"{key!r} is a string", place=place)
    for key in ("id", "body", "capture"):
        if not entry.get(key):
            raise InputError(f"the key {key!r} is missing", place=place)
    idiom = Idiom(**cast("dict[str, str]", entry))
    if idiom.capture not in VERDICTS:
        raise InputError(f"{idiom.id}: capture is one of {', '.join(VERDICTS)}, not {idiom.capture!r}", place=place)
    try:
        parse_range(idiom.versions)
        compile(idiom.setup, idiom.id, "exec")
        compile(idiom.body, idiom.id, "exec")
        compile(idiom.mutate, idiom.id, "exec")
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{idiom.id}: {error}", place=place) from None
    return idiom


def _unique(idioms: Sequence[Idiom]) -> tuple[Idiom, ...]:
    seen: set[str] = set()
    for idiom in idioms:
        if idiom.id in seen:
            raise InputError(f"the id {idiom.id!r} is used twice")
        seen.add(idiom.id)
    return tuple(idioms)
