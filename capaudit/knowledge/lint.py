"""The registry check: what the knowledge must be to be believed, as far as reading it can tell.

``python -m capaudit.knowledge.lint`` prints every problem and exits 1 when there is one. The checks
that need the engine (an idiom that it misjudges, a page example that does not give its expectations)
are tests, because knowledge lies below the audit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from capaudit.evidence import Environment, Evidence, load_folder
from capaudit.knowledge.idioms import Idiom, load_idioms
from capaudit.knowledge.loader import Knowledge, load, rules_folder
from capaudit.knowledge.operation import Case, Operation
from capaudit.knowledge.query import cited, operations_with
from capaudit.knowledge.rule import Rule
from capaudit.knowledge.versions import VersionRange
from capaudit.model import CapauditError

EFFECT_HAZARDS = frozenset({"CAP303", "CAP305", "CAP402", "CAP403", "CAP501", "CAP502", "CAP503"})
"""Hazards that follow from an operation's effect on its surroundings, so that no case has to name them."""

_OPINFO = "opinfo:"


def problems(
    knowledge: Knowledge, idioms: Mapping[str, Idiom], evidence: Sequence[tuple[str, Evidence]] = ()
) -> Iterator[str]:
    """Every problem as ``place: what is wrong``, in a stable order."""
    for entry in knowledge.entries:
        yield from _entry_problems(entry, idioms)
    for idiom in idioms.values():
        yield from _idiom_problems(idiom, knowledge, idioms)
    for rule in knowledge.rules.values():
        yield from _rule_problems(rule, knowledge, idioms)
    for name, document in evidence:
        yield from _range_problems(name, document, knowledge)


def _entry_problems(entry: Operation, idioms: Mapping[str, Idiom]) -> Iterator[str]:
    place = f"{entry.table}: {entry.name}"
    if not entry.why:
        yield f"{place}: no prose: neither the entry nor its table says why"
    if not cited(entry):
        yield f"{place}: no evidence"
    if not any(idiom.id in cited(entry) or idiom.op in entry.names for idiom in idioms.values()):
        yield f"{place}: no idiom"
    for identifier in entry.evidence:
        yield from _citation_problems(place, identifier, _default_hazards(entry), idioms)
    for position, case in enumerate(entry.cases):
        yield from _case_problems(f"{place}: cases[{position}]", case, idioms)


def _case_problems(place: str, case: Case, idioms: Mapping[str, Idiom]) -> Iterator[str]:
    # A case that is right and says no more than what it returns is a value, not a verdict.
    if not case.evidence and not case.inferred and not (case.ok and not case.why):
        yield f"{place}: neither evidence nor inferred"
    if case.hazard and not case.why:
        yield f"{place}: a hazard without why"
    for identifier in case.evidence:
        yield from _citation_problems(place, identifier, {case.hazard or ""}, idioms)


def _default_hazards(entry: Operation) -> set[str] | None:
    """Hazards that idioms of the default may show; ``None``: any, as capture is not what the entry speaks of."""
    if entry.ownership:
        return None
    if entry.hazard:
        return {entry.hazard, ""}
    return {"", *EFFECT_HAZARDS}


def _citation_problems(
    place: str, identifier: str, wanted: set[str] | None, idioms: Mapping[str, Idiom]
) -> Iterator[str]:
    if identifier.startswith(_OPINFO):
        return
    idiom = idioms.get(identifier)
    if idiom is None:
        yield f"{place}: there is no idiom {identifier!r}"
    elif wanted is not None and idiom.hazard not in wanted:
        yield f"{place}: idiom {identifier!r} shows {idiom.hazard or 'no hazard'}, which is not the declared verdict"


def _idiom_problems(idiom: Idiom, knowledge: Knowledge, idioms: Mapping[str, Idiom]) -> Iterator[str]:
    place = f"{idiom.file}: {idiom.id}"
    if knowledge.operation(idiom.op) is None:
        yield f"{place}: no entry describes {idiom.op!r}"
    if idiom.hazard and idiom.hazard not in knowledge.rules:
        yield f"{place}: unknown hazard {idiom.hazard!r}"
    if not idiom.is_right and not idiom.hazard:
        yield f"{place}: a capture that is not right needs its hazard"
    if not idiom.twin:
        return
    twin = idioms.get(idiom.twin)
    if twin is None:
        yield f"{place}: there is no twin {idiom.twin!r}"
    elif bool(twin.hazard) == bool(idiom.hazard):
        yield f"{place}: twins are one bad and one good, {idiom.twin!r} is of the same kind"


def _rule_problems(rule: Rule, knowledge: Knowledge, idioms: Mapping[str, Idiom]) -> Iterator[str]:
    place = f"rules/{Path(rule.path).name}"
    if Path(rule.path).stem != rule.name:
        yield f"{place}: the file is not called after the rule ({rule.name}.md)"
    if len(rule.prose.split()) < 30:
        yield f"{place}: the page explains too little"
    for identifier in rule.evidence:
        yield from _citation_problems(place, identifier, {"", rule.code}, idioms)
    if rule.ownership == "meta":
        return
    examples = rule.examples
    if not any(example.expects for example in examples) or all(example.expects for example in examples):
        yield f"{place}: a bad example and its good twin are needed"
    for example in examples:
        if example.expects and f"# expect: {rule.code}" not in example.source:
            yield f"{place}:{example.line}: the example expects other codes than {rule.code}"
    operations = operations_with(knowledge, rule.code)
    if operations and not rule.evidence and not any(idiom.hazard == rule.code for idiom in idioms.values()):
        yield f"{place}: no idiom shows this hazard"


def _range_problems(name: str, document: Evidence, knowledge: Knowledge) -> Iterator[str]:
    """Runs outside the version range of the case or entry that rests on them."""
    ran = {record.id for record in document.records if record.outcome not in ("not-run", "no-device", "broken")}
    for entry in knowledge.entries:
        version = _version(document.environment, entry.library)
        if version is None:
            continue
        sources: Iterable[tuple[tuple[str, ...], VersionRange | None]] = (
            (entry.evidence, entry.versions),
            *((case.evidence, case.versions or entry.versions) for case in entry.cases),
        )
        for identifiers, versions in sources:
            for identifier in identifiers:
                if identifier in ran and versions is not None and not versions.contains(version):
                    yield (
                        f"{entry.table}: {entry.name}: {identifier!r} ran with {entry.library} {version} ({name}), "
                        f"outside of {versions.text}"
                    )


def _version(environment: Environment, library: str) -> str | None:
    versions = {
        "python": environment.python,
        "torch": environment.torch,
        "warp": environment.warp,
        "mujoco": environment.mujoco,
        "mujoco_warp": environment.mujoco_warp,
    }
    return versions.get(library)


def main() -> int:
    """Check the shipped knowledge and the evidence beside it; return the exit status."""
    try:
        knowledge = load()
        idioms = load_idioms()
        folder = rules_folder() / "evidence"
        found = list(problems(knowledge, idioms, load_folder(folder) if folder.is_dir() else ()))
    except CapauditError as error:
        print(error, file=sys.stderr)
        return error.status
    for line in found:
        print(line)
    count = len(knowledge.entries)
    print(
        f"{count} entries, {len(idioms)} idioms, {len(knowledge.rules)} rules: {len(found)} problems", file=sys.stderr
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
