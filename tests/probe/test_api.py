"""The library face and the fixture. What needs a device carries the ``gpu`` marker and skips visibly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from capaudit.model import CapauditError, NoDeviceError  # noqa: E402
from capaudit.probe import capture_check  # noqa: E402
from capaudit.probe.api import CaptureCheckError, CheckResult  # noqa: E402

CUDA = torch.cuda.is_available()
ROOT = Path(__file__).resolve().parents[2]
gpu = pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
pytest_plugins = ["pytester"]


@pytest.mark.skipif(CUDA, reason="asks what happens without a CUDA device")
def test_without_a_device_the_check_says_so() -> None:
    with pytest.raises(NoDeviceError, match="sees no CUDA device"):
        capture_check(lambda: None)


def test_importing_the_face_loads_no_framework() -> None:
    code = "import sys, capaudit.probe; sys.exit(any(name in sys.modules for name in ('torch', 'warp', 'numpy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_result_that_is_not_clean_raises_with_its_line() -> None:
    result = CheckResult("fails", "RuntimeError: no", "tests/x.py:3", {}, (), ())
    with pytest.raises(CaptureCheckError) as caught:
        result.require()
    assert str(caught.value) == "tests/x.py:3: fails: RuntimeError: no"
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, CapauditError)
    clean = CheckResult("clean", "", None, {"kernel": 1}, (), ())
    assert clean.require() is clean


@pytest.mark.skipif(CUDA, reason="asks what happens without a CUDA device")
def test_the_fixture_skips_with_a_reason(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest('pytest_plugins = ["capaudit.probe.pytest_plugin"]')
    pytester.makepyfile("def test_step(capture_probe):\n    capture_probe(lambda: None)\n")
    result = pytester.runpytest_subprocess("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*capture_probe needs a CUDA device*"])


@gpu
@pytest.mark.gpu
def test_a_sound_step_is_clean() -> None:
    x, y = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    result = capture_check(lambda: y.copy_(x).mul_(2.0), {"x": x, "y": y})
    assert result.require().nodes["kernel"] >= 1


@gpu
@pytest.mark.gpu
def test_a_frozen_counter_is_found() -> None:
    x, calls = torch.zeros(8, device="cuda"), [0]

    def step() -> object:
        calls[0] += 1
        return x.add_(float(calls[0]))

    assert capture_check(step).verdict == "wrong_on_replay"


@gpu
@pytest.mark.gpu
def test_work_on_another_stream_is_an_escape() -> None:
    x, other = torch.zeros(8, device="cuda"), torch.cuda.Stream()

    def step() -> object:
        with torch.cuda.stream(other):
            x.add_(1.0)
        return x

    result = capture_check(step)
    assert result.verdict == "escapes"
    assert result.place is not None


@gpu
@pytest.mark.gpu
def test_the_fixture_fails_with_the_located_line(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest('pytest_plugins = ["capaudit.probe.pytest_plugin"]')
    pytester.makepyfile(
        test_step="""
        import torch

        def test_step(capture_probe):
            x = torch.ones(8, device="cuda")

            def step():
                y = x * 2.0
                return y.sum().item()

            capture_probe(step)
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_step.py:8: fails:*"])
