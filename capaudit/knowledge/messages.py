"""What libraries print when a capture goes wrong: ``rules/messages.toml``, read only when somebody asks why."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

from capaudit.knowledge.loader import rules_folder
from capaudit.model import ConfigurationError, InputError

Kind = Literal["error", "warning", "consequence"]

_KINDS: Final = ("error", "warning", "consequence")
_KEYS: Final = {
    "id": str,
    "title": str,
    "number": int,
    "names": list,
    "texts": list,
    "kind": str,
    "hazards": list,
    "cause": str,
    "try": list,
    "implicit": bool,
    "dependent": bool,
    "vague": bool,
}

# "CUDA error 900", "CUDA failure 900", "CUresult=900", "cudaError_t(900)", "error code 900": never "900.00 MiB".
_NUMBER: Final = re.compile(
    r"\b(?:(?:cuda|cu|hip)\w*[ .:_]*(?:runtime |driver |api )*(?:error|failure|failed|result|status|err)?\w*"
    r"|error|failure)"
    r"(?: with)?(?: (?:error|status|return|result))?(?: ?code)?[ :=(#]{1,3}(90[0-8])\b(?![.,]\d| ?[kmgt]i?b\b| ?%)",
)


_RUNTIMES: Final = ("cuda", "curesult", "hip")


@dataclass(frozen=True, slots=True)
class Message:
    """One kind of message. ``hazards`` are rule codes, the most frequent first; ``attempts`` is what to try.

    ``dependent``: the text alone says nothing about capture, only beside another message that does.
    ``vague``: any other text or error number on the line says more.
    """

    id: str
    title: str
    kind: Kind
    hazards: tuple[str, ...]
    cause: str
    attempts: tuple[str, ...]
    number: int | None = None
    dependent: bool = False
    vague: bool = False


@dataclass(frozen=True, slots=True)
class Messages:
    """All messages, and the search for them in a line of text. No line holds an ``implicit`` one."""

    stems: tuple[str, ...]
    entries: tuple[Message, ...]
    _texts: tuple[tuple[tuple[str, ...], Message], ...] = field(repr=False)
    _by_number: dict[int, Message] = field(repr=False)

    def named(self, identifier: str) -> Message:
        """Return the message with this id. Errors: ``KeyError``."""
        for message in self.entries:
            if message.id == identifier:
                return message
        raise KeyError(identifier)

    def find(self, line: str) -> Message | None:
        """Return the most specific message that the line holds, else the one of its error number."""
        folded = " ".join(line.lower().split())
        numbered = "90" in folded and any(word in folded for word in _RUNTIMES)
        if not numbered and not any(stem in folded for stem in self.stems):
            return None
        for parts, message in self._texts:
            if _holds(folded, parts):
                return message
        number = _NUMBER.search(folded) if numbered else None
        return self._by_number.get(int(number[1])) if number else None


def _holds(folded: str, parts: tuple[str, ...]) -> bool:
    """Whether the parts occur in this order; plain searches are several times faster than an expression."""
    position = 0
    for part in parts:
        found = folded.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return True


def load_messages(codes: frozenset[str], file: Path | None = None) -> Messages:
    """Read the messages; ``codes`` are the rules that ``hazards`` may name.

    Errors: ``ConfigurationError`` with the entry for data that does not validate, ``InputError`` for a
    file that cannot be read.
    """
    path = file or rules_folder() / "messages.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the messages: {error.strerror}", place=str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"not valid TOML: {error}", place=str(path)) from error
    stems = tuple(data.get("stems", ()))
    entries: list[Message] = []
    texts: list[tuple[int, tuple[str, ...], Message]] = []
    numbers: dict[int, Message] = {}
    for position, entry in enumerate(data.get("message", ())):
        message = _message(entry, f"{path.name}: message[{position}]", codes)
        if any(message.id == other.id for other in entries):
            raise ConfigurationError(f"{message.id!r} stands there twice", place=path.name)
        entries.append(message)
        if message.number is not None:
            numbers[message.number] = message
        for text in (*entry.get("names", ()), *entry.get("texts", ())):
            if not any(stem in text.lower() for stem in stems):
                raise ConfigurationError(f"no stem is part of {text!r}", place=f"{path.name}: {message.id}")
            parts = tuple(part for part in " ".join(text.lower().split()).split("*") if part)
            texts.append((_weight(message, text), parts, message))
    texts.sort(key=lambda entry: -entry[0])
    return Messages(stems, tuple(entries), tuple((parts, message) for _, parts, message in texts), numbers)


def _weight(message: Message, text: str) -> int:
    """What says more wins: a library's own words before the driver's, those before "it failed", then the longer."""
    rank = 0 if message.kind == "consequence" or message.vague else 1 if message.number is not None else 2
    return rank * 10_000 + len(text)


def _message(entry: dict[str, Any], place: str, codes: frozenset[str]) -> Message:
    for key, value in entry.items():
        if key not in _KEYS or not isinstance(value, _KEYS[key]):
            raise ConfigurationError(f"unknown key or wrong type; known: {', '.join(_KEYS)}", place=f"{place}: {key}")
    for key in ("id", "title", "kind", "cause", "try"):
        if not entry.get(key):
            raise ConfigurationError("a value is expected", place=f"{place}: {key}")
    if entry["kind"] not in _KINDS:
        raise ConfigurationError(f"one of {', '.join(_KINDS)} is expected", place=f"{place}: kind")
    unknown = [code for code in entry.get("hazards", ()) if code not in codes]
    if unknown:
        raise ConfigurationError(f"there is no rule {unknown[0]!r}", place=f"{place}: hazards")
    if not entry.get("texts") and not entry.get("names") and not entry.get("implicit"):
        raise ConfigurationError("a message needs a text or a name to be known by", place=f"{place}: texts")
    return Message(
        entry["id"],
        entry["title"],
        cast("Kind", entry["kind"]),
        tuple(entry.get("hazards", ())),
        entry["cause"],
        tuple(entry["try"]),
        entry.get("number"),
        entry.get("dependent", False),
        entry.get("vague", False),
    )
