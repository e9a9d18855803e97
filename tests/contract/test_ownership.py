from __future__ import annotations

import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest

import capaudit
from capaudit.contract.ownership import declared_boundary, declared_ownership
from capaudit.model import Boundary, OwnershipClass


@pytest.fixture(autouse=True)
def _no_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.delitem(sys.modules, "warp", raising=False)


def fake_torch(monkeypatch: pytest.MonkeyPatch, *, initialized: bool, capturing: bool) -> list[str]:
    asked: list[str] = []

    def is_current_stream_capturing() -> bool:
        asked.append("capturing")
        return capturing

    cuda = SimpleNamespace(is_initialized=lambda: initialized, is_current_stream_capturing=is_current_stream_capturing)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    return asked


def fake_warp(monkeypatch: pytest.MonkeyPatch, *, capturing: bool) -> list[str]:
    asked: list[str] = []

    def get_device() -> SimpleNamespace:
        asked.append("device")
        return SimpleNamespace(is_capturing=capturing)

    monkeypatch.setitem(sys.modules, "warp", SimpleNamespace(get_device=get_device))
    return asked


@capaudit.completion_owned("reads the verdict")
def publish(value: int) -> int:
    """Return the next value."""
    return value + 1


@capaudit.cold_path("allocates buffers")
def prepare() -> str:
    return "prepared"


def test_owned_functions_run_as_before_without_any_framework() -> None:
    assert publish(1) == 2
    assert prepare() == "prepared"


def test_the_function_keeps_its_name_and_documentation() -> None:
    assert publish.__name__ == "publish"
    assert publish.__doc__ == "Return the next value."


def test_a_live_torch_capture_makes_an_owned_call_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_torch(monkeypatch, initialized=True, capturing=True)
    with pytest.raises(capaudit.CaptureViolation, match=r"publish is completion-owned \(reads the verdict\).*Torch"):
        publish(1)
    with pytest.raises(capaudit.CaptureViolation, match=r"prepare is cold-path \(allocates buffers\)"):
        prepare()


def test_a_live_warp_capture_makes_an_owned_call_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_warp(monkeypatch, capturing=True)
    with pytest.raises(capaudit.CaptureViolation, match="Warp capture is recording"):
        publish(1)


def test_no_capture_means_no_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_torch(monkeypatch, initialized=True, capturing=False)
    fake_warp(monkeypatch, capturing=False)
    assert publish(1) == 2


def test_cuda_is_never_touched_before_the_program_has_initialised_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fake_torch(monkeypatch, initialized=False, capturing=True)
    assert publish(1) == 2
    assert asked == []


def test_warp_is_not_asked_inside_a_torch_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_torch(monkeypatch, initialized=True, capturing=True)
    asked = fake_warp(monkeypatch, capturing=False)
    with pytest.raises(capaudit.CaptureViolation):
        publish(1)
    assert asked == []


def test_a_half_imported_torch_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert publish(1) == 2


def test_an_eager_fallback_for_runtime_errors_does_not_swallow_a_violation() -> None:
    assert not issubclass(capaudit.CaptureViolation, RuntimeError)


def test_a_violation_survives_a_worker_process() -> None:
    error = capaudit.CaptureViolation("called", remedy="later")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is capaudit.CaptureViolation
    assert (copy.message, copy.remedy) == ("called", "later")


def test_a_boundary_is_the_function_itself_with_its_declaration() -> None:
    def step() -> None: ...

    assert capaudit.boundary(step) is step
    name = "test_a_boundary_is_the_function_itself_with_its_declaration.<locals>.step"
    assert declared_boundary(step) == Boundary(name, f"{__name__}:{name}", "torch", "decorator")


def test_a_boundary_takes_a_name_and_a_capture_kind() -> None:
    @capaudit.boundary(name="tick", capture="shared")
    def step() -> None: ...

    declaration = declared_boundary(step)
    assert declaration is not None
    assert (declaration.name, declaration.capture) == ("tick", "shared")


def test_declarations_can_be_read_from_methods() -> None:
    class Environment:
        @capaudit.boundary
        def step(self) -> None: ...

        @capaudit.cold_path("construction")
        def build(self) -> None: ...

    assert declared_boundary(Environment().step) is not None
    assert declared_ownership(Environment().build) == (OwnershipClass.COLD_PATH, "construction")
    assert declared_boundary(Environment().build) is None


def test_an_unknown_capture_kind_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="torch, warp, shared"):
        capaudit.boundary(capture="cuda")  # type: ignore[call-overload]


@pytest.mark.parametrize("reason", ["", "  ", publish])
def test_an_owner_without_a_reason_is_refused(reason: object) -> None:
    with pytest.raises(TypeError, match="needs its reason"):
        capaudit.cold_path(reason)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrapper", [classmethod, staticmethod, property])
def test_a_descriptor_is_refused_because_its_calls_could_not_be_checked(wrapper: type) -> None:
    with pytest.raises(TypeError, match="belongs on the function itself"):
        capaudit.completion_owned("why")(wrapper(lambda self: None))
    with pytest.raises(TypeError, match="belongs on the function itself"):
        capaudit.boundary(wrapper(lambda self: None))


def test_importing_the_decorators_imports_no_framework() -> None:
    program = (
        "import sys; from capaudit import boundary, cold_path, completion_owned\n"
        "print(sorted({'torch', 'warp', 'numpy', 'libcst', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_package_has_no_other_attributes_to_offer() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = capaudit.no_such_name
