"""Answer a command from the record of an earlier run when nothing that it looked at has changed.

The record holds what the run printed and wrote, byte for byte, its exit status, and a digest of every
input (see ``observation``). Its key covers what is no file: arguments, working directory, interpreter,
the program and its knowledge, the terminal, the day, and the part of the environment that reports read.
"""

from __future__ import annotations

import os
import sys
import time

from capaudit.cache import observation, stamps, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Record = tuple[int, list[tuple[int, str]], dict[str, bytes], dict[str, Any]]

KIND = "command"

_OPTIONS = frozenset(
    [
        *("--entry", "--capture", "--config", "--isolated", "--output", "--operations", "--strict", "--select"),
        *("--ignore", "--extend-select", "--exit-zero", "--verbose", "-v", "--no-color", "--severity"),
        *("--evidence", "--require-evidence", "--baseline", "--no-baseline", "--jobs"),
    ]
)
REPEATABLE = {"check": _OPTIONS, "inventory": _OPTIONS, "boundaries": _OPTIONS}
"""Options whose effect depends on nothing but the key and observed files. Any other option means a full run."""

_ENVIRONMENT = (
    *("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "CI"),
    *("TERM_PROGRAM", "TERM_PROGRAM_VERSION", "VTE_VERSION", "WT_SESSION", "KONSOLE_VERSION", "DOMTERM", "LANG"),
    *("FORCE_HYPERLINK", "TMUX", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID"),
    *("PYTHONIOENCODING", "PYTHONUTF8", "PYTHONWARNINGS", "SOURCE_DATE_EPOCH", "HOME"),
)
_PREFIXES = ("CAPAUDIT_", "LC_", "GITHUB_", "GITLAB_", "CI_")
_VOLATILE = ("GITHUB_RUN", "CI_JOB", "CI_PIPELINE")


def is_repeatable(arguments: list[str]) -> bool:
    """Return whether a command line names only options that a record may stand for."""
    if not arguments or arguments[0] not in REPEATABLE:
        return False
    known = REPEATABLE[arguments[0]]
    return all(not word.startswith("-") or word.partition("=")[0] in known for word in arguments[1:])


class Repetition:
    """One command line in its surroundings: looks for a record, and makes one."""

    def __init__(self, arguments: list[str]) -> None:
        self.package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        self.program = stamps.program_folders(self.package)
        links = [os.path.realpath(word) for word in arguments[1:] if not word.startswith("-")]
        parts = [
            *arguments,
            "",
            os.getcwd(),
            *links,
            "",
            time.strftime("%Y-%m-%d"),
            *stamps.program_state(self.package),
        ]
        self.key = store.content_key((text, b"") for text in [*parts, "", *_surroundings()])

    def replay(self) -> int | None:
        """Print and write what the recorded run did and return its status; ``None`` where none stands for this one."""
        record: Record | None = store.read(KIND, self.key)  # type: ignore[assignment]  # the key fixes the form
        if record is None:
            return None
        status, printed, files, inputs = record
        moved = _changed(inputs)
        if moved is None:
            return None
        try:
            for path, data in files.items():
                _write(path, data)
        except OSError:
            return None  # a full run says what is wrong with the place
        if moved:  # unchanged content under new times: remember the times, so that it need not be read again
            store.write(KIND, self.key, record)
        for number, text in printed:
            stream_of = sys.stderr if number == 2 else sys.stdout
            stream_of.write(text)
            stream_of.flush()
        return status

    def record(self, run: Callable[[], int]) -> int:
        """Run the command; keep what it did where that can stand for the next run."""
        streams = {1: sys.stdout, 2: sys.stderr}
        # Other encodings make click wrap a stream, and what is written there could not be heard.
        if sys.stdout is sys.stderr or not all(_is_plain(stream) for stream in streams.values()):
            return run()
        private = (store.folder(), *self.program)
        heard: list[tuple[int, str]] = []
        with _Listening(streams, heard):
            status, seen = observation.observed(private, run)
        if status not in (0, 1) or seen.spoilt:
            return status
        files = {}
        for path in seen.written:
            if not os.path.isfile(path):  # a link to a device or a pipe
                return status
            try:
                with open(path, "rb") as stream:
                    files[path] = stream.read()
            except OSError:
                return status
        inputs = _inputs(seen)
        if _changed(inputs) is not None:  # nothing was edited while the run read it
            store.write(KIND, self.key, (status, heard, files, inputs))
        return status


def _write(path: str, data: bytes) -> None:
    """Replace a file in one step; its permissions stay."""
    temporary = f"{path}.{os.getpid():x}.tmp"
    mode = os.stat(path).st_mode & 0o7777 if os.path.exists(path) else None
    if mode is not None and not os.path.isfile(path):  # a device, a pipe
        temporary = path
    try:
        with open(temporary, "wb") as stream:
            stream.write(data)
        if temporary != path:
            if mode is not None:
                os.chmod(temporary, mode)
            os.replace(temporary, path)
    except BaseException:
        if temporary != path and os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _is_plain(stream: Any) -> bool:
    return stream is not None and (stream.encoding or "").lower() in ("utf-8", "utf8") and hasattr(stream, "__dict__")


def _surroundings() -> list[str]:
    """What a report may look at beside its inputs: the terminal and the environment."""
    found = []
    for stream in (sys.stdout, sys.stderr):
        terminal = stream is not None and stream.isatty()
        size = os.get_terminal_size(stream.fileno()) if terminal else ""
        found.append(f"{terminal} {size} {getattr(stream, 'encoding', None)}")  # a closed stream has none
    for name, value in sorted(os.environ.items()):
        if name in _ENVIRONMENT or (name.startswith(_PREFIXES) and not name.startswith(_VOLATILE)):
            found.append(f"{name}={value}")
    return found


def _inputs(seen: observation.Observation) -> dict[str, Any]:
    written = _written_names(seen.written)
    folders = {}
    for path, state in seen.folders.items():
        if state is None:
            folders[path] = (stamps.UNREADABLE, stamps.NO_STAMP)
        else:
            folders[path] = (stamps.listing_digest(state[0], written.get(path, frozenset())), state[1])
    kinds = {
        path: kind
        for path, kind in seen.kinds.items()
        if path not in seen.files and path not in folders and path not in seen.written
    }
    tops = {path: os.path.realpath(path) for path in folders if os.path.dirname(path) not in folders}
    return {"files": seen.files, "folders": folders, "kinds": kinds, "tops": tops, "written": list(seen.written)}


def _written_names(paths: Any) -> dict[str, frozenset[str]]:
    """Names of the run's own reports by folder: that they are there now is no change of an input."""
    names: dict[str, set[str]] = {}
    for path in paths:
        names.setdefault(os.path.dirname(path), set()).add(os.path.basename(path))
    return {folder: frozenset(found) for folder, found in names.items()}


def _changed(inputs: dict[str, Any]) -> bool | None:
    """Compare the inputs with what is there now: ``None`` where one differs, else whether a stamp was renewed."""
    renewed = False
    for path, kind in inputs["kinds"].items():
        if stamps.kind_of(path) != kind:
            return None
    for path, real in inputs["tops"].items():  # a root that is a link may lead elsewhere by now
        if os.path.realpath(path) != real:
            return None
    written = _written_names(inputs["written"])
    for path, (digest, stamp) in inputs["folders"].items():
        if stamps.is_unmoved(path, stamp):
            continue
        state = stamps.folder_state(path)
        now = stamps.UNREADABLE if state is None else stamps.listing_digest(state[0], written.get(path, frozenset()))
        if now != digest:
            return None
        if state is not None and state[1]:
            inputs["folders"][path] = (digest, state[1])
            renewed = True
    for path, (digest, stamp) in inputs["files"].items():
        if stamps.is_unmoved(path, stamp):
            continue
        state_now = stamps.file_state(path)
        if state_now is None or state_now[0] != digest:
            return None
        if state_now[1]:
            inputs["files"][path] = state_now
            renewed = True
    return renewed


class _Listening:
    """Hears what is written to streams, in order, and lets it pass."""

    def __init__(self, streams: dict[int, Any], heard: list[tuple[int, str]]) -> None:
        self.streams = streams
        self.heard = heard

    def __enter__(self) -> None:
        for number, stream in self.streams.items():
            stream.write = self._ear(number, stream.write)

    def _ear(self, number: int, write: Callable[[str], int]) -> Callable[[str], int]:
        def hear(text: str) -> int:
            done = write(text)
            if text:
                self.heard.append((number, text))
            return done

        return hear

    def __exit__(self, *_: object) -> None:
        for stream in self.streams.values():
            del stream.write
