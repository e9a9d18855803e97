"""JSON from outside, read strictly: what two readers could understand differently is refused."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any, Final

from capaudit.model import InputError

MAX_BYTES: Final = 256 * 1024 * 1024
_MAX_DEPTH: Final = 64


def read_text(path: Path, what: str, remedy: str | None = None, *, follow_links: bool = True) -> str:
    """Return the text of a regular file in UTF-8. Raises InputError with the file.

    ``what`` names the kind of document in messages. Without ``follow_links`` a symbolic link is refused.
    """
    try:
        if not follow_links and path.is_symlink():
            raise InputError(
                f"the {what} is a symbolic link, which may change what it points to",
                place=str(path),
                remedy="name the file itself",
            )
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"the {what} is no regular file", place=str(path), remedy="name a file")
        if status.st_size > MAX_BYTES:
            raise InputError(f"the {what} has {status.st_size} bytes; {MAX_BYTES} are allowed", place=str(path))
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"the {what} cannot be read: {error.strerror or error}", place=str(path)) from None
    except ValueError as error:  # a NUL in the name
        raise InputError(f"the {what} cannot be read: {error}", place=repr(str(path))) from None
    return decode_text(data, str(path), remedy)


def decode_text(data: bytes, source: str, remedy: str | None = None) -> str:
    """Return the bytes as text. Raises InputError unless they are UTF-8 without a byte-order mark."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"the file is not JSON: it is not UTF-8 text (byte {error.start})"
        raise InputError(message, place=source, remedy=remedy) from None
    if text.startswith("\ufeff"):
        raise InputError("the file begins with a byte-order mark", place=source, remedy="save it as plain UTF-8")
    return text


def parse_json(text: str, source: str, remedy: str | None = None) -> Any:
    """Parse JSON. Raises InputError for broken or truncated text, duplicate keys, NaN, infinities and deep nesting."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        place = f"{source}:{error.lineno}:{error.colno}"
        cut = error.pos >= len(text.rstrip())
        # An unterminated string is reported where it begins.
        cut = cut or error.msg.startswith("Unterminated string")
        message = "the file is cut short" if cut else f"the file is not JSON: {error.msg}"
        raise InputError(message, place=place, remedy=remedy) from None
    except ValueError as error:
        detail = str(error)
        if "integer string conversion" in detail:
            detail = "it holds an integer of thousands of digits"
        raise InputError(f"the file is not JSON: {detail}", place=source, remedy=remedy) from None
    except RecursionError:
        raise _too_deep(source, remedy) from None
    if _depth_exceeds(value, _MAX_DEPTH):
        raise _too_deep(source, remedy)
    return value


def _too_deep(source: str, remedy: str | None) -> InputError:
    return InputError("the file is nested too deeply to be evidence", place=source, remedy=remedy)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:60]!r} stands twice in one object")
    return found


def _depth_exceeds(value: object, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            item
            for container in level
            if isinstance(container, (dict, list))
            for item in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return False
    return True
