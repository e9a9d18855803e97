"""The differential and the suspects on the CPU; a closure plays the graph that repeats what was captured."""

from __future__ import annotations

import itertools
import random
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from capaudit.probe.carriers import find_carriers  # noqa: E402
from capaudit.probe.locator_roots import SourceRoots  # noqa: E402
from capaudit.probe.replay_differential import (  # noqa: E402
    Side,
    change_in_place,
    compare,
    find_frozen,
    poison,
    record_trajectory,
    save_state,
    synchronize_states,
)
from capaudit.probe.replay_suspects import BindingWatch, HostReads, compare_paths  # noqa: E402

HERE = Path(__file__).resolve()
ROOTS = SourceRoots([(HERE.parent, "tests")])


def line_of(text: str) -> int:
    lines = HERE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().endswith(f"# {text}"))


class Counter:
    """Adds a number that only Python counts up."""

    def __init__(self) -> None:
        self.x = torch.ones(4)
        self.calls = 0

    def step(self) -> Any:
        self.calls += 1  # counts on the host
        self.x.add_(float(self.calls))
        return self.x


def trajectories(graph: Side, eager: Side, steps: int = 3, **options: Any) -> tuple[list[Any], list[Any]]:
    return record_trajectory(graph, steps, "cpu", **options), record_trajectory(eager, steps, "cpu", **options)


def test_equal_runs_do_not_diverge() -> None:
    one, other = Counter(), Counter()
    assert compare(*trajectories(Side(one, one.step, None), Side(other, other.step, None)), None, 1e-6) == ()


def test_a_baked_host_value_diverges_from_the_second_replay_on() -> None:
    owner, twin = Counter(), Counter()

    def replay() -> None:
        owner.x.add_(1.0)  # what a capture of the first step would repeat

    graph, eager = trajectories(Side(owner, replay, None, owner.x), Side(twin, twin.step, None))
    first, *_ = compare(graph, eager, None, 1e-6)
    assert (first.name, first.step, first.kind) == ("returned", 1, "different")


def test_an_output_that_never_moves_is_frozen() -> None:
    output, twin = torch.ones(2), Counter()
    graph, eager = trajectories(Side(None, lambda: None, None, output), Side(twin, twin.step, None))
    (found,) = compare(graph, eager, None, 1e-6)
    assert found.kind == "frozen"
    assert found.is_fault


def test_what_eager_itself_does_not_repeat_is_random_and_no_fault() -> None:
    torch.manual_seed(1)  # and many values: two draws of a few may happen to lie far closer than two others
    x = torch.zeros(1000)
    sides = [Side(x, lambda: x.copy_(torch.rand(1000)), None) for _ in range(3)]
    graph, eager, repeated = (record_trajectory(side, 3, "cpu") for side in sides)
    assert {(item.kind, item.is_fault) for item in compare(graph, eager, repeated, 1e-6)} == {("random", False)}


def test_replays_may_differ_as_eager_runs_do_among_themselves_and_no_more() -> None:
    def run(*values: float) -> list[Any]:
        return [{"x": torch.tensor([value])} for value in values]

    eager, repeated = run(1.0, 2.0), run(1.0, 2.001)
    (within,) = compare(run(1.0, 2.005), eager, repeated, 1e-6)
    assert (within.kind, within.is_fault) == ("random", False)
    found = compare(run(1.0, 2.5), eager, repeated, 1e-6)
    assert [(item.step, item.is_fault) for item in found] == [(1, True)]


def test_memory_that_was_allocated_inside_the_capture_is_spared() -> None:
    owner = {"old": torch.ones(2), "new": torch.ones(2)}
    assert change_in_place(owner, 0, "cpu", (), frozenset({"['new']"})) == 1
    assert owner["new"].tolist() == [1.0, 1.0]


def test_a_clock_is_told_from_a_generator_that_the_graph_owns() -> None:
    def side(values: Any) -> Side:
        x = torch.zeros(1)
        return Side({"x": x}, lambda: x.fill_(next(values)), None)

    def names(graph: Any, eager: Any) -> frozenset[str]:
        still = (lambda: None, lambda: None)
        return find_frozen(side(graph), side(eager), still, frozenset({"returned"}), "cpu", 1e-6)

    assert names(itertools.repeat(3.0), itertools.count(1.0)) == {"returned"}
    assert names(itertools.count(5.0), itertools.count(1.0)) == frozenset()
    assert names(itertools.repeat(3.0), itertools.repeat(2.0)) == frozenset()


def test_an_output_that_no_replay_writes_is_uninitialised() -> None:
    twin, output = Counter(), torch.zeros(4)
    names = poison(output, set(), "cpu")
    graph, eager = trajectories(Side(None, lambda: None, None, output), Side(twin, twin.step, None))
    (found,) = compare(graph, eager, None, 1e-6, poisoned=names)
    assert found.kind == "uninitialised"


def test_a_carrier_is_not_poisoned() -> None:
    owner = Counter()
    kept = {owner.x.untyped_storage().data_ptr()}
    assert poison(owner.x, kept, "cpu") == frozenset()
    assert owner.x.tolist() == [1.0] * 4


def test_a_rebound_carrier_is_stale() -> None:
    graph = [{"x": torch.tensor([1.0])}, {"x": torch.tensor([2.0])}]
    eager = [{"x": torch.tensor([1.0])}, {"x": torch.tensor([3.0])}]
    (found,) = compare(graph, eager, None, 1e-6, frozenset({"x"}))
    assert (found.kind, found.step) == ("stale", 1)
    assert "largest difference 1" in found.detail


def test_nan_agrees_with_nan_and_differs_from_a_number() -> None:
    nan, one = torch.tensor([float("nan")]), torch.tensor([1.0])
    assert compare([{"x": nan}], [{"x": nan}], None, 1e-6) == ()
    assert len(compare([{"x": nan}], [{"x": one}], None, 1e-6)) == 1


def test_inputs_change_in_place_each_storage_once_and_zeros_stay() -> None:
    x = torch.tensor([0.0, 2.0])
    owner = {"x": x, "view": x[1:], "broadcast": torch.ones(1).expand(3), "ids": torch.tensor([1, 2])}
    address = x.data_ptr()
    assert change_in_place(owner, 0, "cpu", ()) == 1
    assert x.tolist() == pytest.approx([0.0, 2.0625])
    assert x.data_ptr() == address
    assert owner["ids"].tolist() == [1, 2]


def test_states_are_aligned_by_path_before_the_runs() -> None:
    one, other = Counter(), Counter()
    one.x.fill_(5.0)
    assert synchronize_states(save_state(one, "cpu"), other, "cpu") == 1
    assert other.x.tolist() == [5.0] * 4


def watch(owner: Any, *steps: Any, outside: bool = False) -> list[tuple[str, int]]:
    watcher, reads = BindingWatch(owner, ROOTS, "cpu"), HostReads(ROOTS)
    watcher.outside = outside
    for step in steps:
        with nullcontext() if outside else reads.active(), watcher:
            step()
    found = []
    for suspect in sorted([*watcher.suspects, *reads.suspects], key=lambda item: item.rank):
        place = ROOTS.innermost_user(suspect.stack)
        assert place is not None
        if (suspect.kind, place[1]) not in found:
            found.append((suspect.kind, place[1]))
    return found


def test_a_host_counter_is_a_suspect_with_its_line() -> None:
    owner = Counter()
    assert watch(owner, owner.step) == [("host-state", line_of("counts on the host"))]


class Swap:
    def __init__(self) -> None:
        self.a, self.b, self.lazy = torch.zeros(2), torch.ones(2), None
        self.order = itertools.cycle((1.0, 2.0))
        self.rng = random.Random(0)

    def swap(self) -> None:
        self.a, self.b = self.b, self.a  # swaps

    def make(self) -> None:
        if self.lazy is None:
            self.lazy = torch.zeros(3)  # makes

    def draw(self) -> None:
        self.a.add_(self.rng.random())  # draws

    def turn(self) -> None:
        self.a.mul_(next(self.order))  # turns

    def grow(self) -> None:
        self.a.resize_(4096)  # grows


def test_rebinding_is_told_from_a_first_allocation() -> None:
    owner = Swap()
    assert watch(owner, owner.swap) == [("carrier-rebind", line_of("swaps"))]
    assert watch(owner, owner.make) == [("capture-allocation", line_of("makes"))]


def test_generators_and_iterators_of_the_host_are_suspects() -> None:
    owner = Swap()
    assert watch(owner, owner.draw) == [("host-generator", line_of("draws"))]
    assert watch(owner, owner.turn)[0] == ("host-iterator", line_of("turns"))


def test_memory_that_moves_under_the_same_name_outside_the_step_is_a_rebind() -> None:
    owner = Swap()
    assert watch(owner, owner.grow, outside=True) == [("carrier-rebind-outside", line_of("grows"))]


def test_the_branch_before_a_line_that_only_a_capture_runs_is_named() -> None:
    file = str(HERE)
    eager, captured = [(file, 1), (file, 2), (file, 3)], [(file, 1), (file, 2), (file, 4)]
    (suspect,) = compare_paths(captured, eager, eager, ROOTS)
    assert (suspect.kind, suspect.stack[0][:2]) == ("capture-only-path", (file, 2))
    assert compare_paths(eager, eager, eager, ROOTS) == []


def test_steps_that_take_different_ways_are_suspects() -> None:
    file = str(HERE)
    (suspect,) = compare_paths([(file, 1)], [(file, 1), (file, 2)], [(file, 1), (file, 3)], ROOTS)
    assert (suspect.kind, suspect.stack[0][1]) == ("varying-path", 1)


CASES = HERE.parents[2].parent / "shared" / "cases"


@pytest.mark.skipif(not CASES.is_dir(), reason="the programs with a measured outcome are not here")
@pytest.mark.parametrize(
    ("program", "lines"),
    [
        ("c40_rotary_narrow_position", {10, 11}),
        ("c44_running_norm_count", {12, 13}),
        ("c50_growing_workspace", {10}),
        ("c58_host_exploration_scale", {12, 13}),
        ("c79_minibatch_cursor", {13}),
        ("c91_tuple_alias_rebind", {10}),
    ],
)
def test_programs_whose_replay_is_wrong_are_blamed_on_the_declared_line(program: str, lines: set[int]) -> None:
    from capaudit.probe.targets import TargetOptions, find_builder

    options = TargetOptions(target=f"{CASES / program}.py:make", device="cpu")
    target = find_builder(options.target)(options)
    roots = SourceRoots(target.roots)
    for _ in range(target.warmup):
        target.step()
    watcher, reads = BindingWatch(target.owner, roots, "cpu"), HostReads(roots)
    for index in range(3):
        if target.before_step is not None:
            watcher.outside = True
            with watcher:
                target.before_step(index)
            watcher.outside = False
        with reads.active(), watcher:
            target.step()
    suspects = sorted([*watcher.suspects, *reads.suspects], key=lambda item: item.rank)
    place = roots.innermost_user(suspects[0].stack)
    assert place is not None
    assert place[1] in lines
    assert find_carriers(target.owner, "cpu")
