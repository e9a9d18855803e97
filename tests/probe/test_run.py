"""``probe run`` end to end on the CPU: one clear result whatever the child does, and evidence that is whole."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capaudit.evidence import load
from capaudit.model import InputError, NoDeviceError
from capaudit.probe.run import MODES, ModeResult, RunOptions, combined_verdict, probe_target, run_one
from capaudit.probe.targets import TargetOptions, find_builder

torch = pytest.importorskip("torch")
without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="asks what happens without a CUDA device")
HERE = Path(__file__).resolve().parent
SAMPLES = HERE / "run_samples.py"


def trace(factory: str, folder: Path | None = None, timeout: float = 120.0, steps: int = 12) -> ModeResult:
    options = RunOptions(TargetOptions(f"{SAMPLES}:{factory}", device="cpu", worlds=4), ("trace",), steps, timeout)
    (result,) = probe_target(options, folder=folder)
    return result


def test_a_trace_names_the_line_and_the_self_proof_comes_with_it(tmp_path: Path) -> None:
    result = trace("works", tmp_path)
    (path,) = tmp_path.iterdir()
    evidence = load(path)
    assert evidence == result.evidence
    assert evidence.verdict == "faults"
    (event,) = evidence.events
    assert (event.root, event.file, event.hazard, event.count) == ("probe", "run_samples.py", "CAP101", 12)
    assert "if x.sum()" in SAMPLES.read_text().splitlines()[event.line - 1]
    assert event.text == "if x.sum() > -1.0:"
    assert event.stack[0].text == event.text
    (ran,) = (function for function in evidence.sources if function.function == "works.<locals>.step")
    assert ran.ran == "1-3"  # the def line itself ran before the trace
    assert all(proof.seen for proof in evidence.self_proof)
    assert {proof.detector for proof in evidence.self_proof} >= {"host-scalar-read", "dynamic-shape"}
    assert str(HERE) not in path.read_text()


def test_a_step_without_faults_is_clean() -> None:
    assert trace("plain").evidence.verdict == "clean"


@pytest.mark.parametrize(
    ("factory", "status", "words"),
    [
        ("kills_itself", "killed", "SIGKILL"),
        ("hangs", "timed-out", "time limit"),
        ("runs_out_of_memory", "out-of-memory", "out of memory"),
        ("raises", "raised", "missing"),
    ],
)
def test_whatever_ends_the_child_there_is_one_result_and_what_was_seen_stays(
    factory: str, status: str, words: str, tmp_path: Path
) -> None:
    # Only the one that hangs must reach its limit; a loaded machine may take long to import torch.
    result = trace(factory, tmp_path, timeout=30.0 if factory == "hangs" else 240.0, steps=12)
    (path,) = tmp_path.iterdir()
    evidence = load(path)
    assert evidence == result.evidence
    assert evidence.verdict == "failed"
    assert evidence.records[-1].outcome == status
    assert words in evidence.records[-1].error
    # Five steps had been reported before the sixth ended the child.
    assert [event.count for event in evidence.events] == [5]
    assert evidence.environment.torch == torch.__version__


def test_a_target_that_cannot_be_built_is_bad_input() -> None:
    with pytest.raises(InputError, match="neither a callable nor an object"):
        trace("gives_no_step")
    with pytest.raises(InputError, match="no callable 'nothing'"):
        trace("nothing")
    with pytest.raises(InputError, match="no such file"):
        run_one(RunOptions(TargetOptions("nowhere/x.py:make", device="cpu"), ("trace",)), "trace", None)
    with pytest.raises(InputError, match="there is no module"):
        run_one(RunOptions(TargetOptions("no_such_package.x:make", device="cpu"), ("trace",)), "trace", None)
    with pytest.raises(InputError, match="names no target"):
        find_builder("something")


@without_cuda
def test_without_a_device_the_command_explains_and_exits_3(run: Callable[..., Any]) -> None:
    outcome = run("probe", "run", "mjwarp:humanoid")
    assert outcome.status == 3
    assert "sees no CUDA device" in outcome.err
    assert "remedy" in outcome.err


@without_cuda
def test_captures_need_a_device_whatever_the_target() -> None:
    for mode in MODES[1:]:
        with pytest.raises(NoDeviceError):
            run_one(RunOptions(TargetOptions(f"{SAMPLES}:plain", device="cpu"), (mode,)), mode, "global")


def test_the_command_prints_the_places_and_exits_1(run: Callable[..., Any], tmp_path: Path) -> None:
    outcome = run("probe", "run", f"{SAMPLES}:works", "--device", "cpu", "--steps", "3", "--output", str(tmp_path))
    assert outcome.status == 1
    assert "probe/run_samples.py:" in outcome.out
    assert "CAP101 host-scalar-read x3" in outcome.out
    assert "trace" in outcome.err
    assert json.loads(next(tmp_path.iterdir()).read_text())["schema"] == "capaudit-evidence/1"


@without_cuda
def test_cases_without_a_device_exit_3(run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "expected.json").write_text(
        json.dumps([{"file": "a.py", "capture": "ok", "probe": "torch", "warmup": 1}])
    )
    (tmp_path / "a.py").write_text("def make(device):\n    return lambda: None\n")
    assert run("probe", "run", str(tmp_path), "--cases").status == 3


def test_a_folder_without_declarations_is_bad_input(run: Callable[..., Any], tmp_path: Path) -> None:
    outcome = run("probe", "run", str(tmp_path), "--cases")
    assert outcome.status == 2
    assert "declarations" in outcome.err


def test_the_laxer_capture_mode_has_the_last_word() -> None:
    from capaudit.evidence import Environment, Evidence, Record
    from capaudit.probe.child import ChildResult

    child = ChildResult("completed", {}, (), None, "", "", 0, 1.0)

    def result(mode: Any, outcome: str, verdict: Any) -> ModeResult:
        record = Record(id=mode, subject=mode, outcome=outcome)
        environment = Environment(python="3", platform="Linux")
        evidence = Evidence("run", "2026-01-01T00:00:00+00:00", environment, {}, mode, {}, verdict, records=(record,))
        return ModeResult(mode, None, evidence, child)

    fails, works = result("capture", "fails", "faults"), result("capture", "ok", "clean")
    wrong = result("replay", "wrong_on_replay", "faults")
    assert combined_verdict([fails]) == "fails"
    assert combined_verdict([fails, works]) == "ok"
    assert combined_verdict([works, wrong]) == "wrong_on_replay"
    assert combined_verdict([works, result("replay", "ok", "inconclusive")]) == "inconclusive"
    assert combined_verdict([works, result("escape", "faults", "faults")]) == "escapes"
    assert combined_verdict([result("capture", "empty", "faults")]) == "escapes"
    assert combined_verdict([result("trace", "faults", "faults")]) == "faults"


def test_the_humanoid_steps_on_warps_cpu_device() -> None:
    pytest.importorskip("mujoco_warp")
    options = RunOptions(TargetOptions("mjwarp:humanoid", device="cpu", worlds=2), ("trace",), steps=2)
    evidence = run_one(options, "trace", None).evidence
    kinds = {event.kind for event in evidence.events}
    assert {"warp-allocation", "warp-free", "warp-condition-read"} <= kinds
    assert {event.root for event in evidence.events} == {"mujoco_warp"}
    assert evidence.target["model"] == "test_data/humanoid/humanoid.xml"
    assert evidence.environment.mujoco_warp is not None


@pytest.mark.skipif(importlib.util.find_spec("mjlab") is None, reason="mjlab is not installed")
def test_mjlab_is_traced_on_the_cpu_with_its_reset_path(tmp_path: Path) -> None:
    # A process of its own, so that the stand-ins for viewers are on the path of the children alone.
    command = [sys.executable, "-m", "capaudit", "probe", "run", "mjlab:Mjlab-Velocity-Flat-Unitree-G1"]
    command += ["--device", "cpu", "--worlds", "4", "--steps", "10", "--output", str(tmp_path)]
    path = os.pathsep.join([str(HERE / "standins"), str(HERE.parents[1])])
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 1, done.stderr
    evidence = load(next(tmp_path.iterdir()))
    lines = {(event.file, event.line) for event in evidence.events}
    assert ("managers/event_manager.py", 282) in lines
    assert ("envs/manager_based_rl_env.py", 468) in lines
    assert evidence.records[0].values["forced_resets"] == 1
    assert {event.root for event in evidence.events} == {"mjlab"}


def test_a_missing_mjlab_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from capaudit.probe.targets.mjlab_env import build_mjlab

    monkeypatch.setitem(sys.modules, "mjlab", None)  # an import of it now fails as where it is not installed
    with pytest.raises(InputError, match="mjlab") as caught:
        build_mjlab("Any-Task")(TargetOptions("mjlab:Any-Task"))
    assert caught.value.remedy == "pip install mjlab"


def test_a_segment_that_mjlab_does_not_have_is_bad_input() -> None:
    from types import SimpleNamespace

    from capaudit.probe.targets.mjlab_env import SEGMENTS, find_segment

    env = SimpleNamespace(reward_manager=SimpleNamespace(compute=lambda dt: dt, reset=lambda: 3), step_dt=0.02)
    assert find_segment(env, "reward_manager.compute", None)() == 0.02
    assert find_segment(env, "reward_manager.reset", None)() == 3
    with pytest.raises(InputError, match=r"no segment 'nothing\.here'"):
        find_segment(env, "nothing.here", None)
    assert "sim.step" in SEGMENTS
