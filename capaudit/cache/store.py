"""Plain values in files, one per key, in the user's cache folder.

Values are marshalled (unlike pickle, reading them runs no code) behind a checksum. Writers rename a
finished file into place, so any number of runs may share a folder; what cannot be read is simply not
there, and what cannot be written is simply not kept.
"""

from __future__ import annotations

import marshal
import os
import sys
import time

try:
    from _blake2 import blake2b  # hashlib would load OpenSSL, which takes longer than a whole warm run
except ImportError:  # another implementation of Python
    from hashlib import blake2b

__all__ = ["DEFAULT_SIZE", "FORMAT", "Disabled", "blake2b", "clean", "content_key", "evict", "folder", "read", "write"]

TYPE_CHECKING = False  # spares the fast path the import of typing
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    StrPath = str | os.PathLike[str]

FORMAT = b"capaudit-cache/1"
DEFAULT_SIZE = 256  # MiB
_MOST_FILES = 4000
_DIGEST = 32
_SUFFIX = ".bin"
_TEMPORARY = ".tmp"
_ABANDONED = 3600.0
"""A temporary file of this age, in seconds, belongs to a process that died while writing."""

_disabled = False


class Disabled:
    """Neither read nor write anything meanwhile."""

    def __enter__(self) -> None:
        global _disabled
        self.before, _disabled = _disabled, True

    def __exit__(self, *_: object) -> None:
        global _disabled
        _disabled = self.before


def is_enabled() -> bool:
    """Return whether anything is read or written at all."""
    return not _disabled


def folder() -> str:
    """The user's cache folder of the product.

    ``CAPAUDIT_CACHE_DIR``, else ``capaudit`` in the platform's folder for caches: ``XDG_CACHE_HOME`` or
    ``~/.cache``, ``~/Library/Caches`` on macOS, ``%LOCALAPPDATA%`` on Windows.
    """
    chosen = os.environ.get("CAPAUDIT_CACHE_DIR")
    if chosen:
        return os.path.abspath(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    if not base and sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    elif not base and sys.platform == "darwin":
        base = os.path.join(os.path.expanduser("~"), "Library", "Caches")
    return os.path.join(base or os.path.join(os.path.expanduser("~"), ".cache"), "capaudit")


def size_limit() -> int:
    """The most bytes that the folder may hold: ``CAPAUDIT_CACHE_SIZE`` in MiB, else 256 MiB."""
    text = os.environ.get("CAPAUDIT_CACHE_SIZE", "")
    return (int(text) if text.isdecimal() else DEFAULT_SIZE) << 20


def content_key(parts: Iterable[tuple[str, bytes]]) -> str:
    """A key over names and contents, the cache format and the interpreter (marshal is not stable across versions)."""
    digest = blake2b(FORMAT + sys.version.encode(), digest_size=_DIGEST)
    for name, content in parts:
        digest.update(f"\0{name}\0{len(content)}\0".encode(errors="surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


def read(kind: str, key: str, where: StrPath | None = None) -> object | None:
    """Return the stored plain value, or ``None`` when there is none or its checksum does not match."""
    if _disabled:
        return None
    path = _path(kind, key, where)
    try:
        with open(path, "rb") as stream:
            data = stream.read()
            # Eviction drops what was not used for longest; a time that is hours old is brought up to date.
            if time.time() - os.fstat(stream.fileno()).st_mtime > _ABANDONED:
                os.utime(path)
    except OSError:
        return None
    payload = data[_DIGEST:]
    if blake2b(payload, digest_size=_DIGEST).digest() != data[:_DIGEST]:
        return None
    try:
        value: object = marshal.loads(payload)
    except (ValueError, EOFError, TypeError):
        return None
    return value


def write(kind: str, key: str, value: object, where: StrPath | None = None) -> None:
    """Store a plain value (tuples, dictionaries, strings, numbers). A folder without write access is no error."""
    if _disabled:
        return
    payload = marshal.dumps(value)  # type: ignore[arg-type]  # plain by contract
    if len(payload) > size_limit() // 4:
        return
    path = _path(kind, key, where)
    temporary = f"{path}.{os.getpid():x}-{time.monotonic_ns():x}{_TEMPORARY}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "xb") as stream:
            stream.write(blake2b(payload, digest_size=_DIGEST).digest() + payload)
        os.replace(temporary, path)
    except OSError:
        _remove(temporary)
        return
    evict(where)


def evict(where: StrPath | None = None) -> None:
    """Remove what was used longest ago until the folder is within its limit, and what dead writers left."""
    entries = list(stored(where))
    now = time.time()
    for path, _, used in entries:
        if path.endswith(_TEMPORARY) and now - used > _ABANDONED:
            _remove(path)
    finished = sorted((entry for entry in entries if entry[0].endswith(_SUFFIX)), key=lambda entry: entry[2])
    total, limit = sum(size for _, size, _ in finished), size_limit()
    if total <= limit and len(finished) <= _MOST_FILES:
        return
    count = len(finished)
    for path, size, _ in finished:
        if total <= limit * 0.8 and count <= _MOST_FILES * 0.8:
            return
        _remove(path)
        total, count = total - size, count - 1


def stored(where: StrPath | None = None) -> Iterator[tuple[str, int, float]]:
    """Yield path, bytes and last use (seconds since 1970) of every file that this module wrote."""
    try:
        with os.scandir(where or folder()) as entries:
            for entry in entries:
                if not entry.name.endswith((_SUFFIX, _TEMPORARY)) or "-" not in entry.name:
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # another run has just removed it
                yield entry.path, status.st_size, status.st_mtime
    except OSError:
        return


def clean(where: StrPath | None = None) -> tuple[int, int]:
    """Remove every stored file and return how many files and bytes went."""
    files = size = 0
    for path, length, _ in list(stored(where)):
        if _remove(path):
            files, size = files + 1, size + length
    return files, size


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _path(kind: str, key: str, where: StrPath | None) -> str:
    return os.path.join(where or folder(), f"{kind}-{key[:40]}{_SUFFIX}")
