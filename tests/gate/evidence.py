"""Evidence of runs that never were: what a probe would write about a small program, built by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from capaudit.evidence import Environment, Event, Evidence, RanFunction, SelfProof, StackFrame, write
from capaudit.evidence.source import SourceOutline, encode_lines

PROVEN = (SelfProof("host-scalar-read", "a read", True), SelfProof("dynamic-shape", "a shape", True))


def line_of(source: str, text: str) -> int:
    """The number of the first line that holds ``text``."""
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


def frame(source: str, text: str, *, root: str = "robots", file: str = "env.py") -> StackFrame:
    """The frame of the line that holds ``text``, as the probe names it."""
    outline = SourceOutline(source)
    line = line_of(source, text)
    function, statement = outline.function_at(line), outline.statement_at(line)
    assert function is not None
    assert statement is not None
    return StackFrame(file, line, function.name, root, statement.text)


def event(
    source: str,
    *texts: str,
    hazard: str = "CAP101",
    kind: str = "host-scalar-read",
    count: int = 3,
    file: str = "env.py",
) -> Event:
    """An event at the first text's line, called from the lines of the others, innermost first."""
    stack = tuple(frame(source, text, file=file) for text in texts)
    own = stack[0]
    return Event(own.root, own.file, own.line, own.function, kind, hazard, count, {}, stack, "seen", own.text)


def ran(
    source: str, *, root: str = "robots", file: str = "env.py", without: Iterable[str] = ()
) -> tuple[RanFunction, ...]:
    """Every function of the source as having run, all lines but those that hold a text of ``without``."""
    lines = source.splitlines()
    found = []
    for function in SourceOutline(source).functions:
        numbers = [
            index
            for index, line in enumerate(function.code_lines)
            if not any(text in lines[line - 1] for text in without)
        ]
        found.append(RanFunction(root, file, function.name, function.first, function.digest, encode_lines(numbers)))
    return tuple(found)


def run(
    *events: Event,
    sources: tuple[RanFunction, ...] = (),
    mode: str = "trace",
    device: str = "cuda",
    verdict: str = "faults",
    proofs: tuple[SelfProof, ...] = PROVEN,
    capture: str = "torch",
    error_mode: str = "global",
) -> Evidence:
    """The document of one run."""
    return Evidence(
        kind="run",
        date="2026-11-30T01:02:03+00:00",
        environment=Environment("3.12.3", "Linux", gpu="NVIDIA H200", torch="2.11.0"),
        target={"name": "robots"},
        mode=mode,
        parameters={"device": device, "capture": capture, "error_mode": error_mode},
        verdict=verdict,  # type: ignore[arg-type]
        self_proof=proofs,
        events=events,
        sources=sources,
    )


def saved(evidence: Evidence, file: Path) -> Path:
    """Write a document and return its file."""
    write(evidence, file)
    return file
