"""A cache of validated tables, keyed by content: reading TOML costs more than the whole start-up may.

The cache is an optimisation only. It is never trusted beyond its checksum, and a folder that cannot
be read or written leaves the result unchanged.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

FORMAT = b"capaudit-knowledge/1"


def cache_folder() -> Path:
    """The user's cache folder of the product: ``CAPAUDIT_CACHE_DIR``, else below ``XDG_CACHE_HOME`` or the home."""
    chosen = os.environ.get("CAPAUDIT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~").expanduser() / ".cache") / "capaudit"


def content_key(parts: Iterable[tuple[str, bytes]]) -> str:
    """A key over names and contents, the cache format and the interpreter (marshal is not stable across versions)."""
    digest = hashlib.sha256(FORMAT + sys.version.encode())
    for name, content in parts:
        digest.update(f"\0{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def read(key: str, folder: Path | None = None) -> object | None:
    """Return the stored plain value, or ``None`` when there is none or its checksum does not match."""
    try:
        data = _file(key, folder).read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        return None
    checksum, payload = data[:32], data[32:]
    if hashlib.sha256(payload).digest() != checksum:
        return None
    try:
        value: object = marshal.loads(payload)
    except (ValueError, EOFError, TypeError):
        return None
    return value


def write(key: str, value: object, folder: Path | None = None) -> None:
    """Store a plain value (tuples, strings, numbers). A folder that cannot be written is not an error."""
    payload = marshal.dumps(value)  # type: ignore[arg-type]  # plain by contract
    try:
        target = _file(key, folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(hashlib.sha256(payload).digest() + payload)
            # A rename replaces the file in one step, so that a concurrent reader never sees half of it.
            os.replace(temporary, target)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
    except (OSError, RuntimeError):
        return


def _file(key: str, folder: Path | None) -> Path:
    return (folder or cache_folder()) / f"knowledge-{key[:32]}.bin"
