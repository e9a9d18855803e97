"""Names the line behind a divergence: what rebinds a carrier, and what only the host knows.

A replay goes wrong because something that Python did at capture time is not done again. Watching one
eager run line by line finds such things: names bound to other memory, host values that change, host
generators that advance, clocks and iterators that are read, branches taken while capturing only.
"""

from __future__ import annotations

import operator
import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from capaudit.probe.carriers import carrier_kind, children, find_carriers, is_leaf, render_path, walk
from capaudit.probe.locator_lines import LineWatcher
from capaudit.probe.locator_roots import RawFrame, SourceRoots, current_stack

MAXIMUM_CONTAINERS = 300
_CLOCKS = frozenset(
    {"time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "now"}
)
_CAPTURE_TESTS = frozenset({"_cuda_isCurrentStreamCapturing"})

# From what explains a divergence for certain to what often is harmless bookkeeping.
RANKS: dict[str, tuple[int, str]] = {
    "carrier-rebind-outside": (0, "CAP304"),
    "carrier-rebind": (1, "CAP304"),
    "capture-allocation": (2, "CAP301"),
    "capture-only-path": (3, "CAP501"),
    "capture-test": (4, "CAP501"),
    "host-generator": (5, "CAP502"),
    "host-clock": (6, "CAP501"),
    "host-iterator": (7, "CAP501"),
    "host-state": (8, "CAP501"),
    "varying-path": (9, "CAP501"),
}


@dataclass(frozen=True, slots=True)
class Suspect:
    """A line that may explain a divergence."""

    kind: str
    stack: tuple[RawFrame, ...]
    detail: str

    @property
    def rank(self) -> int:
        return RANKS[self.kind][0]

    @property
    def hazard(self) -> str:
        return RANKS[self.kind][1]


class BindingWatch(LineWatcher):
    """Compares, after every line of the user's, what the names below ``owner`` are bound to."""

    def __init__(self, owner: Any, roots: SourceRoots, device_kind: str) -> None:
        super().__init__()
        self.suspects: list[Suspect] = []
        self.outside = False
        self._roots = roots
        self._device_kind = device_kind
        self._containers: list[tuple[str, Any, dict[Any, Any]]] = []
        self._known: set[int] = set()
        self._new_outside: set[str] = set()
        self._generators: dict[str, Callable[[], Any]] = {"random": lambda: hash(random.getstate())}
        if "numpy" in sys.modules:
            import numpy as np

            self._generators["numpy.random"] = lambda: hash(str(np.random.get_state(legacy=False)))
        if "torch" in sys.modules:
            import torch

            self._generators["torch's CPU generator"] = lambda: hash(
                torch.default_generator.get_state().numpy().tobytes()
            )
        self._adopt("", owner)
        self._generator_states = {name: read() for name, read in self._generators.items()}

    def check(self, stack: list[list[Any]]) -> None:
        if self._roots.is_user(stack[-1][0].co_filename):
            self.look()

    def look(self) -> None:
        """Compare now, and blame the line on top of the stack for what changed."""
        for name, container, before in list(self._containers):
            after = _tokens(container, self._device_kind)
            if after.keys() != before.keys() or any(not _same_token(after[key], before[key]) for key in after):
                self._report(name, before, after)
                before.clear()
                before.update(after)
        for name, read in self._generators.items():
            state = read()
            if state != self._generator_states[name]:
                self._generator_states[name] = state
                self._suspect("host-generator", f"{name} advanced")

    def _report(self, name: str, before: dict[Any, Any], after: dict[Any, Any]) -> None:
        for key, token in after.items():
            old = before.get(key)
            if old is not None and _same_token(token, old):
                continue
            path = f"{name}.{key[1]}" if key[0] == "attribute" else f"{name}[{key[1]!r}]"
            path = path.lstrip(".")
            value = token[1]
            was = old[1] if old is not None else None
            if self._holds_carrier(value) or self._holds_carrier(was):
                fresh = not self._holds_carrier(was)
                if self.outside and fresh:
                    self._new_outside.add(path)
                if path in self._new_outside:
                    continue  # the step cannot have captured what did not exist before
                kind = "carrier-rebind-outside" if self.outside else "capture-allocation" if fresh else "carrier-rebind"
                self._suspect(kind, f"{path} is bound to other memory")
                self._adopt(path, value)
            elif token[0] == "state":
                self._suspect(
                    "host-generator" if "andom" in type(value).__name__ else "host-iterator", f"{path} advanced"
                )
            elif token[0] == "scalar" and not self.outside:
                self._suspect("host-state", f"{path} changed on the host")

    def _suspect(self, kind: str, detail: str) -> None:
        self.suspects.append(Suspect(kind, self.frames(), detail))

    def _holds_carrier(self, value: Any) -> bool:
        if isinstance(value, (int, float, str, bool, type(None))):
            return False
        return carrier_kind(value, self._device_kind) is not None or bool(find_carriers(value, self._device_kind))

    def _adopt(self, name: str, value: Any) -> None:
        for path, part in walk(value):
            if len(self._containers) >= MAXIMUM_CONTAINERS:
                return
            if id(part) in self._known or is_leaf(part):
                continue
            tokens = _tokens(part, self._device_kind)
            # An empty container may be filled later; a plain object without parts never is.
            if tokens or isinstance(part, (dict, list)):
                self._known.add(id(part))
                inner = render_path(path) if path else ""
                self._containers.append((f"{name}.{inner}".strip("."), part, tokens))


class HostReads:
    """Sees calls of clocks, iterators and tests for a capture, through ``sys.setprofile``."""

    def __init__(self, roots: SourceRoots) -> None:
        self.suspects: list[Suspect] = []
        self._roots = roots

    @contextmanager
    def active(self) -> Iterator[None]:
        """Watch the block; a profiler that is already there is put back."""
        before = sys.getprofile()
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _profile(self, frame: types.FrameType, event: str, argument: Any) -> None:
        if event != "c_call":
            return
        name = argument.__name__
        module = getattr(argument, "__module__", None)
        if argument is next:
            self._note("host-iterator", frame, "next()")
        elif name in _CLOCKS and (module == "time" or name == "now"):
            self._note("host-clock", frame, f"{module or 'datetime'}.{name}()")
        elif name in _CAPTURE_TESTS:
            self._note("capture-test", frame, "asks whether the stream is capturing")

    def _note(self, kind: str, frame: types.FrameType, detail: str) -> None:
        stack = current_stack(frame)
        # Library code reads clocks and iterators all the time; only what the user's own line asks counts.
        position = next((i for i, entry in enumerate(stack) if self._roots.is_user(entry[0])), None)
        if position is not None and position <= (0 if kind == "host-iterator" else 2):
            self.suspects.append(Suspect(kind, stack, detail))


def compare_paths(
    captured: list[tuple[str, int]], first: list[tuple[str, int]], second: list[tuple[str, int]], roots: SourceRoots
) -> list[Suspect]:
    """Find the branch after which the captured step, or a later eager step, ran other lines."""
    sequences = [[line for line in path if roots.is_user(line[0])] for path in (captured, first, second)]
    found = []
    branch = _last_common(sequences[1], sequences[2])
    if branch is not None:
        found.append(
            Suspect("varying-path", ((*branch, ""),), "the lines that run after this one differ between steps")
        )
    else:
        branch = _last_common(sequences[0], sequences[1])
        if branch is not None:
            found.append(
                Suspect("capture-only-path", ((*branch, ""),), "while capturing, other lines run after this one")
            )
    return found


def _last_common(one: list[tuple[str, int]], other: list[tuple[str, int]]) -> tuple[str, int] | None:
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return one[index - 1] if index else None
    if len(one) != len(other):
        shorter = min(one, other, key=len)
        return shorter[-1] if shorter else None
    return None


def _tokens(container: Any, device_kind: str) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for step, value in children(container):
        found[step] = _token(value, device_kind)
    return found


def _token(value: Any, device_kind: str) -> tuple[str, Any, Any]:
    """Return (kind, the object, what must stay equal). Keeping the object keeps its id from being reused."""
    if isinstance(value, (bool, int, float, str, bytes, type(None))):
        return "scalar", value, value
    if carrier_kind(value, device_kind) is not None:
        return "carrier", value, value.data_ptr() if hasattr(value, "data_ptr") else value.ptr
    if isinstance(value, random.Random):
        return "state", value, hash(value.getstate())
    if isinstance(value, types.GeneratorType):
        return "state", value, value.gi_frame.f_lasti if value.gi_frame is not None else None
    name = type(value).__name__
    if name.endswith("iterator"):
        return "state", value, operator.length_hint(value, -1)
    if name == "Generator" and hasattr(value, "bit_generator"):
        return "state", value, hash(str(value.bit_generator.state))
    return "object", value, None


def _same_token(one: tuple[str, Any, Any], other: tuple[str, Any, Any]) -> bool:
    if one[0] != other[0]:
        return False
    if one[0] == "scalar":
        # NaN equals itself here, and True is not 1.
        return type(one[1]) is type(other[1]) and (one[1] == other[1] or one[1] != one[1])
    return one[1] is other[1] and bool(one[2] == other[2])
