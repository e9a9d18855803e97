"""Escape detection: what was launched against what was recorded, with made-up launches and on Warp's CPU device."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from capaudit.probe.escape import Escape, find_escapes
from capaudit.probe.escape_launches import Launch, LaunchHooks
from capaudit.probe.locator_roots import RawFrame

HERE = Path(__file__).resolve()
OWN, OTHER = 7, 9


def stack(line: int) -> tuple[RawFrame, ...]:
    return (("user.py", line, "step"),)


def line_of(frames: tuple[RawFrame, ...]) -> tuple[str, int]:
    return frames[0][0], frames[0][1]


def escapes(
    eager: list[Launch], captured: list[Launch], nodes: dict[int, int], foreign: set[int]
) -> tuple[Escape, ...]:
    recorded = {("user.py", line): Counter(kernel=count) for line, count in nodes.items()}
    return find_escapes(eager, captured, recorded, foreign, line_of)


def test_work_that_was_recorded_is_no_escape() -> None:
    launch = Launch("aten::add_", stack(3), OWN)
    assert escapes([launch], [launch], {3: 1}, set()) == ()


def test_a_launch_on_a_foreign_stream_is_an_escape_with_its_stream() -> None:
    (found,) = escapes([], [Launch("aten::add_", stack(3), OTHER)] * 2, {4: 1}, {OTHER})
    assert (found.stream, found.launches, found.hazard) == (OTHER, 2, "CAP402")


def test_a_graph_launched_on_a_stream_of_its_own_is_a_nested_replay() -> None:
    (found,) = escapes([], [Launch("warp.capture_launch", stack(3), OTHER, graph=True)], {}, {OTHER})
    assert found.hazard == "CAP401"


def test_a_line_that_only_eager_runs_is_told_from_an_escape() -> None:
    (found,) = escapes([Launch("aten::add_", stack(3), OWN)], [], {}, set())
    assert (found.stream, found.hazard, found.kind) == (None, "CAP501", "eager-only")


def test_an_operation_on_the_capturing_stream_that_had_nothing_to_do_is_none() -> None:
    launch = Launch("aten::copy_", stack(3), OWN)
    assert escapes([launch], [launch], {}, set()) == ()


def test_torch_launches_are_seen_and_views_and_allocations_are_not() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(4)
    hooks = LaunchHooks("cpu", lambda: OWN)
    with hooks.active():
        torch.empty(4)
        x.view(2, 2)
        x.detach()
        x.add_(1.0)
        torch.zeros(0)
    assert [(launch.name, launch.stream) for launch in hooks.launches] == [("aten::add_", OWN)]
    assert hooks.launches[0].stack[0][0] == str(HERE)


def test_warp_launches_are_seen_once_each() -> None:
    pytest.importorskip("torch")
    wp = pytest.importorskip("warp")
    wp.config.quiet = True
    array, other = (wp.zeros(4, dtype=wp.float32, device="cpu") for _ in range(2))
    hooks = LaunchHooks("cpu", lambda: OWN)
    before = wp.copy
    with hooks.active():
        array.fill_(2.0)
        wp.copy(other, array)
    assert wp.copy is before
    assert [launch.name for launch in hooks.launches] == ["warp.array.fill_", "warp.copy"]
    assert other.numpy().tolist() == [2.0] * 4
