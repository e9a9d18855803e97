"""What is known about one library operation: arguments, result, conditions and their verdicts.

The conditions are data. They speak of abstract values (a 0-dim device tensor, a Python number, a
list), and only the engine that computes such values decides whether a condition holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from capaudit.knowledge.versions import VersionRange
from capaudit.model import CaptureKind, Confidence

Word = tuple[str, bool]
"""One predicate word and whether it was negated: ``("0d", False)`` for ``0d``, ``("device", True)`` for ``!device``."""

Kind = Literal["device", "host", "attribute"]
"""``host``: a call that touches no device by itself, such as ``os.path.join``; ``attribute``: read without a call."""

PREDICATE_WORDS: Final = frozenset(
    [
        "device",
        "cpu",
        "pageable",
        "pinned",
        "tensor",
        "0d",
        "not-0d",
        "bool",
        "int",
        "float",
        "scalar",
        "sequence",
        "ndarray",
        "warp",
        "str",
        "none",
        "given",
        "absent",
        "true",
        "false",
        "not-true",
        "not-false",
        "dynamic",
        "cuda-name",
        "cpu-name",
        "contains-device",
        "int-tensor",
        "0d-int",
        "cpu-tensor",
        "range",
        "number",
        "slice",
        "tensor-slice",
        "full-element",
        "no-size",
    ]
)
RESULT_KINDS: Final = frozenset(
    [
        "tensor",
        "cpu",
        "factory",
        "like",
        "self",
        "arg",
        "host",
        "device-read",
        "none",
        "ndarray",
        "warp",
        "list",
        "tuple",
        "object",
        "unknown",
    ]
)
RESULT_FLAGS: Final = frozenset(
    ["bool", "int", "float", "complex", "str", "0d", "keep-rank", "view", "dynamic", "reduce", "pinned", "unranked"]
)
EFFECTS: Final = frozenset(
    [
        "allocates-warp",
        "frees-warp",
        "launch",
        "host-rng",
        "clock",
        "synchronizes",
        "host-io",
        "replays-graph",
        "captures",
        "fork",
        "join",
        "mutates-model",
    ]
)
_PARAMETRIC = re.compile(r"=.+|flag:.+")
_NESTED = ("list", "tuple")
_NAMED = ("arg", "object")


@dataclass(frozen=True, slots=True)
class ResultSpec:
    """What a call returns.

    ``kind`` is one of ``RESULT_KINDS``; ``flags`` refine it; ``items`` holds the element results of
    a list (one) or a tuple (one per position); ``name`` the parameter of ``arg`` or the class of
    ``object``.
    """

    kind: str
    flags: frozenset[str] = frozenset()
    items: tuple[ResultSpec, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One condition of an operation and its verdict; the first case that holds decides.

    ``when`` pairs a parameter (or ``*``, any argument; ``receiver``, the object) with the words that
    must all hold for it. One of ``hazard``, ``ownership`` and ``ok`` is the verdict. ``result`` replaces
    the operation's own result when the case decides.
    ``capture`` lists the capture kinds that the case speaks about (empty: all),
    ``inferred`` names the source when no run stands behind the case.
    """

    when: tuple[tuple[str, tuple[Word, ...]], ...]
    hazard: str | None
    ownership: str | None
    ok: bool
    result: ResultSpec | None
    why: str
    remedy: str
    versions: VersionRange | None
    capture: tuple[CaptureKind, ...]
    evidence: tuple[str, ...]
    inferred: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of an operation table, under one of its qualified names.

    ``names`` lists all names of the entry, ``name`` is the first of them. ``params`` is the positional
    order; ``*size`` gathers the positional rest and is called ``size`` in conditions. ``hazard`` or
    ``ownership`` decide when no case holds; with neither the operation is graph-eligible device
    work, or host work when ``kind`` is ``host``. ``confidence`` bounds how sure a finding of that
    default can be, where releases or drivers differ. ``library`` and ``versions`` say which releases
    the entry describes; ``table`` is the file it came from.
    """

    name: str
    names: tuple[str, ...]
    library: str
    versions: VersionRange | None
    params: tuple[str, ...]
    result: ResultSpec
    cases: tuple[Case, ...]
    hazard: str | None
    confidence: Confidence
    ownership: str | None
    kind: Kind
    effects: tuple[str, ...]
    why: str
    remedy: str
    evidence: tuple[str, ...]
    inferred: str
    table: str

    @property
    def hazards(self) -> tuple[str, ...]:
        """Every hazard code that the entry can give, in order of appearance."""
        codes = [case.hazard for case in self.cases if case.hazard]
        if self.hazard:
            codes.append(self.hazard)
        return tuple(dict.fromkeys(codes))


@lru_cache(maxsize=1024)
def parse_words(text: str) -> tuple[Word, ...]:
    """Read ``"device 0d"`` or ``"!absent"``. Errors: ``ValueError`` names an unknown word."""
    words = []
    for raw in text.split():
        negated = raw.startswith("!")
        word = raw[1:] if negated else raw
        if word not in PREDICATE_WORDS and not _PARAMETRIC.fullmatch(word):
            raise ValueError(f"unknown predicate word {raw!r}")
        words.append((word, negated))
    if not words:
        raise ValueError("a condition needs at least one predicate word")
    return tuple(words)


@lru_cache(maxsize=1024)
def parse_result(text: str) -> ResultSpec:
    """Read the result grammar (``"tuple:tensor;like int"``). Errors: ``ValueError`` names what is not understood."""
    head, colon, rest = text.strip().partition(":")
    if colon and head in _NESTED:
        parts = rest.split(";") if head == "tuple" else [rest]
        return ResultSpec(head, items=tuple(parse_result(part) for part in parts))
    words = text.split()
    if not words:
        raise ValueError("an empty result")
    kind, _, name = words[0].partition(":")
    if kind not in RESULT_KINDS:
        raise ValueError(f"unknown result kind {words[0]!r}")
    if bool(name) != (kind in _NAMED) and kind not in _NESTED:
        raise ValueError(f"{words[0]!r}: a name belongs to arg: and object: only, and they need one")
    unknown = [flag for flag in words[1:] if flag not in RESULT_FLAGS]
    if unknown:
        raise ValueError(f"unknown result flag {unknown[0]!r}")
    return ResultSpec(kind, frozenset(words[1:]), (), name)


def check_effect(text: str) -> None:
    """Errors: ``ValueError`` when ``text`` is no known effect (``writes:PARAM`` names a parameter)."""
    if text in EFFECTS or (text.startswith("writes:") and len(text) > len("writes:")):
        return
    raise ValueError(f"unknown effect {text!r}")
