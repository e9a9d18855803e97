"""The locator against a stand-in for CUDA: what matters is which line a change is blamed on."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from capaudit.probe import locator_lines
from capaudit.probe.locator import ACTIVE, INVALIDATED, LineLocator, locate_exception
from capaudit.probe.locator_roots import SourceRoots, current_stack

HERE = Path(__file__).resolve()
ROOTS = SourceRoots([(HERE.parent, "tests")])


class FakeCapture:
    """Plays a capturing stream: ``record`` adds a node, ``spoil`` invalidates the capture.

    Both are built-in functions, which leave no Python frame behind, as CUDA's calls leave none.
    """

    def __init__(self) -> None:
        self._told: list[str] = []
        self._status = ACTIVE
        self.elsewhere = False
        self.record = self._told.append
        self.spoil = functools.partial(self._told.append, "spoil")

    def poll(self) -> tuple[int, Mapping[str, int]]:
        growth = Counter(kind for kind in self._told if kind != "spoil")
        if "spoil" in self._told:
            self._status = INVALIDATED
        self._told.clear()
        return self._status, growth

    def works_elsewhere(self) -> bool:
        return self.elsewhere


def line_of(text: str) -> int:
    lines = HERE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().endswith(f"# {text}"))


def run(step: Callable[[FakeCapture], None]) -> LineLocator:
    capture = FakeCapture()
    locator = LineLocator(capture, ROOTS)
    with locator:
        step(capture)
    return locator


def innocent(capture: FakeCapture) -> None:
    capture.record("kernel")  # innocent kernel


def guilty(capture: FakeCapture) -> None:
    innocent(capture)
    capture.spoil()  # guilty line
    innocent(capture)


def test_the_first_line_after_which_the_capture_is_invalid_is_named() -> None:
    locator = run(guilty)
    assert locator.fault is not None
    assert locator.fault.place == (str(HERE), line_of("guilty line"), "guilty")


def last_line_of_a_callee(capture: FakeCapture) -> None:
    guilty_at_the_end(capture)
    innocent(capture)


def guilty_at_the_end(capture: FakeCapture) -> None:
    innocent(capture)
    capture.spoil()  # last line of the callee


def test_a_fault_in_the_last_line_of_a_callee_is_not_blamed_on_the_caller() -> None:
    locator = run(last_line_of_a_callee)
    assert locator.fault is not None
    assert locator.fault.place is not None
    assert locator.fault.place[1] == line_of("last line of the callee")
    assert [frame[2] for frame in locator.fault.stack][:2] == ["guilty_at_the_end", "last_line_of_a_callee"]


def spoils_before_calling(capture: FakeCapture) -> None:
    innocent([capture.spoil(), capture][1])  # spoils, then calls


def test_a_fault_in_an_argument_is_blamed_on_the_calling_line() -> None:
    locator = run(spoils_before_calling)
    assert locator.fault is not None
    assert locator.fault.place is not None
    assert locator.fault.place[1] == line_of("spoils, then calls")


def raises_after_spoiling(capture: FakeCapture) -> None:
    innocent(capture)
    int(str(capture.spoil()))  # spoils and raises


def test_a_line_that_spoils_and_raises_is_named_although_no_line_follows() -> None:
    capture = FakeCapture()
    locator = LineLocator(capture, ROOTS)
    with pytest.raises(ValueError, match="invalid literal"), locator:
        raises_after_spoiling(capture)
    assert locator.fault is not None
    assert locator.fault.place is not None
    assert locator.fault.place[1] == line_of("spoils and raises")


def generates(capture: FakeCapture) -> None:
    for _ in _numbers(capture):
        capture.record("memcpy")  # body of the loop


def _numbers(capture: FakeCapture):  # type: ignore[no-untyped-def]
    for number in range(3):
        capture.record("memset")  # inside the generator
        yield number


def test_nodes_are_counted_per_line_and_type_through_generators() -> None:
    locator = run(generates)
    by_place = locator.by_place()
    assert by_place[(str(HERE), line_of("body of the loop"))] == Counter(memcpy=3)
    assert by_place[(str(HERE), line_of("inside the generator"))] == Counter(memset=3)
    assert locator.nodes() == Counter(memcpy=3, memset=3)
    assert locator.events > 0


def test_a_library_frame_is_the_cause_and_the_users_frame_the_place() -> None:
    import json

    capture = FakeCapture()

    class Spoiler(dict):  # type: ignore[type-arg]
        def items(self):  # type: ignore[no-untyped-def]
            capture.spoil()
            return super().items()

    def step() -> None:
        json.dumps(Spoiler(a=1), indent=1)  # through the library

    locator = LineLocator(capture, SourceRoots([(HERE.parent, "tests")]))
    with locator:
        step()
    assert locator.fault is not None
    assert locator.fault.place is not None
    frames = ROOTS.frames(locator.fault.stack)
    assert frames[0].function.endswith("items")
    assert any(frame.root == "python" and frame.file == "json/encoder.py" for frame in frames)


def test_tracing_gives_way_to_a_tracer_that_was_there() -> None:
    if hasattr(sys, "monitoring"):
        pytest.skip("sys.monitoring does not touch the tracer")
    seen = []

    def tracer(frame, event, argument):  # type: ignore[no-untyped-def]
        seen.append(event)

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        run(innocent)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_the_first_error_of_the_chain_is_the_one_that_is_located() -> None:
    def step() -> None:
        try:
            raise RuntimeError("operation not permitted when stream is capturing")  # the first error
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    with pytest.raises(RuntimeError) as caught:
        step()
    first, located = locate_exception(caught.value, ROOTS)
    assert "not permitted" in str(first)
    assert located.place is not None
    assert located.place[1] == line_of("the first error")


def test_files_are_named_by_root_and_never_by_local_path() -> None:
    import json

    place = ROOTS.locate(str(HERE))
    assert (place.root, place.file, place.user) == ("tests", "test_locator.py", True)
    standard = ROOTS.locate(json.__file__)
    assert (standard.root, standard.file, standard.user) == ("python", "json/__init__.py", False)
    package = ROOTS.locate(pytest.__file__)
    assert (package.root, package.file) == ("pytest", "__init__.py")
    assert ROOTS.locate("<string>").root == "python"


def test_the_probes_own_frames_are_left_out_of_stacks() -> None:
    assert all(locator_lines.__file__ != frame[0] for frame in current_stack())
    assert current_stack()[0][0] == str(HERE)


def switches_streams(capture: FakeCapture) -> None:
    capture.elsewhere = True
    capture.spoil()
    innocent(capture)
    capture.elsewhere = False


def test_the_fault_remembers_that_another_stream_was_current() -> None:
    located = run(switches_streams).fault
    assert located is not None
    assert located.elsewhere
    same = run(guilty).fault
    assert same is not None
    assert not same.elsewhere
