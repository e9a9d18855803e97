"""Whether a file or folder is what it was: by content, with its times only as a safe short-cut.

A stamp (size, times, identity) that has not moved means unchanged content only if the stamp was taken
well after the last change: within the resolution of the file system's clock a second edit may leave
every time as it was. Git calls such entries racily clean; here they have no stamp and are read again.
The time of the inode's change is part of the stamp, because that of the content can be set at will.
"""

from __future__ import annotations

import os
import stat
import time

from capaudit.cache.store import blake2b

Stamp = tuple[int, ...]
NO_STAMP: Stamp = ()
UNREADABLE = b""
_COARSEST = 2_500_000_000
"""Nanoseconds; FAT keeps times to two seconds."""

_PRODUCTS = frozenset({"__pycache__", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"})
"""Folders that come and go beside sources and that no audit reads."""


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp, or ``NO_STAMP`` while the file is too young for one."""
    youngest = max(status.st_mtime_ns, status.st_ctime_ns)
    if youngest > time.time_ns() - _COARSEST:
        return NO_STAMP
    return _raw(status)


def _raw(status: os.stat_result) -> Stamp:
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


def digest(data: bytes) -> bytes:
    """Return a digest of a file's content."""
    return blake2b(data, digest_size=16).digest()


def file_state(path: str) -> tuple[bytes, Stamp] | None:
    """Return digest and stamp of a file, ``UNREADABLE`` for one that cannot be read, ``None`` for a pipe or device."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return None if not stat.S_ISDIR(status.st_mode) else (UNREADABLE, NO_STAMP)
        with open(path, "rb") as stream:
            data = stream.read()
            after = os.fstat(stream.fileno())
    except OSError:
        return UNREADABLE, NO_STAMP
    return digest(data), stamp_of(after) if _raw(after) == _raw(status) else NO_STAMP


def folder_state(path: str) -> tuple[list[str], Stamp] | None:
    """Return the entries of a folder, each with a letter for its kind, and the folder's stamp; ``None`` without one."""
    try:
        stamp = stamp_of(os.stat(path))  # before the listing: what comes after it moves the times
        with os.scandir(path) as entries:
            names = [_entry(entry) for entry in entries if entry.name not in _PRODUCTS]
    except OSError:
        return None
    return sorted(names), stamp


def _entry(entry: os.DirEntry[str]) -> str:
    try:
        if entry.is_symlink():
            return f"{entry.name}\0l{os.path.realpath(entry.path)}"
        return f"{entry.name}\0{'d' if entry.is_dir() else 'f'}"
    except OSError:
        return f"{entry.name}\0?"


def listing_digest(names: list[str], left_out: frozenset[str]) -> bytes:
    """Return a digest of a folder's entries without the names in ``left_out``."""
    kept = [name for name in names if name.partition("\0")[0] not in left_out]
    return blake2b("\1".join(kept).encode(errors="surrogateescape"), digest_size=16).digest()


def kind_of(path: str) -> str:
    """Return ``absent``, ``file``, ``folder`` or ``other``, links followed."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return "absent"
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def is_unmoved(path: str, stamp: Stamp) -> bool:
    """Return whether the stamp vouches for the path."""
    if not stamp:
        return False
    try:
        return _raw(os.stat(path)) == stamp
    except OSError:
        return False


def program_folders(package: str) -> tuple[str, ...]:
    """Return the folders that hold this program and its knowledge, from the one that holds its package."""
    beside = os.path.join(os.path.dirname(package), "rules")
    return (package,) if os.path.isdir(os.path.join(package, "rules")) else (package, beside)


def program_state(package: str) -> list[str]:
    """Return what tells one version of this program and its knowledge from another."""
    state = []
    pending = list(program_folders(package))
    while pending:
        folder = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith((".py", ".md", ".toml", ".json", ".html")):
                    status = entry.stat()
                    state.append(f"{entry.path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}")
                elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
    return sorted(state)
