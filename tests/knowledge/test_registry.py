"""The registry check: the knowledge agrees with itself, with the engine, and with the fixtures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from capaudit.audit import AuditOptions, audit
from capaudit.audit.configuration import Configuration
from capaudit.evidence import load_folder
from capaudit.knowledge import Example, Rule, load, rules_folder
from capaudit.knowledge.idioms import Idiom, load_idioms
from capaudit.knowledge.lint import problems
from capaudit.model import Confidence, Finding, OwnershipClass
from tests.fixtures_run.comparison import Found, compare
from tests.fixtures_run.expectations import parse_source
from tests.knowledge.idiom_program import sources

KNOWLEDGE = load()
IDIOMS = load_idioms()
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
EVIDENCE = rules_folder() / "evidence"
IDIOMS_PER_PROGRAM = 25
"""Few enough that the audit stays linear, many enough that loading the knowledge does not dominate."""


def examples() -> list[tuple[Rule, Example]]:
    return [(rule, example) for rule in KNOWLEDGE.rules.values() for example in rule.examples]


def name_of(value: object) -> str:
    return value.name if isinstance(value, Rule) else f"line {value.line}" if isinstance(value, Example) else str(value)


def audited(folder: Path) -> tuple[Finding, ...]:
    everything = Configuration(extend_select=("ORD",))
    return audit(AuditOptions(paths=(folder,), working_directory=folder, configuration=everything)).findings


def test_the_knowledge_holds_together() -> None:
    evidence = load_folder(EVIDENCE) if EVIDENCE.is_dir() else ()
    found = list(problems(KNOWLEDGE, IDIOMS, evidence))
    assert not found, "\n  ".join(["", *found])


@pytest.mark.parametrize(("rule", "example"), examples(), ids=name_of)
def test_an_example_of_a_page_gives_what_it_expects(rule: Rule, example: Example, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(example.source, encoding="utf-8")
    # Unresolved calls are a count of the run, not a finding that an example speaks of.
    found = [
        Found(f.code, f.place.file, f.statement.line, f.statement.end_line, ())
        for f in audited(tmp_path)
        if f.code != "CAP901"
    ]
    comparison = compare(found, parse_source(example.source, "example.py"))
    assert not comparison.problems, "\n  ".join(["", *comparison.problems])


@pytest.mark.parametrize("rule", [r for r in KNOWLEDGE.rules.values() if r.ownership != "meta"], ids=name_of)
def test_a_fixture_makes_each_rule_fire(rule: Rule) -> None:
    bad = sorted((FIXTURES / rule.name).glob("bad_*"))
    assert bad, f"fixtures/{rule.name} has no bad twin"
    assert any(
        rule.code in expectation.codes and expectation.kind == "expect"
        for place in bad
        for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))
        for expectation in parse_source(path.read_text(encoding="utf-8"), path.name)
    )


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, frozenset[str]]:
    """The hazards that the audit finds in each idiom; every idiom is a package, some of them make a program."""
    found: dict[str, set[str]] = {identifier: set() for identifier in IDIOMS}
    for batch in batched(IDIOMS.values(), IDIOMS_PER_PROGRAM):
        folder = tmp_path_factory.mktemp("idioms")
        packages = {f"idiom_{position}": idiom for position, idiom in enumerate(batch)}
        for name, idiom in packages.items():
            write_package(folder / name, idiom)
        for finding in audited(folder):
            idiom = packages[finding.place.file.split("/")[0]]
            if finding.ownership is OwnershipClass.REJECTED and not (idiom.is_right and depends(finding)):
                found[idiom.id].add(finding.code)
    return {identifier: frozenset(codes) for identifier, codes in found.items()}


def depends(finding: Finding) -> bool:
    """Whether the entry itself says that the hazard shows with some drivers or releases; a run shows one of them."""
    operation = KNOWLEDGE.operation(finding.operation)
    return (
        finding.confidence is Confidence.POSSIBLE
        and operation is not None
        and operation.confidence is Confidence.POSSIBLE
    )


def batched(idioms: Iterable[Idiom], size: int) -> Iterator[list[Idiom]]:
    """Programs of ``size`` idioms; one that switches something for its whole process is a program by itself."""
    remaining = []
    for idiom in idioms:
        if "set_default_" in idiom.setup + idiom.body:
            yield [idiom]
        else:
            remaining.append(idiom)
    while remaining:
        yield remaining[:size]
        remaining = remaining[size:]


def write_package(package: Path, idiom: Idiom) -> None:
    package.mkdir()
    (package / "__init__.py").touch()
    for name, text in sources(idiom).items():
        (package / name).write_text(text.replace("import kmod", "from . import kmod"), encoding="utf-8")


def misjudged(idioms: Iterable[Idiom], verdicts: dict[str, frozenset[str]]) -> list[str]:
    wrong = []
    for idiom in idioms:
        codes = verdicts[idiom.id]
        if idiom.hazard and idiom.hazard not in codes:
            wrong.append(f"{idiom.id}: {idiom.hazard} is not found ({', '.join(sorted(codes)) or 'nothing is'})")
        elif not idiom.hazard and codes:
            wrong.append(f"{idiom.id}: {', '.join(sorted(codes))} is found in a program that is right")
    return wrong


def test_the_engine_judges_every_idiom_as_declared(verdicts: dict[str, frozenset[str]]) -> None:
    wrong = misjudged(IDIOMS.values(), verdicts)
    assert not wrong, "\n  ".join([f"{len(wrong)} of {len(IDIOMS)}", *wrong])
