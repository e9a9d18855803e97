"""The structural questions about MJWarp and capture, each with the answer that is expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from capaudit.evidence import Record

Outcome = Literal["ok", "fails", "unbalanced", "wrong_on_replay"]
StatementVerdict = Literal["confirmed", "refuted", "not run"]


@dataclass(frozen=True, slots=True)
class Question:
    """One setup and its expected outcome. ``error`` are words of which one has to be in the error message."""

    id: str
    subject: str
    expected: Outcome
    error: tuple[str, ...] = ()
    hazard: str | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of the decision record, and the questions that decide it."""

    id: str
    text: str
    questions: tuple[str, ...]


_NESTED = tuple(
    Question(
        f"nested-{inner}-graph-in-{outer}-capture",
        f"A {inner.capitalize()} graph is replayed inside a capture ({outer})",
        "fails",
        hazard="CAP401",
    )
    for inner in ("warp", "torch")
    for outer in ("torch", "shared", "warp")
)

QUESTIONS: tuple[Question, ...] = (
    Question("warp-captures-step", "Warp captures the step itself", "ok"),
    Question(
        "warp-captures-step-without-pool", "Warp captures the step with its memory pool disabled", "fails", ("pool",)
    ),
    Question(
        "torch-step-not-registered",
        "Torch captures the step, Warp on the same stream and not told",
        "fails",
        hazard="CAP302",
    ),
    Question("torch-transient-array", "Torch captures, a Warp array is made and dies inside", "fails", hazard="CAP302"),
    Question("torch-kept-array", "Torch captures, the same Warp array lives until after the capture", "ok"),
    Question(
        "torch-older-array-freed",
        "Torch captures, an older Warp array is freed and nothing allocated",
        "fails",
        hazard="CAP305",
    ),
    Question(
        "torch-relaxed-conditional",
        "Torch captures the step relaxed, Warp not told, with conditional nodes",
        "fails",
        hazard="CAP101",
    ),
    Question(
        "torch-relaxed-unrolled",
        "Torch captures the step relaxed, Warp not told, without conditional nodes",
        "unbalanced",
        hazard="CAP302",
    ),
    Question("registered-step", "Torch captures the step, registered with Warp", "ok"),
    Question("registered-step-unrolled", "The same without conditional nodes", "ok"),
    *_NESTED,
    Question("reset-by-mask", "reset_data with a device mask in a Torch capture", "ok"),
    Question(
        "scoped-stream-sync-enter",
        "wp.ScopedStream with its default sync_enter=True in a Torch capture",
        "fails",
        hazard="CAP402",
    ),
    Question("collector-tick", "A whole collector tick, Torch captures, registered with Warp", "ok"),
)

STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "nested-replay-prohibited",
        "Nested graph replay is prohibited during a caller's capture",
        tuple(question.id for question in _NESTED),
    ),
    Statement(
        "transient-allocation-invalidates",
        "Transient allocation and free invalidate the caller's capture",
        ("torch-step-not-registered", "torch-transient-array", "torch-kept-array", "torch-older-array-freed"),
    ),
    Statement(
        "registered-route-captures",
        "The route that registers the shared stream's capture with Warp captures the step with parity",
        ("registered-step", "registered-step-unrolled", "collector-tick"),
    ),
)


def agrees(question: Question, record: Record) -> bool:
    """Whether a run answered a question as expected."""
    if record.outcome != question.expected:
        return False
    return not question.error or any(word in record.error.lower() for word in question.error)


def judge_statements(records: Mapping[str, Iterable[Record]]) -> tuple[Record, ...]:
    """Return one record per statement. ``records`` holds each question's records, over all lines of mujoco_warp.

    ``confirmed`` needs every question answered as expected on every line that ran; one contrary answer
    refutes; a question that could not be run leaves the statement not run.
    """
    by_id = {question.id: question for question in QUESTIONS}
    judged = []
    for statement in STATEMENTS:
        answers = [(by_id[name], record) for name in statement.questions for record in records.get(name, ())]
        ran = [(question, record) for question, record in answers if record.outcome != "not run"]
        contrary = [record.id for question, record in ran if not agrees(question, record)]
        missing = [name for name in statement.questions if not any(question.id == name for question, _ in ran)]
        verdict: StatementVerdict = "refuted" if contrary else "not run" if missing or not ran else "confirmed"
        evidence = contrary or [record.id for _, record in ran]
        note = f"evidence: {', '.join(evidence)}" if evidence else ""
        if missing:
            note = "; ".join(part for part in (note, f"not run: {', '.join(missing)}") if part)
        judged.append(Record(id=f"statement-{statement.id}", subject=statement.text, outcome=verdict, note=note))
    return tuple(judged)
