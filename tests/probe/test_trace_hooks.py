"""The trace's hooks on the CPU, whose tensors play the device."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from capaudit.probe.locator_roots import SourceRoots  # noqa: E402
from capaudit.probe.sync_hooks import SynchronizationHooks  # noqa: E402
from capaudit.probe.targets.base import Target  # noqa: E402
from capaudit.probe.trace import run_trace  # noqa: E402
from capaudit.probe.trace_log import EventLog  # noqa: E402

HERE = Path(__file__).resolve()
DEBUG_MODE = "called a synchronizing CUDA operation (Triggered internally at somewhere.cpp:1.)"


def line_of(text: str) -> int:
    lines = HERE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().endswith(f"# {text}"))


@pytest.fixture
def log() -> EventLog:
    return EventLog(SourceRoots([(HERE.parent, "tests")]))


def test_a_scalar_read_is_seen_with_its_line(log: EventLog) -> None:
    x = torch.ones(4)
    with SynchronizationHooks(log, "cpu").active():
        float(x.sum())  # scalar read
        bool(x.any())
    (first, second) = log.events()
    assert (first.kind, first.hazard, first.line) == ("host-scalar-read", "CAP101", line_of("scalar read"))
    assert second.line == first.line + 1


def test_dynamic_shapes_are_seen_and_integer_indices_are_not(log: EventLog) -> None:
    x = torch.arange(6.0)
    ids = torch.tensor([0, 2])
    with SynchronizationHooks(log, "cpu").active():
        x[ids]
        x[ids] = x[ids] * 2.0
        x.nonzero()  # nonzero
        x[x > 2.0]  # mask read
        x[x > 2.0] = 0.0
    events = log.events()
    assert [(event.kind, event.line) for event in events] == [
        ("dynamic-shape", line_of("nonzero")),
        ("dynamic-shape", line_of("mask read")),
    ]
    assert {event.hazard for event in events} == {"CAP201"}


def test_what_the_debug_mode_reports_is_an_event_of_the_line_that_blocked(log: EventLog) -> None:
    with SynchronizationHooks(log, "cpu").active():
        warnings.warn(DEBUG_MODE, stacklevel=1)  # blocked
    (event,) = log.events()
    assert (event.kind, event.hazard, event.line) == ("synchronization", "CAP105", line_of("blocked"))


def test_a_blocking_operation_is_one_event_named_after_the_operation(log: EventLog) -> None:
    hooks = SynchronizationHooks(log, "cpu")

    class Function:
        class _schema:
            name = "aten::linalg_solve"

        tags = ()

        def __call__(self, x):  # type: ignore[no-untyped-def]
            hooks.blocked()
            return x

    hooks.run_operation(Function(), (), (torch.ones(2),), {})
    (event,) = log.events()
    assert (event.kind, event.hazard) == ("synchronization", "CAP105")
    assert event.detail == "aten::linalg_solve, blocks the host"


def test_a_warning_that_arrives_after_its_operation_still_belongs_to_it(log: EventLog) -> None:
    hooks = SynchronizationHooks(log)
    x = torch.ones(2)
    add = torch.ops.aten.add.Tensor
    hooks.run_operation(add, (), (x, x), {}), hooks.blocked(), hooks.blocked()  # late warnings
    hooks.blocked()  # another line
    events = {event.line: (event.hazard, event.count, event.detail) for event in log.events()}
    assert events[line_of("late warnings")] == ("CAP105", 1, "aten::add, blocks the host")
    assert "debug mode" in events[line_of("another line")][2]


def test_a_list_that_is_uploaded_for_an_index_is_a_copy_to_the_device(log: EventLog) -> None:
    hooks = SynchronizationHooks(log, "cpu")
    x, ids = torch.arange(4.0), torch.tensor([0, 1])

    class Blocking:
        _schema, tags = torch.ops.aten.index.Tensor._schema, torch.ops.aten.index.Tensor.tags

        def __call__(self, *arguments):  # type: ignore[no-untyped-def]
            hooks.blocked()
            return torch.ops.aten.index.Tensor(*arguments)

    hooks.run_operation(Blocking(), (), (x, [ids]), {})
    (event,) = log.events()
    assert (event.kind, event.hazard) == ("host-to-device-copy", "CAP103")


def test_other_warnings_still_reach_the_user(log: EventLog) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with SynchronizationHooks(log, "cpu").active():
            warnings.warn("something else", stacklevel=1)
    assert [str(item.message) for item in caught] == ["something else"]
    assert not log.events()


def test_events_are_counted_and_the_first_stack_is_kept(log: EventLog) -> None:
    x = torch.ones(3)

    def inner() -> float:
        return float(x.sum())  # counted

    def outer() -> float:
        return inner()

    with SynchronizationHooks(log, "cpu").active():
        for _ in range(5):
            outer()
    (event,) = log.events()
    assert (event.count, event.line) == (5, line_of("counted"))
    assert [frame.function.rpartition(".")[2] for frame in event.stack[:2]] == ["inner", "outer"]


def test_the_hooks_leave_nothing_behind(log: EventLog) -> None:
    before = (torch.cuda.synchronize, torch.cuda.Stream.synchronize, torch.cuda.CUDAGraph.__dict__.get("replay"))
    show = warnings.showwarning
    with SynchronizationHooks(log, "cpu").active():
        assert torch.cuda.synchronize is not before[0]
    after = (torch.cuda.synchronize, torch.cuda.Stream.synchronize, torch.cuda.CUDAGraph.__dict__.get("replay"))
    assert before == after
    assert warnings.showwarning is show


def test_resets_are_forced_so_that_their_path_runs(log: EventLog) -> None:
    x, forced = torch.zeros(4), []

    def step() -> None:
        if forced:
            float(x.sum())  # reset path
            forced.clear()

    target = Target("t", step, x, (), force_reset=lambda: forced.append(1), warmup=1)
    record = run_trace(target, 20, log, "cpu")
    (event,) = log.events()
    assert (event.line, event.count) == (line_of("reset path"), 2)
    assert record.outcome == "faults"
    assert record.values["forced_resets"] == 2


def test_warp_arrays_that_come_and_go_are_seen(log: EventLog) -> None:
    wp = pytest.importorskip("warp")
    wp.config.quiet = True
    kept = wp.zeros(4, dtype=wp.float32, device="cpu")
    with SynchronizationHooks(log, "cpu").active():
        scratch = wp.zeros(4, dtype=wp.float32, device="cpu")  # allocation
        del scratch  # free
        kept.numpy()  # warp read
        wp.synchronize()  # warp synchronize
    found = {(event.kind, event.hazard, event.line) for event in log.events()}
    assert found == {
        ("warp-allocation", "CAP302", line_of("allocation")),
        ("warp-free", "CAP302", line_of("free")),
        ("warp-read", "CAP102", line_of("warp read")),
        ("warp-synchronization", "CAP104", line_of("warp synchronize")),
    }
