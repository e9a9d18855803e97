"""The protocol on a recorded stand-in for capture: one program per way in which a capture can go."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from capaudit.probe.ops_measure import Measurement, measure  # noqa: E402
from capaudit.probe.ops_program import IdiomProgram  # noqa: E402
from tests.probe.fake_device import FakeBackend  # noqa: E402


def run(tmp_path: Path, body: str, setup: str = "", mutate: str = "") -> Measurement:
    program = IdiomProgram(setup, body, mutate, "cpu", tmp_path)
    return measure(program, FakeBackend("cpu"), lambda stage: None)


def test_a_step_that_reads_its_inputs_anew_is_ok(tmp_path: Path) -> None:
    assert run(tmp_path, "y.copy_(x * 2)") == Measurement("ok", sync=False)


def test_a_step_that_accumulates_advances(tmp_path: Path) -> None:
    assert run(tmp_path, "y.add_(x)").outcome == "advances"


def test_device_random_numbers_advance(tmp_path: Path) -> None:
    measured = run(tmp_path, "y.uniform_()")
    assert (measured.outcome, measured.note) == ("advances", "draws from the device's generator")


def test_a_generator_of_the_program_is_put_back(tmp_path: Path) -> None:
    assert run(tmp_path, "y.uniform_(generator=g)", setup="g = torch.Generator()").outcome == "advances"


def test_a_host_read_fails_with_its_first_error_in_one_line(tmp_path: Path) -> None:
    measured = run(tmp_path, "try:\n    y.fill_(x[0].item())\nexcept RuntimeError:\n    raise ValueError('later')")
    assert measured.outcome == "fails"
    assert measured.sync is True
    assert measured.error == "RuntimeError: operation not permitted when stream is capturing -> ValueError: later"


@pytest.mark.parametrize(
    ("setup", "body", "mutate"),
    [
        ("import random", "y.fill_(random.random())", ""),
        ("n = [0]", "n[0] += 1; y.fill_(n[0])", ""),
        ("class State: pass\ns = State()\ns.v = torch.zeros(64)", "y.copy_(s.v)", "s.v = torch.ones(64)"),
        ("", "y.copy_(x)", "y = torch.ones(64)"),
        ("a = torch.zeros(64); b = torch.ones(64)", "a, b = b, a; a.copy_(x)", ""),
    ],
    ids=["host random number", "host counter", "rebound input", "rebound output", "swapped buffers"],
)
def test_what_the_host_decided_at_capture_is_wrong_on_replay(
    setup: str, body: str, mutate: str, tmp_path: Path
) -> None:
    measured = run(tmp_path, body, setup, mutate)
    assert measured.outcome == "wrong-on-replay"
    assert "differs from eager" in measured.error


def test_an_output_that_the_replay_left_alone_is_named(tmp_path: Path) -> None:
    measured = run(tmp_path, "y.copy_(x)", mutate="y = torch.full((64,), 9.0)")
    assert measured.error == "y differs from eager, by up to 9; the replay left it untouched"


def test_a_rebound_name_that_the_graph_owns_is_ok(tmp_path: Path) -> None:
    assert run(tmp_path, "z = x + 1", setup="z = None").outcome == "ok"


def test_a_cache_that_the_warm_up_filled_stays_filled(tmp_path: Path) -> None:
    body = "if not cache: cache.append(x[0].item())\ny.copy_(x)"
    assert run(tmp_path, body, setup="cache = []").outcome == "ok"


def test_gradients_are_state(tmp_path: Path) -> None:
    setup = "w = torch.ones(64, requires_grad=True)"
    body = "(w * x).sum().backward(); y.copy_(w.grad); w.grad.zero_()"
    assert run(tmp_path, body, setup).outcome == "ok"


def test_modules_and_optimizers_are_state(tmp_path: Path) -> None:
    setup = "net = torch.nn.Linear(64, 1); opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)"
    body = "opt.zero_grad(set_to_none=False); net(x).sum().backward(); opt.step()"
    assert run(tmp_path, body, setup).outcome == "advances"


def test_a_program_that_raises_eagerly_is_broken(tmp_path: Path) -> None:
    measured = run(tmp_path, "undefined.copy_(x)")
    assert measured.outcome == "broken"
    assert "NameError" in measured.error


def test_sources_of_a_program_can_be_read_back(tmp_path: Path) -> None:
    setup = "import inspect\ndef double(t):\n    return t * 2\n"
    assert run(tmp_path, "assert 't * 2' in inspect.getsource(double); y.copy_(double(x))", setup).outcome == "ok"


def test_stages_are_announced_before_they_begin(tmp_path: Path) -> None:
    stages: list[str] = []
    measure(IdiomProgram("", "y.copy_(x)", "", "cpu", tmp_path), FakeBackend("cpu"), stages.append)
    assert stages == ["warm-up", "capture", "eager", "replay"]


class _Racing:
    """A program whose kernel gives another result each time, as colliding writes on a device do."""

    def __init__(self, *, host_decides: bool) -> None:
        self.namespace = {"y": torch.zeros(4)}
        self.comparable = True
        self.host_decides = host_decides
        self._calls = 0.0

    def step(self) -> None:
        self._calls += 1.0
        self.namespace["y"].fill_(self._calls)

    def mutate(self) -> None:
        return

    def registered(self) -> tuple[()]:
        return ()


def test_results_that_differ_from_eager_run_to_eager_run_are_not_compared() -> None:
    measured = measure(_Racing(host_decides=False), FakeBackend("cpu"), lambda stage: None)
    assert measured.outcome == "ok"
    assert "not deterministic" in measured.note


def test_a_host_that_decides_anew_each_time_is_no_excuse() -> None:
    assert measure(_Racing(host_decides=True), FakeBackend("cpu"), lambda stage: None).outcome == "wrong-on-replay"
