"""Reading a log of any size: lines of bounded length, in whatever encoding, without what steers a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from capaudit.model import InputError

_LONGEST: Final = 4096
"""Characters of a line that are looked at; a message of a library is shorter."""

_CHUNK: Final = 1 << 16
_CONTROLS: Final = bytes([*range(7), *range(14, 27), *range(28, 32)])
"""Bytes that no text holds; a bell, a backspace, a form feed and an escape may come from a terminal."""

_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_MARKS: Final = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log; ``number`` counts from 1 as an editor does."""

    number: int
    text: str


@contextmanager
def open_log(file: str) -> Iterator[Iterator[Line]]:
    """Yield the lines of a file, or of stdin for ``-``.

    Errors: ``InputError`` for a file that cannot be read, is empty, or is no text.
    """
    if file == "-":
        if sys.stdin is None:  # the caller has closed it
            raise InputError("stdin is closed", place="-", remedy="name a log file")
        yield read_lines(sys.stdin.buffer, "stdin")
        return
    try:
        path = Path(file)
        if path.is_dir():
            raise InputError("it is a folder", place=file, remedy="name a log file")
        stream = path.open("rb")
    except FileNotFoundError as error:
        raise InputError(
            "there is no such file", place=file[:200], remedy="check the path, or pipe the log in"
        ) from error
    except (OSError, ValueError) as error:
        detail = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"the log cannot be read: {detail}", place=file[:200]) from error
    with stream:
        yield read_lines(stream, file)


def read_lines(stream: IO[bytes], name: str) -> Iterator[Line]:
    """Yield the lines of a byte stream; memory stays bounded whatever the stream holds.

    A carriage return inside a line starts the line anew on a terminal, so each part counts as text of
    that line. Errors: ``InputError`` when there is nothing, or no text, at the start of the stream.
    """
    head = _read(stream, name)
    if not head:
        raise InputError("the log is empty", place=name, remedy="give the output of the run, stderr included")
    encoding, skip = _encoding(head, name)
    for number, raw in enumerate(_split(stream, head[skip:], "\n".encode(encoding), name), 1):
        text = _ANSI.sub("", raw.decode(encoding, errors="replace"))
        for part in text.rstrip("\r").split("\r"):
            yield Line(number, part.replace("\0", "")[:_LONGEST])


def _read(stream: IO[bytes], name: str) -> bytes:
    try:
        return stream.read(_CHUNK)
    except OSError as error:
        raise InputError(f"the log cannot be read: {error.strerror}", place=name) from error


def _encoding(head: bytes, name: str) -> tuple[str, int]:
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding, len(mark)
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls == 0:
        return "utf-8", 0
    zeros = head.count(0)
    # Without a mark: text in UTF-16 has its zeros in every second byte.
    if head[1::2].count(0) > 0.9 * zeros and zeros > 0.3 * len(head):
        return "utf-16-le", 0
    if head[0::2].count(0) > 0.9 * zeros and zeros > 0.3 * len(head):
        return "utf-16-be", 0
    if controls > max(len(head) // 50, 3):
        raise InputError(
            "it is no text, so there is nothing to recognise in it",
            place=name,
            remedy="unpack it, or give another file",
        )
    return "utf-8", 0


def _split(stream: IO[bytes], head: bytes, newline: bytes, name: str) -> Iterator[bytes]:
    width = len(newline)
    rest, dropping = b"", False
    chunk = head
    while chunk:
        data = rest + chunk
        start = 0
        while (end := data.find(newline, start)) >= 0:
            if (end - start) % width:  # half of one character and half of the next
                start, end = start, data.find(newline, end + 1)
                if end < 0:
                    break
            if not dropping:
                yield data[start:end]
            dropping = False
            start = end + width
        rest = data[start:]
        if len(rest) > 4 * _CHUNK:  # no line break in sight: keep the beginning, which holds the message
            if not dropping:
                yield rest[: 4 * _LONGEST]
            rest, dropping = b"", True
        chunk = _read(stream, name)
    if rest and not dropping:
        yield rest
