"""The pages that ``capaudit explain`` prints: a rule, or what is known about one operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from capaudit.knowledge import Case, Operation, Rule
from capaudit.knowledge.idioms import Idiom

_SHOWN_CONDITIONS: Final = 4

# How a predicate word of the tables reads in a sentence; the others stand for themselves.
_SPOKEN: Final = {
    "device": "on the device",
    "cpu": "in host memory",
    "pinned": "pinned",
    "pageable": "pageable",
    "tensor": "a tensor",
    "0d": "0-dim",
    "bool": "a mask",
    "int": "of integers",
    "float": "of floats",
    "scalar": "a Python number",
    "number": "a Python number",
    "sequence": "a Python list",
    "range": "a range",
    "ndarray": "a NumPy array",
    "warp": "a Warp array",
    "str": "a string",
    "none": "None",
    "given": "given",
    "absent": "absent",
    "dynamic": "of data-dependent shape",
    "cuda-name": "the name of a CUDA device",
    "cpu-name": "the name of the CPU",
    "contains-device": "a container of device tensors",
    "int-tensor": "a tensor of integers",
    "0d-int": "a 0-dim integer tensor",
    "cpu-tensor": "a tensor in host memory",
    "slice": "a slice",
    "tensor-slice": "a slice bounded by a device tensor",
    "full-element": "a number for every axis",
    "no-size": "a shape with no elements",
}


def rule_page(rule: Rule) -> str:
    """Return a rule's page for a terminal: what it is, why capture forbids it, what helps, prose and examples."""
    head = [f"{rule.code} {rule.name} ({rule.ownership})", "", f"{rule.title}.", ""]
    head += [f"Why: {rule.message}.", f"Remedy: {rule.remedy}"]
    if rule.aliases:
        head.append(f"Old names: {', '.join(rule.aliases)}")
    return "\n".join([*head, "", rule.page.strip()]) + "\n"


def operation_page(operation: Operation, asked: str, rules: Mapping[str, Rule], idioms: Sequence[Idiom] = ()) -> str:
    """Return what is known about an operation: its conditions in order, its default, and the idioms that show them.

    ``asked`` is the name under which the entry was looked up; of ``idioms`` those are printed that
    speak of the entry.
    """
    lines = [asked]
    others = [name for name in operation.names if name != asked]
    if others:
        lines.append(f"  also: {', '.join(others)}")
    versions = f" {operation.versions.text}" if operation.versions else ""
    lines += [f"  library: {operation.library}{versions} ({operation.table})"]
    if operation.params:
        lines.append(f"  parameters: {', '.join(operation.params)}")
    lines.append("")
    if operation.cases:
        lines.append("The first condition that holds decides.")
    for _, alike in groupby(operation.cases, key=_consequence):
        lines += _cases(list(alike), rules)
    lines += _default(operation, rules)
    cited = {operation.evidence, *(case.evidence for case in operation.cases)}
    wanted = {identifier for group in cited for identifier in group}
    shown = [idiom for idiom in idioms if idiom.id in wanted or idiom.op in operation.names]
    if shown:
        lines += [
            "",
            "Idioms (the program is what is captured; x, y f32[64], m bool[64] and idx i64[64] on the device):",
        ]
    for idiom in shown:
        lines += _idiom(idiom)
    return "\n".join(lines) + "\n"


def _cases(cases: list[Case], rules: Mapping[str, Rule]) -> Iterable[str]:
    """Neighbouring cases with one consequence read as one condition."""
    conditions = [_condition(case) for case in cases[:_SHOWN_CONDITIONS]]
    if len(cases) > len(conditions):
        conditions.append(f"{len(cases) - len(conditions)} conditions more")
    case = cases[0]
    yield f"when {', or '.join(conditions)}:"
    yield f"  {_verdict(case.hazard, None, rules)}"
    yield from _reasons(case.why, case.remedy, case.evidence, case.inferred)
    if case.versions:
        yield f"  versions: {case.versions.text}"
    if case.capture:
        yield f"  capture started by: {', '.join(case.capture)}"


def _idiom(idiom: Idiom) -> Iterable[str]:
    hazard = f", {idiom.hazard}" if idiom.hazard else ""
    twin = f"; twin: {idiom.twin}" if idiom.twin else ""
    yield f"  {idiom.id}: {idiom.capture}{hazard}{twin}"
    for head, program in (("set up", idiom.setup), ("program", idiom.body), ("between", idiom.mutate)):
        for index, line in enumerate(program.strip().splitlines()):
            yield f"    {head if index == 0 else '':<7} | {line}"


def _consequence(case: Case) -> tuple[object, ...]:
    return case.hazard, case.why, case.remedy, case.evidence, case.inferred, case.versions, case.capture


def _default(operation: Operation, rules: Mapping[str, Rule]) -> Iterable[str]:
    yield "otherwise:" if operation.cases else "always:"
    if operation.kind == "host" and not operation.hazard and not operation.ownership:
        yield "  host work that touches no device by itself"
    else:
        yield f"  {_verdict(operation.hazard, operation.ownership, rules)}"
    yield from _reasons(operation.why, operation.remedy, operation.evidence, operation.inferred)


def _verdict(hazard: str | None, ownership: str | None, rules: Mapping[str, Rule]) -> str:
    if hazard is not None:
        return f"rejected: {hazard} {rules[hazard].name}" if hazard in rules else f"rejected: {hazard}"
    return ownership or "graph-eligible"


def _reasons(why: str, remedy: str, evidence: tuple[str, ...], inferred: str) -> Iterable[str]:
    if why:
        yield f"  why: {why}"
    if remedy:
        yield f"  remedy: {remedy}"
    if evidence:
        yield f"  idioms: {', '.join(evidence)}"
    if inferred:
        yield f"  inferred from {inferred}, not from a run"


def _condition(case: Case) -> str:
    return " and ".join(f"{_subject(name)} is {_words(words)}" for name, words in case.when) or "called"


def _subject(parameter: str) -> str:
    return {"*": "any argument", "receiver": "the object"}.get(parameter, parameter)


def _words(words: Iterable[tuple[str, bool]]) -> str:
    return " and ".join(f"not {_spoken(word)}" if negated else _spoken(word) for word, negated in words)


def _spoken(word: str) -> str:
    if word.startswith("flag:"):
        return f"known to have {word.removeprefix('flag:')}"
    return _SPOKEN.get(word, word.removeprefix("="))
