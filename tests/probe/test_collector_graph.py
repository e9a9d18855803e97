"""The collector's graph path on a CPU: CUDA is stood in for by a recorder that runs the recorded tick at each replay.

What only a device can show (whether a capture is accepted) is not asked here; what is asked is that streams, events,
receipts, generators and snapshots are handled as a capturing device needs it, from preparation to Gate S.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from capaudit.contract.documents import from_document
from capaudit.contract.gate_s import judge_gate_s
from capaudit.contract.gate_s_evidence import GATE_S_SCHEMA, GateSEvidence
from capaudit.contract.gate_words import FAULTS

torch = pytest.importorskip("torch")
pytest.importorskip("mujoco_warp")

HEAD = "cd" * 20


class Stream:
    cuda_stream = 7

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def wait_stream(self, other: object) -> None:
        self.log.append("stream waits")


class Event:
    log: list[str]

    def record(self, stream: Stream) -> None:
        self.log.append("event")

    def wait(self, stream: object = None) -> None:
        self.log.append("reader waits")

    def synchronize(self) -> None:
        self.log.append("host waits")


class Graph:
    """Recording leaves the state alone, as on a device; a replay runs what was recorded."""

    replayed: Callable[[], Any]

    def __init__(self) -> None:
        self.generators: list[object] = []

    def register_generator_state(self, generator: object) -> None:
        self.generators.append(generator)

    def replay(self) -> None:
        type(self).log.append("replay")  # type: ignore[attr-defined]
        self.replayed()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from capaudit.probe.targets.collector import collector as module
    from capaudit.probe.targets.collector import declare, modes, state

    log: list[str] = []
    stream = Stream(log)
    Event.log = log
    Graph.log = log  # type: ignore[attr-defined]
    runners: list[Any] = []

    @contextmanager
    def graph(made: Graph, *, stream: Stream) -> Iterator[None]:
        runner = runners[-1] if len(runners) == 1 else next(r for r in runners if r.recording)
        before = state.take(runner.tick)
        log.append("record")
        yield
        state.restore(runner.tick, before)
        assert made.generators == [runner.tick.generator], "a graph has to know the generator before it records"
        made.replayed = runner.tick.tick

    class Runner(modes.TickRunner):
        recording = False

        def __init__(self, tick: Any, device: str, kind: Any) -> None:
            super().__init__(tick, "cuda", kind)
            runners.append(self)

        def record(self) -> None:
            self.recording = True
            try:
                super().record()
            finally:
                self.recording = False

    cuda = {
        "CUDAGraph": Graph,
        "graph": graph,
        "stream": lambda stream: nullcontext(),
        "current_stream": lambda *_: None,
        "Event": Event,
        "synchronize": lambda *_: None,
        "memory_stats": lambda: {
            "allocated_bytes.all.current": 1,
            "reserved_bytes.all.current": 2,
            "num_device_alloc": 3,
        },
    }
    for name, value in cuda.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    wp = SimpleNamespace(**{name: getattr(modes.wp, name) for name in ("CaptureMode", "Stream")})
    wp.ScopedStream = lambda stream, sync_enter: nullcontext()
    wp.ScopedCapture = lambda **options: nullcontext() if options["external"] else pytest.fail("not registered")
    monkeypatch.setattr(modes, "wp", wp)
    monkeypatch.setattr(modes, "_shared_stream", lambda device: (stream, object()))
    monkeypatch.setattr(declare, "wp", SimpleNamespace(is_mempool_supported=lambda device: True))
    monkeypatch.setattr(module, "TickRunner", Runner)
    original = module.preflight
    monkeypatch.setattr(module, "preflight", lambda candidate, rehearsal: original(candidate, rehearsal=True))
    return log


def make(**options: Any) -> Any:
    from capaudit.probe.targets.collector.collector import ReferenceCollector
    from capaudit.probe.targets.collector.plant import load_plant

    made = ReferenceCollector(load_plant("humanoid"), worlds=4, device="cpu", **options)
    made.prepare()
    return made


def test_a_replayed_tick_is_ordered_behind_its_inputs_and_before_its_reader(device: list[str]) -> None:
    made = make(evidence=False)
    assert made.lifecycle.state == "ready"
    assert device.count("record") == 1
    del device[:]
    receipt = made.step()
    made.take()
    assert device == ["stream waits", "replay", "event", "reader waits"]
    assert not receipt.is_immediate
    assert (receipt.capture_id, receipt.stream_id) == ("reference-collector-1", 7)


def test_recording_advances_nothing(device: list[str]) -> None:
    from capaudit.probe.targets.collector import state

    recorded, plain = make(), make(mode="eager")
    assert torch.equal(recorded.tick.carriers.actor, plain.tick.carriers.actor)
    assert torch.equal(state.random_state(recorded.tick), state.random_state(plain.tick))
    assert int(recorded.tick.carriers.published) == 0


def test_what_a_capture_refuses_leaves_the_lifecycle_invalidated(
    device: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from capaudit.probe.targets.collector.tick import CollectorTick

    class Refused(CollectorTick):
        calls = 0

        def tick(self) -> Any:
            type(self).calls += 1
            if type(self).calls > 3:
                raise RuntimeError("operation not permitted when stream is capturing")
            return super().tick()

    with pytest.raises(RuntimeError, match="not permitted"):
        make(make=Refused)
    assert Refused.calls == 4


def test_gate_s_runs_to_its_end_on_the_capturing_path(device: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from capaudit.probe.gates import faults
    from capaudit.probe.gates.audits import audit_tick
    from capaudit.probe.gates.gate_s_child import run_arm

    original = faults.preflight
    monkeypatch.setattr(faults, "preflight", lambda candidate, rehearsal: original(candidate, rehearsal=True))
    payload = {
        "arm": "null",
        "robot": "humanoid",
        "worlds": 4,
        "device": "cpu",
        "seed": 1,
        "date": "2026-01-01T00:00:00+00:00",
        "head": HEAD,
        "control": None,
        "faults": True,
    }
    answer = run_arm(payload, None)  # type: ignore[arg-type]
    evidence = from_document(GateSEvidence, answer["evidence"], GATE_S_SCHEMA, "test")
    assert {item.fault: item.outcome for item in evidence.faults} == FAULTS
    fallback = next(item for item in evidence.faults if item.fault == "replay_failed_unpublished")
    assert (fallback.fallbacks, fallback.rng_restored, fallback.draws_equal) == (1, True, True)
    null = judge_gate_s(replace(evidence, audits=audit_tick().observations)).arm("null")
    assert null is not None
    assert {check.code for check in null.checks if check.verdict != "pass"} == {"rehearsal"}
    assert all(item.difference == 0 for item in evidence.observations)
    # Graph, warm-up-then-replay, two spreads, nine prepared faults and seven captures after an invalidation.
    assert device.count("record") >= 16
    assert device.count("replay") > 40
