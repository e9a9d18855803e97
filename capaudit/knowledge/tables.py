"""Reading operation tables: TOML in, validated plain values out.

The plain values (tuples and strings) are what the cache stores; ``build`` turns them into
``Operation`` objects. Validation is strict, because a misspelt key in a table would otherwise be a
silently wrong verdict.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, cast, get_args

from capaudit.knowledge.operation import Case, Kind, Operation, check_effect, parse_result, parse_words
from capaudit.knowledge.versions import VersionRange, parse_range
from capaudit.model import CaptureKind, Confidence, ConfigurationError

PlainCase = tuple[
    tuple[tuple[str, str], ...], str, str, bool, str, str, str, str, tuple[str, ...], tuple[str, ...], str
]  # fmt: skip
PlainEntry = tuple[
    tuple[str, ...], str, str, tuple[str, ...], str, tuple[PlainCase, ...], str, str, str, str, tuple[str, ...],
    str, str, tuple[str, ...], str, str,
]  # fmt: skip

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\.?\*)?")
_CAPTURES = ("torch", "warp", "shared")
_OWNERSHIPS = ("graph-eligible", "completion-owned", "cold-path")
_TABLE_KEYS = frozenset({"library", "versions", "about"})
_ENTRY_KEYS = frozenset(
    [
        "names",
        "params",
        "result",
        "cases",
        "hazard",
        "confidence",
        "class",
        "kind",
        "effect",
        "why",
        "remedy",
        "evidence",
        "inferred",
        "versions",
    ]
)
_CASE_KEYS = frozenset(
    ["when", "hazard", "class", "ok", "result", "why", "remedy", "versions", "capture", "evidence", "inferred"]
)


def parse_table(text: str, file: str, codes: Collection[str]) -> tuple[PlainEntry, ...]:
    """Validate one table.

    ``file`` is the name that errors show, ``codes`` the hazard codes that exist. Errors:
    ``ConfigurationError`` with the file and the key.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"not valid TOML: {error}", place=file) from error
    root = _Node(document, file, "")
    root.only(frozenset({"table", "op"}))
    header = root.child("table")
    header.only(_TABLE_KEYS)
    library = header.text("library", required=True)
    versions = header.checked("versions", parse_range)
    about = header.text("about") or _opening_comment(text)
    return tuple(_entry(node, library, versions, about, file, codes) for node in root.children("op"))


def _opening_comment(text: str) -> str:
    """The comment that opens a table: the prose of entries that say nothing more themselves."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").strip())
    return " ".join(filter(None, lines))


def _entry(node: _Node, library: str, versions: str, about: str, file: str, codes: Collection[str]) -> PlainEntry:
    node.only(_ENTRY_KEYS)
    names = node.texts("names", required=True)
    node = node.labelled(names[0])
    for name in names:
        if not _NAME.fullmatch(name):
            node.fail("names", f"{name!r} is not a dotted name (a trailing * stands for the rest)")
    params = node.texts("params")
    known = {*(parameter.lstrip("*") for parameter in params), "*", "receiver"}
    cases = tuple(_case(child, known, codes) for child in node.children("cases"))
    result = node.checked("result", parse_result)
    referenced = parse_result(result).name if result.startswith("arg:") else ""
    if referenced and referenced not in known:
        node.fail("result", f"there is no parameter {referenced!r}")
    effects = node.texts("effect")
    for effect in effects:
        node.check("effect", check_effect, effect)
        if effect.startswith("writes:") and effect[len("writes:") :] not in known:
            node.fail("effect", f"{effect!r} names no parameter")
    hazard = node.choice("hazard", codes)
    ownership = node.choice("class", _OWNERSHIPS)
    if hazard and ownership:
        node.fail("class", "a hazard is always of the class rejected; give one of the two")
    confidence = node.choice("confidence", tuple(Confidence))
    if confidence and not hazard:
        node.fail("confidence", "it belongs to a hazard of the entry itself")
    kind = node.choice("kind", get_args(Kind)) or "device"
    return (
        names,
        library,
        node.checked("versions", parse_range) or versions,
        params,
        result or ("host" if kind == "host" else "unknown"),
        cases,
        hazard,
        confidence or Confidence.CERTAIN.value,
        ownership,
        kind,
        effects,
        node.text("why") or about,
        node.text("remedy"),
        node.texts("evidence"),
        node.text("inferred"),
        file,
    )


def _case(node: _Node, known: set[str], codes: Collection[str]) -> PlainCase:
    node.only(_CASE_KEYS)
    when = node.child("when") if "when" in node.data else None
    conditions = []
    for parameter in when.data if when else ():
        assert when is not None
        if parameter not in known:
            when.fail(parameter, "there is no such parameter")
        conditions.append((parameter, when.checked(parameter, parse_words)))
    hazard = node.choice("hazard", codes)
    ok = node.data.get("ok", False)
    if not isinstance(ok, bool):
        node.fail("ok", "true or false is expected")
    ownership = node.choice("class", _OWNERSHIPS)
    if [bool(hazard), bool(ownership), ok].count(True) != 1:
        node.fail("hazard", "a case needs one of a hazard, a class or ok = true")
    capture = node.texts("capture")
    for kind in capture:
        if kind not in _CAPTURES:
            node.fail("capture", f"unknown capture kind {kind!r}; known: {', '.join(_CAPTURES)}")
    versions = node.checked("versions", parse_range)
    if not conditions and not versions and not capture:
        node.fail("when", "a case that always holds belongs on the entry itself")
    return (
        tuple(conditions),
        hazard,
        ownership,
        ok,
        node.checked("result", parse_result),
        node.text("why"),
        node.text("remedy"),
        versions,
        capture,
        node.texts("evidence"),
        node.text("inferred"),
    )


def build(entry: PlainEntry) -> Operation:
    """Turn a validated plain entry into an ``Operation``."""
    (names, library, versions, params, result, cases, hazard, confidence, ownership, kind, effects, why, remedy,
     evidence, inferred, table) = entry  # fmt: skip
    return Operation(
        names[0],
        names,
        library,
        _range(versions),
        params,
        parse_result(result),
        tuple(_build_case(case) for case in cases),
        hazard or None,
        Confidence(confidence),
        ownership or None,
        cast(Kind, kind),
        effects,
        why,
        remedy,
        evidence,
        inferred,
        table,
    )


def _build_case(case: PlainCase) -> Case:
    when, hazard, ownership, ok, result, why, remedy, versions, capture, evidence, inferred = case
    return Case(
        tuple((parameter, parse_words(words)) for parameter, words in when),
        hazard or None,
        ownership or None,
        ok,
        parse_result(result) if result else None,
        why,
        remedy,
        _range(versions),
        cast("tuple[CaptureKind, ...]", capture),
        evidence,
        inferred,
    )


def _range(text: str) -> VersionRange | None:
    return parse_range(text) if text else None


class _Node:
    """A TOML table with the path of keys that leads to it, so that every error can name its place."""

    def __init__(self, data: Mapping[str, Any], file: str, path: str) -> None:
        self.data = data
        self.file = file
        self.path = path

    def fail(self, key: str, message: str) -> None:
        place = ".".join(part for part in (self.path, key) if part)
        raise ConfigurationError(message, place=f"{self.file}: {place}")

    def labelled(self, label: str) -> _Node:
        return _Node(self.data, self.file, f"{self.path} ({label})")

    def only(self, keys: frozenset[str]) -> None:
        for key in self.data:
            if key not in keys:
                self.fail(key, f"unknown key; known: {', '.join(sorted(keys))}")

    def child(self, key: str) -> _Node:
        value = self.data.get(key)
        if not isinstance(value, Mapping):
            self.fail(key, "a table is expected")
        return _Node(cast("Mapping[str, Any]", value), self.file, f"{self.path}.{key}" if self.path else key)

    def children(self, key: str) -> Iterator[_Node]:
        values = self.data.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, Mapping) for value in values):
            self.fail(key, "a list of tables is expected")
        base = f"{self.path}.{key}" if self.path else key
        for position, value in enumerate(values):
            yield _Node(value, self.file, f"{base}[{position}]")

    def text(self, key: str, *, required: bool = False) -> str:
        value = self.data.get(key, "")
        if not isinstance(value, str) or (required and not value):
            self.fail(key, "a text is expected")
        return str(value)

    def texts(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        values = self.data.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            self.fail(key, "a list of texts is expected")
        if required and not values:
            self.fail(key, "at least one text is expected")
        return tuple(values)

    def choice(self, key: str, allowed: Collection[str]) -> str:
        value = self.text(key)
        if value and value not in allowed:
            self.fail(key, f"{value!r} is not known; known: {', '.join(sorted(allowed))}")
        return value

    def check(self, key: str, reader: Callable[[str], object], value: str) -> None:
        try:
            reader(value)
        except ValueError as error:
            self.fail(key, str(error))

    def checked(self, key: str, reader: Callable[[str], object]) -> str:
        """Return the text under ``key`` after ``reader`` accepted it; an absent text stays empty."""
        value = self.text(key)
        if value or key in self.data:
            self.check(key, reader, value)
        return value
