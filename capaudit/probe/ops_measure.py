"""One measurement: warm up, watch, capture, change the inputs in place, replay, compare with eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from capaudit.evidence import JsonObject
from capaudit.probe.child import first_error
from capaudit.probe.ops_backend import Backend
from capaudit.probe.ops_state import Difference, Observed, differences, is_alike, observe, take_snapshot

WARM_UPS = 3
_ERROR_LENGTH = 300


class Program(Protocol):
    """What is measured. ``namespace`` is all state that ``step`` can reach; ``step`` may return outputs.

    ``comparable`` is false where results are uninitialised memory. ``host_decides`` says that host code
    of the step, and not kernels alone, can make two eager runs differ.
    """

    namespace: dict[str, Any]
    comparable: bool
    host_decides: bool

    def step(self) -> object: ...

    def mutate(self) -> None:
        """Change the inputs in place."""

    def registered(self) -> Sequence[torch.Generator]:
        """Return the generators that the capture has to know, beside the device's default ones."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """``outcome`` is ``ok``, ``advances``, ``fails``, ``wrong-on-replay`` or ``broken`` (eager itself raised)."""

    outcome: str
    error: str = ""
    sync: bool | None = None
    note: str = ""

    def to_json(self) -> JsonObject:
        return {"outcome": self.outcome, "error": self.error, "sync": self.sync, "note": self.note}


def measure(program: Program, backend: Backend, entering: Callable[[str], None]) -> Measurement:
    """Run the protocol. ``entering`` hears of each stage before it begins, in case the process dies in it."""
    entering("warm-up")
    initial = take_snapshot(program.namespace, backend.generators())
    try:
        for _ in range(WARM_UPS):
            backend.run(program.step)
        sync = backend.run_watched(program.step)
        # Contents alone: what a warm-up builds lazily and keeps is there in a real program too.
        initial.restore(bindings=False)
    except Exception as error:
        return Measurement("broken", error_text(error))
    entering("capture")
    try:
        replay, outputs = backend.capture(program.step, program.registered())
    except Exception as error:
        return Measurement("fails", error_text(error), sync)
    try:
        program.mutate()
        state = take_snapshot(program.namespace, backend.generators())
        before = observe(program.namespace)
        entering("eager")
        eager = [_observe_step(program, backend.run, program.step) for _ in range(2)]
        is_random = any(not torch.equal(generator.get_state(), saved) for generator, saved in state.generators)
        state.restore()
    except Exception as error:
        return Measurement("broken", error_text(error), sync)
    entering("replay")
    try:
        replayed = []
        for _ in range(2):
            backend.run(replay)
            replayed.append(observe(program.namespace, outputs))
    except Exception as error:
        return Measurement("wrong-on-replay", error_text(error), sync)
    if not program.comparable:
        return Measurement("ok", "", sync, "uninitialised by definition: values are not compared")
    judged = _judge(before, eager, replayed, is_random, sync)
    if judged.outcome == "wrong-on-replay" and not program.host_decides:
        state.restore()
        if differences(eager[0], _observe_step(program, backend.run, program.step)):
            return Measurement("ok", "", sync, "eager itself is not deterministic here: values are not compared")
    return judged


def error_text(error: BaseException) -> str:
    """Return the first error of the chain in one line, and the last where it says more than that capture failed."""
    first = first_error(error)
    text = _line(first)
    return text if first is error or "previous error during capture" in str(error) else f"{text} -> {_line(error)}"


def _judge(
    before: Observed, eager: list[Observed], replayed: list[Observed], is_random: bool, sync: bool
) -> Measurement:
    advances = bool(differences(eager[0], eager[1]))
    wrong = differences(eager[0], replayed[0]) or differences(eager[1], replayed[1])
    if not wrong:
        note = "draws from the device's generator" if is_random else ""
        return Measurement("advances" if advances else "ok", "", sync, note)
    if is_random and advances and differences(replayed[0], replayed[1]):
        paths = [gap.path for gap in wrong]
        if all(gap.largest is not None for gap in wrong) and is_alike(eager[0], replayed[0], paths):
            return Measurement("advances", "", sync, "random numbers differ from eager, their distribution agrees")
    return Measurement("wrong-on-replay", _describe(wrong[0], before, replayed[0]), sync)


def _describe(gap: Difference, before: Observed, replayed: Observed) -> str:
    size = "" if gap.largest is None else f", by up to {gap.largest:.3g}"
    untouched = gap.path in before and gap.path in replayed and torch.equal(before[gap.path], replayed[gap.path])
    return f"{gap.path} differs from eager{size}{'; the replay left it untouched' if untouched else ''}"


def _observe_step(
    program: Program, run: Callable[[Callable[[], object]], object], step: Callable[[], object]
) -> Observed:
    outputs = run(step)
    return observe(program.namespace, outputs)


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0] if lines else ''}".strip()
    return text[:_ERROR_LENGTH]
