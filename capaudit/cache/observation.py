"""What a run looked at, watched from below: files it opened, folders it listed, names it asked for.

Python's audit events (PEP 578) report every file that is opened and every folder that is listed,
whatever code does it, so no part of the program can forget to declare an input. ``os.stat`` reports
nothing and is watched by standing in for it while a run is observed. What cannot be repeated from a
record (another process, a connection, a file changed in place) is noticed and spoils the record.
"""

from __future__ import annotations

import os
import sys

from capaudit.cache import stamps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SPOILING = frozenset(
    [
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"),
        *("os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chdir"),
        *("socket.connect", "socket.bind"),
    ]
)
_WATCHED = frozenset(["open", "os.scandir", "os.listdir", "os.remove", "os.rename"])
_PROGRAMS = (".py", ".pyi", ".toml", ".ipynb")
_CHANGING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Observation:
    """What one run read and wrote. ``private`` are folders that never count: the cache and the program itself."""

    def __init__(self, private: tuple[str, ...]) -> None:
        self.files: dict[str, tuple[bytes, stamps.Stamp]] = {}
        self.folders: dict[str, tuple[list[str], stamps.Stamp] | None] = {}
        self.kinds: dict[str, str] = {}
        self.written: dict[str, None] = {}
        self._temporary: dict[str, None] = {}  # made by the run, and expected to be renamed or removed by it
        self.spoilt = ""  # why the run cannot be repeated from a record
        self._private = tuple(os.path.join(folder, "") for folder in private)
        self._asleep = False

    def pause(self) -> None:
        self._asleep = True

    def go_on(self) -> None:
        self._asleep = False

    def add(self, other: Observation) -> None:
        """Add what another process saw that began as a copy of this one."""
        for path, state in other.files.items():
            if self.files.setdefault(path, state) != state:
                self.spoilt = self.spoilt or f"{path} changed meanwhile"
        for folder, listing in other.folders.items():
            self.folders.setdefault(folder, listing)
        for path, kind in other.kinds.items():
            self.kinds.setdefault(path, kind)
        self.written.update(other.written)
        self._temporary.update(other._temporary)
        self.spoilt = self.spoilt or other.spoilt

    def event(self, name: str, arguments: tuple[Any, ...]) -> None:
        if self._asleep:
            return
        self._asleep = True  # what is read in here to describe an input is no input
        try:
            self._event(name, arguments)
        except Exception as error:  # an audit hook that raises would break the run that it watches
            self.spoilt = self.spoilt or repr(error)
        finally:
            self._asleep = False

    def _event(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name in _SPOILING:
            if not (arguments and name.startswith("os.") and self._is_private(_absolute(arguments[0]))):
                self.spoilt = self.spoilt or name
            return
        path = _absolute(arguments[0] if arguments[0] is not None else ".")
        if path is None:
            if name != "open":
                self.spoilt = self.spoilt or f"{name} of a descriptor"
            return
        if self._is_private(path):
            return
        if name == "open":
            self._opened(path, arguments[1], arguments[2])
        elif name in ("os.remove", "os.rename"):
            target = _absolute(arguments[1]) if name == "os.rename" else None
            if path not in self._temporary:
                self.spoilt = self.spoilt or f"{name} {path}"
            elif target is not None:
                self.written[target] = None
            self._temporary.pop(path, None)
        elif path not in self.folders and (name == "os.scandir" or path not in sys.path_importer_cache):
            self.folders[path] = stamps.folder_state(path)  # not where imports look: what they find is the program

    def _opened(self, path: str, mode: object, flags: int) -> None:
        changing = mode in ("w", "wt", "wb") or flags & _CHANGING_FLAGS
        if path.startswith(("/dev/", "/proc/", "/sys/")):
            if changing and path != os.devnull:
                self.spoilt = self.spoilt or f"{path} is written to"  # it may lead to a stream or a pipe
            return
        if path.endswith(".pyc"):
            return
        if mode in ("w", "wt", "wb"):
            self.written[path] = None
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            self._temporary[path] = None
        elif flags & _CHANGING_FLAGS:
            self.spoilt = self.spoilt or f"{path} is changed in place"
        elif path not in self.files:
            state = stamps.file_state(path)
            if state is None:
                self.spoilt = self.spoilt or f"{path} is no regular file"
            else:
                self.files[path] = state

    def finish(self) -> None:
        """Judge what the run left behind."""
        if self._temporary:
            self.spoilt = self.spoilt or f"{next(iter(self._temporary))} is left behind"
        for path in self.written:
            if path in self.files or path.endswith(_PROGRAMS):
                self.spoilt = self.spoilt or f"{path} is input and output"

    def asked(self, path: object) -> None:
        """Note that the kind of a path was asked for."""
        if self._asleep:
            return
        self._asleep = True
        try:
            name = _absolute(path)
            if name is not None and name not in self.kinds and not self._is_private(name):
                self.kinds[name] = stamps.kind_of(name)
        finally:
            self._asleep = False

    def _is_private(self, path: str | None) -> bool:
        return path is not None and os.path.join(path, "").startswith(self._private)


def _absolute(path: object) -> str | None:
    """Return the absolute path, ``None`` for a file descriptor. ``..`` stays: behind a link it leads elsewhere."""
    if isinstance(path, int):
        return None
    name = os.fsdecode(path)  # type: ignore[arg-type]  # events carry what the caller passed
    return name if os.path.isabs(name) else os.path.join(os.getcwd(), name)


_current: Observation | None = None
_installed = False
_real_stat = os.stat


def _hook(name: str, arguments: tuple[Any, ...]) -> None:
    if _current is not None and (name in _WATCHED or name in _SPOILING):
        _current.event(name, arguments)


def _watched_stat(path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
    if _current is not None and dir_fd is None and follow_symlinks:
        _current.asked(path)
    return _real_stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)


class Forking:
    """A fork of this process that tells what it looked at; see ``seen``."""

    def __enter__(self) -> None:
        self._current = _current
        if self._current is not None:
            self._current.pause()

    def __exit__(self, *_: object) -> None:
        if self._current is not None:
            self._current.go_on()


def seen() -> Observation | None:
    """Return what this process has looked at so far, where that is observed."""
    return _current


def also_seen(other: Observation | None) -> None:
    """Add what a fork of this process looked at."""
    if _current is not None and other is not None:
        _current.add(other)


def observed(private: tuple[str, ...], run: Callable[[], int]) -> tuple[int, Observation]:
    """Run a function and return its result with what it looked at. One run at a time is observed."""
    global _current, _installed
    if not _installed:
        sys.addaudithook(_hook)  # cannot be taken away again, and does nothing while there is no observation
        _installed = True
    observation = Observation(private)
    before, _current = _current, observation
    os.stat = _watched_stat
    try:
        result = run()
    finally:
        _current = before
        os.stat = _real_stat
    observation.finish()
    return result, observation
