"""Audit every fixture program and compare it with the expectations in its comments, line by line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from capaudit.audit import AuditOptions, audit
from capaudit.audit.configuration import Configuration
from capaudit.model import OwnershipClass

from .comparison import Comparison, Found, compare
from .expectations import parse_tree

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
PROGRAM_PREFIXES = ("bad_", "good_")
EVERYTHING = Configuration(extend_select=("ORD",))
"""With the rules and hits that have to be asked for."""


def programs() -> list[Path]:
    """Twins (a file or a package each), whole programs, and the demo."""
    twins = [p for p in sorted(FIXTURES.glob("*/*")) if p.name.startswith(PROGRAM_PREFIXES)]
    whole = sorted((FIXTURES / "programs").glob("*.py"))
    return [*twins, *whole, FIXTURES / "demo"]


def judge(program: Path) -> Comparison:
    """Run the audit as a user would, over the one program, from the fixtures folder."""
    options = AuditOptions(paths=(program,), working_directory=FIXTURES, configuration=EVERYTHING)
    result = audit(options)
    found = [
        Found(f.code, f.statement.file, f.statement.line, f.statement.end_line, tuple(h.function for h in f.call_path))
        for f in result.findings
        if f.ownership is OwnershipClass.REJECTED
    ]
    return compare(found, parse_tree(program, FIXTURES))


def name_of(program: Path) -> str:
    return program.relative_to(FIXTURES).as_posix().removesuffix(".py")


@pytest.mark.parametrize("program", programs(), ids=name_of)
def test_the_audit_finds_what_the_comments_expect(
    program: Path, record_property: Callable[[str, object], None]
) -> None:
    comparison = judge(program)
    record_property("open_todos", comparison.open_todos)
    assert not comparison.problems, "\n  ".join(["", *comparison.problems])


@pytest.mark.parametrize("program", [p for p in programs() if p.name.startswith("bad_")], ids=name_of)
def test_a_bad_twin_expects_something_and_a_good_one_stands_beside_it(program: Path) -> None:
    assert any(e.kind in ("expect", "todo-miss") for e in parse_tree(program, FIXTURES))
    twin = program.with_name(program.name.replace("bad_", "good_", 1))
    assert twin.exists()
    assert not any(e.kind in ("expect", "todo-miss") for e in parse_tree(twin, FIXTURES))
