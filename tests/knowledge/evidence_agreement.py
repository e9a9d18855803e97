"""What the committed runs say about the declarations: idiom by idiom, and operator by operator.

``python -m tests.knowledge.evidence_agreement`` prints the counts, what has no run, and what contradicts one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from capaudit.evidence import Evidence, Record, load_folder
from capaudit.knowledge import Knowledge, load, rules_folder
from capaudit.knowledge.idioms import Idiom, load_idioms
from capaudit.knowledge.operation import Case, Operation
from capaudit.probe.ops_idioms import digest

_UNMEASURED = ("not-run", "no-device", "broken")
_RIGHT = ("ok", "advances")
_NAMESPACES = ("", "Tensor.", "nn.functional.")

EXPLAINED: Mapping[str, str] = {
    "cholesky_inverse": "the samples are single matrices; a batch fails, and conditions do not speak of a batch",
    "cholesky_solve": "as cholesky_inverse",
    "isin": "only a long list of wanted values is sorted; conditions do not speak of lengths",
    "linalg.lu": "only rectangular matrices fail; conditions do not speak of shapes",
    "linalg.lu_factor_ex": "as linalg.lu",
    "linalg.svd": "the samples are empty matrices, which are not factored",
    "nn.functional.max_unpool3d": "the sample's indices collide, so that two eager runs need not agree either",
    "svd": "as linalg.svd",
}
"""Operators whose verdict a table cannot or should not follow, and why."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """``right`` things agree with a run, ``wrong`` ones contradict it (name: what was seen), ``open`` have no run."""

    right: tuple[str, ...]
    wrong: Mapping[str, str]
    open: tuple[str, ...]

    @property
    def share(self) -> float:
        """The part of what was measured that agrees."""
        return len(self.right) / max(1, len(self.right) + len(self.wrong))


def runs(kind: str, folder: Path | None = None) -> tuple[Evidence, ...]:
    """The committed runs of one kind."""
    return tuple(
        document for _, document in load_folder(folder or rules_folder() / "evidence") if document.kind == kind
    )


def proofs(idiom: Idiom, documents: Iterable[Evidence]) -> list[Record]:
    """Records of the very text that the idiom has today, where something was measured."""
    found = (document.record(idiom.id) for document in documents)
    return [r for r in found if r and r.outcome not in _UNMEASURED and r.values.get("program") == digest(idiom)]


def idiom_agreement(idioms: Iterable[Idiom], documents: Sequence[Evidence]) -> Agreement:
    """Compare every idiom's declared capture with the runs of its present text."""
    right, wrong, unmeasured = [], {}, []
    for idiom in idioms:
        records = proofs(idiom, documents)
        bad = [record for record in records if _captured(record.outcome) != _captured(idiom.capture)]
        if bad:
            wrong[idiom.id] = f"declared {idiom.capture}, measured {bad[0].outcome}: {bad[0].error}"
        elif records:
            right.append(idiom.id)
        else:
            unmeasured.append(idiom.id)
    return Agreement(tuple(right), wrong, tuple(unmeasured))


def operator_agreement(knowledge: Knowledge, documents: Iterable[Evidence]) -> Agreement:
    """Compare every operator that an entry describes with the sweep; ``open`` have an entry but no measured sample."""
    right, wrong, unmeasured = [], {}, []
    for record, version in ((record, d.environment.torch) for d in documents for record in d.records):
        entries = entries_of(record, knowledge)
        if not entries:
            continue
        if record.outcome in _UNMEASURED:
            unmeasured.append(record.id)
        elif contradictions := [entry.name for entry in entries if not agrees(entry, record, version)]:
            wrong[record.id] = f"{record.outcome} on {record.values['input']}; {', '.join(contradictions)}"
        else:
            right.append(record.id)
    return Agreement(tuple(right), wrong, tuple(unmeasured))


def entries_of(record: Record, knowledge: Knowledge) -> list[Operation]:
    """The entries that describe an operator of the sweep, under any name that it has in torch."""
    names = (f"torch.{space}{name}" for name in dict.fromkeys((record.id, record.subject)) for space in _NAMESPACES)
    found = {entry.name: entry for name in names if (entry := knowledge.operations.get(name))}
    return list(found.values())


def agrees(entry: Operation, record: Record, version: str | None) -> bool:
    """Whether the entry's verdict for the recorded sample is what happened.

    The record keeps one sample: of an operator that failed the first that did. ``varies`` needs
    a hazard for that sample, as ``fails`` does; a hazard on a right one is a false alarm.
    """
    arguments = _Arguments(entry, str(record.values["input"]))
    case = next((case for case in entry.cases if arguments.satisfy(case, version)), None)
    rejected = bool(case.hazard) if case and (case.hazard or case.ok) else bool(entry.hazard)
    return rejected != (record.outcome in _RIGHT)


class _Arguments:
    """The arguments of a sample as the record writes them: ``float32: tensor[5, 5], 2, dim=0``."""

    def __init__(self, entry: Operation, text: str) -> None:
        self._dtype, _, rest = text.partition(": ")
        self._values: dict[str, str] = {}
        positional = list(entry.params)
        for part in (part for part in re.split(r", (?![^\[(]*[\])])", rest) if part):
            if named := re.fullmatch(r"(\w+)=(.*)", part):
                self._values[named[1]] = named[2]
            elif positional and not positional[0].startswith("*"):
                self._values[positional.pop(0)] = part

    def satisfy(self, case: Case, version: str | None) -> bool:
        if case.capture and "torch" not in {str(kind) for kind in case.capture}:
            return False
        if version and case.versions is not None and not case.versions.contains(version):
            return False
        return all(all(self._holds(name, word) != negated for word, negated in words) for name, words in case.when)

    def _holds(self, name: str, word: str) -> bool:
        value = self._values.get(name)
        if word in ("given", "absent"):
            return (value is None) == (word == "absent")
        if word.startswith("not-") and word != "not-0d":
            return value is None or value != word.removeprefix("not-").title()
        if value is None:
            return word == "none"
        is_tensor = value.startswith("tensor[")
        match word:
            case "device" | "tensor":
                return is_tensor
            case "0d" | "not-0d":
                return is_tensor and (value == "tensor[]") == (word == "0d")
            case "scalar" | "number":
                return re.fullmatch(r"-?[\d.]+(e-?\d+)?|inf|-inf|nan", value) is not None
            case "sequence":
                return value.startswith(("[", "("))
            case "bool" | "int" | "float":
                return is_tensor and self._dtype.startswith(word)
            case "true" | "false" | "none":
                return value == word.title()
            case _:
                return word.startswith("=") and value.strip("'") == word[1:]


def _captured(outcome: str) -> str:
    return "ok" if outcome == "advances" else outcome


def main() -> int:
    """Print both comparisons; return 1 when one finds a contradiction that nothing explains."""
    idioms = idiom_agreement(load_idioms().values(), runs("ops"))
    operators = operator_agreement(load(), runs("opinfo"))
    for title, found in (("idioms", idioms), ("operators", operators)):
        counts = f"{len(found.right)} agree, {len(found.wrong)} disagree ({found.share:.2%}), {len(found.open)} open"
        print(f"{title}: {counts}")
        for name, seen in found.wrong.items():
            print(f"  {name}: {seen}\n    {EXPLAINED.get(name, 'UNEXPLAINED')}")
        for name in found.open:
            print(f"  open: {name}")
    return 1 if idioms.wrong or set(operators.wrong) - set(EXPLAINED) else 0


if __name__ == "__main__":
    sys.exit(main())
