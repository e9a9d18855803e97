"""Idioms to measure: those of the knowledge, or programs of a JSON-lines file of facts."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from capaudit.evidence import JsonObject
from capaudit.knowledge.idioms import OUTCOMES, Idiom
from capaudit.model import InputError

# Warp's modules, process groups and compiled code are kept by name for the whole process.
_RUNTIMES = ("wp.", "warp", "ws()", "kmod", "distributed", "compile", "torch.set_", "torch.use_", "backends")
_LIBRARIES = ("warp", "mujoco_warp", "mujoco", "numpy", "tensordict")


def library(idiom: Idiom) -> str:
    """The package that the idiom's version range speaks of."""
    package = idiom.op.split(".")[0]
    return package if package in _LIBRARIES else "torch"


def digest(idiom: Idiom) -> str:
    """A short fingerprint of the program: evidence for another text is evidence for another program."""
    text = "\0".join((idiom.setup, idiom.body, idiom.mutate))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def load_facts(path: Path) -> tuple[Idiom, ...]:
    """Read a JSON-lines file of measured programs (name, setup, body, capture). Raises InputError with the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the facts cannot be read: {error}", place=str(path)) from None
    found: dict[str, Idiom] = {}
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
        idiom = _read_fact(fact, place)
        if idiom.id in found:
            raise InputError(f"the name {idiom.id!r} is used twice", place=place)
        found[idiom.id] = idiom
    return tuple(found.values())


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
    return idiom.is_right and not any(mark in text for mark in _RUNTIMES)


def _read_fact(fact: dict[str, object], place: str) -> Idiom:
    texts = {}
    for key in ("name", "setup", "body", "capture"):
        value = fact.get(key, "")
        if not isinstance(value, str) or not (value or key == "setup"):
            raise InputError(f"{key!r} is a string that says something", place=place)
        texts[key] = value
    capture = texts["capture"].replace("_", "-")
    if capture not in OUTCOMES:
        raise InputError(f"capture is one of {', '.join(OUTCOMES)}, not {capture!r}", place=place)
    try:
        compile(texts["setup"], place, "exec")
        compile(texts["body"], place, "exec")
    except (SyntaxError, ValueError) as error:
        raise InputError(str(error), place=place) from None
    return Idiom(id=texts["name"], op="", body=texts["body"], capture=capture, file=place, setup=texts["setup"])
