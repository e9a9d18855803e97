"""Which source belongs to the user and which to a library, and how a stack becomes a place."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

from capaudit.evidence import StackFrame

RawFrame = tuple[str, int, str]
"""File name as Python knows it, line, function. Stacks of them run innermost first."""

MAXIMUM_STACK = 16
PROBE_FOLDER = Path(__file__).resolve().parent
_SITE = tuple({Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")})
_STANDARD = Path(sysconfig.get_path("stdlib")).resolve()
# Frames that stand between an operation and the code that called it, and explain nothing.
_PLUMBING = (
    str(PROBE_FOLDER),
    "<frozen",
    "<string>",
    "torch/utils/_python_dispatch.py",
    "torch/utils/_contextlib.py",
    "torch/_dynamo/eval_frame.py",
    "torch/_compile.py",
    "/warnings.py",
)
# The probe's own files whose lines are what is probed: the planted faults and the minimal pairs.
_SPECIMENS = ("selfproof_plants.py", "matrix_pairs.py", "matrix_tick.py")


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A file relative to a named root. ``user`` says whether the root is one of the target's own."""

    root: str
    file: str
    user: bool


class SourceRoots:
    """Turns file names into places relative to a named root, so that evidence names no local path."""

    def __init__(self, roots: Iterable[tuple[Path, str]]) -> None:
        self._roots = sorted(((path.resolve(), name) for path, name in roots), key=lambda item: -len(item[0].parts))
        self._known: dict[str, SourcePlace] = {}

    def locate(self, filename: str) -> SourcePlace:
        """Return the place of a file; what lies in no root belongs to the package that holds it."""
        place = self._known.get(filename)
        if place is None:
            place = self._known[filename] = self._find(filename)
        return place

    def is_user(self, filename: str) -> bool:
        """Whether the file lies in one of the target's own roots."""
        return self.locate(filename).user

    def frames(self, stack: Iterable[RawFrame]) -> tuple[StackFrame, ...]:
        """Return the stack in the form of the evidence, shortened to the innermost frames."""
        found = []
        for filename, line, function in stack:
            place = self.locate(filename)
            found.append(StackFrame(file=place.file, line=max(line, 0), function=function, root=place.root))
            if len(found) == MAXIMUM_STACK:
                break
        return tuple(found)

    def innermost_user(self, stack: Iterable[RawFrame]) -> RawFrame | None:
        """Return the innermost frame inside the target's roots."""
        return next((frame for frame in stack if self.is_user(frame[0])), None)

    def _find(self, filename: str) -> SourcePlace:
        path = Path(filename)
        if not path.is_absolute():
            return SourcePlace("python", filename.replace("\\", "/").lstrip("<").rstrip(">") or "unknown", False)
        resolved = path.resolve()
        for root, name in self._roots:
            if resolved.is_relative_to(root):
                return SourcePlace(name, resolved.relative_to(root).as_posix(), True)
        for site in _SITE:
            if resolved.is_relative_to(site):
                package, *rest = resolved.relative_to(site).parts
                return SourcePlace(package.removesuffix(".py"), "/".join(rest) or package, False)
        if resolved.is_relative_to(_STANDARD):
            return SourcePlace("python", resolved.relative_to(_STANDARD).as_posix(), False)
        # Packages put on the path by hand: the outermost folder that is a package names them.
        top = resolved.parent
        while (top.parent / "__init__.py").exists():
            top = top.parent
        return SourcePlace(top.name or "unknown", resolved.relative_to(top).as_posix(), False)


def is_plumbing(filename: str) -> bool:
    """Whether a frame is the probe's own or machinery that says nothing about the cause."""
    return any(part in filename for part in _PLUMBING) and not filename.endswith(_SPECIMENS)


def current_stack(frame: FrameType | None = None) -> tuple[RawFrame, ...]:
    """Return the running stack, innermost first, without the probe's own frames."""
    frame = frame or sys._getframe(1)
    found: list[RawFrame] = []
    walker: FrameType | None = frame
    while walker is not None:
        code: CodeType = walker.f_code
        if not is_plumbing(code.co_filename):
            found.append((code.co_filename, walker.f_lineno, code.co_qualname))
        walker = walker.f_back
    return tuple(found)


def stack_of_exception(error: BaseException) -> tuple[RawFrame, ...]:
    """Return where an exception was raised, innermost first."""
    found: list[RawFrame] = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_plumbing(code.co_filename):
            found.append((code.co_filename, traceback.tb_lineno, code.co_qualname))
        traceback = traceback.tb_next
    return tuple(reversed(found))
