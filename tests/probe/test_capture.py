"""What a capture attempt is reported as; the attempt itself needs a device."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")

from capaudit.probe.capture import CaptureOutcome, hazard_of, report_capture
from capaudit.probe.locator import ACTIVE, LineLocator, Located
from capaudit.probe.locator_roots import SourceRoots
from capaudit.probe.trace_log import EventLog

HERE = Path(__file__).resolve()
ROOTS = SourceRoots([(HERE.parent, "tests")])
USER = (str(HERE), 12, "step")


class Nothing:
    def poll(self) -> tuple[int, dict[str, int]]:
        return ACTIVE, {}

    def works_elsewhere(self) -> bool:
        return False


def outcome(**counts: int) -> CaptureOutcome:
    locator = LineLocator(Nothing(), ROOTS)
    if counts:
        locator.recorded[(USER,)] = Counter(counts)
    return CaptureOutcome("global", nodes=locator.nodes(), locator=locator)


def failed(message: str, cause: str = "step") -> CaptureOutcome:
    stack = ((str(HERE), 30, cause), USER) if cause != "step" else (USER,)
    result = outcome()
    result.error, result.first_error = RuntimeError(message), f"RuntimeError: {message}"
    result.located = Located(stack, USER)
    return result


def test_a_balanced_capture_is_ok_with_nodes_per_line() -> None:
    log = EventLog(ROOTS)
    record = report_capture(outcome(kernel=3, alloc=1, free=1), log)
    (event,) = log.events()
    assert record.outcome == "ok"
    assert (event.kind, event.line, event.hazard, event.nodes["kernel"]) == ("recorded", 12, None, 3)
    assert record.values["nodes"] == 5


def test_allocations_without_frees_are_a_fault_at_their_line() -> None:
    log = EventLog(ROOTS)
    record = report_capture(outcome(alloc=31, kernel=2), log)
    assert record.outcome == "unbalanced"
    assert "31 allocation and 0 free nodes" in record.note
    assert ("unbalanced-allocation", "CAP302", 12) in [(event.kind, event.hazard, event.line) for event in log.events()]


def test_a_graph_without_nodes_is_said_to_be_empty() -> None:
    record = report_capture(outcome(), EventLog(ROOTS))
    assert record.outcome == "empty"
    assert "captured by nobody" in record.note


def test_a_failure_names_place_and_first_error() -> None:
    log = EventLog(ROOTS)
    record = report_capture(failed("dependency created on uncaptured work in another stream"), log)
    (event,) = log.events()
    assert (record.outcome, record.hazard, record.values["place"]) == ("fails", "CAP402", "tests/test_capture.py:12")
    assert (event.kind, event.hazard, event.line) == ("capture-fault", "CAP402", 12)


def test_what_an_eager_step_did_at_the_line_names_the_hazard_of_cudas_general_message() -> None:
    hints = EventLog(ROOTS)
    hints.add("synchronization", "CAP105", stack=(USER,))
    hints.add("dynamic-shape", "CAP201", stack=(USER,))
    hints.add("warp-free", "CAP302", stack=(USER,))
    record = report_capture(failed("operation not permitted when stream is capturing"), EventLog(ROOTS), hints)
    assert record.hazard == "CAP201"


@pytest.mark.parametrize(
    ("message", "cause", "code"),
    [
        ("operation failed due to a previous error during capture", "CudaMempoolAllocator.deallocate", "CAP302"),
        ("operation failed due to a previous error during capture", "Device.set_stream", "CAP402"),
        ("Graph capture already in progress on this stream", "step", "CAP401"),
        ("Cannot prepare for replay during capturing stage.", "step", "CAP401"),
        ("Cannot copy between CPU and CUDA tensors; allocate the tensor with pin_memory=True", "step", "CAP103"),
        ("CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "step", "CAP503"),
        ("operation not permitted when stream is capturing", "step", "CAP105"),
    ],
)
def test_the_cause_and_the_message_name_the_hazard(message: str, cause: str, code: str) -> None:
    assert hazard_of(message, failed(message, cause).located) == code


@pytest.mark.parametrize(
    ("message", "code"),
    [("operation not permitted when stream is capturing", "CAP402"), ("CUBLAS_STATUS_NOT_INITIALIZED", "CAP503")],
)
def test_another_current_stream_explains_what_the_message_does_not(message: str, code: str) -> None:
    assert hazard_of(message, Located((USER,), USER, elsewhere=True)) == code


def test_an_allocation_in_the_body_of_a_conditional_node_is_located_where_it_was_made() -> None:
    from capaudit.probe.capture import _allocation_in_body

    locator = LineLocator(Nothing(), ROOTS)
    other = (str(HERE), 13, "body")
    locator.recorded[(other, USER)] = Counter(alloc=1, memset=1)
    locator.recorded[(USER,)] = Counter(kernel=1)
    error = RuntimeError("Conditional body graph contains an unsupported operation (memory allocation)")
    located = _allocation_in_body(error, locator, ROOTS)
    assert located is not None
    assert located.place == other
    assert hazard_of(str(error)) == "CAP303"
    assert _allocation_in_body(RuntimeError("something else"), locator, ROOTS) is None
