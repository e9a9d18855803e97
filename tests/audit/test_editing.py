"""While somebody types, what is known is not worked out again, and half a word takes no findings away."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from capaudit.audit import AuditOptions, audit, engine
from capaudit.audit.editing import Session
from capaudit.model import Result
from tests.conftest import ROOT


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CAPAUDIT_CACHE_DIR", str(tmp_path / "cache"))
    shutil.copytree(ROOT / "fixtures" / "demo" / "reacher", tmp_path / "reacher")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "reacher"


@pytest.fixture
def audits(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for every audit that was made in full."""
    made: list[object] = []
    real = engine.audit_program
    monkeypatch.setattr(engine, "audit_program", lambda options: made.append(options) or real(options))
    return made


def options(program: Path, **unsaved: str) -> AuditOptions:
    texts = {program / f"{name}.py": text.encode() for name, text in unsaved.items()}
    return AuditOptions(paths=(program,), working_directory=program.parent, unsaved=texts)


def places(result: Result) -> list[tuple[str, str, int]]:
    return [(finding.code, finding.place.file, finding.place.line) for finding in result.findings]


def test_a_text_that_was_there_before_costs_no_audit(program: Path, audits: list[object]) -> None:
    session = Session()
    text = (program / "robot.py").read_text(encoding="utf-8")
    first = session.audit(options(program))
    session.audit(options(program, robot=f"{text}\n\nLIMIT = 3\n"))
    assert len(audits) == 2
    assert places(session.audit(options(program, robot=text))) == places(first)
    assert len(audits) == 2
    moved = session.audit(options(program, robot=f"# above\n{text}"))
    assert len(audits) == 2
    assert places(moved) == places(audit(options(program, robot=f"# above\n{text}")))


def test_half_a_word_takes_only_the_findings_of_its_own_file_away(program: Path, audits: list[object]) -> None:
    session = Session()
    before = session.audit(options(program))
    text = (program / "robot.py").read_text(encoding="utf-8")
    during = session.audit(options(program, robot=f"{text}\ndef ("))
    assert len(audits) == 1
    elsewhere = [place for place in places(before) if place[1] != "reacher/robot.py"]
    assert [place for place in places(during) if place[0] != "CAP905"] == elsewhere
    assert [place[:2] for place in places(during) if place[0] == "CAP905"] == [("CAP905", "reacher/robot.py")]
    assert places(session.audit(options(program, robot=text))) == places(before)
    assert len(audits) == 1


def test_a_broken_file_does_not_hide_what_changes_beside_it(program: Path, audits: list[object]) -> None:
    session = Session()
    session.audit(options(program))
    text = (program / "env.py").read_text(encoding="utf-8")
    session.audit(options(program, robot="def (", env=f"{text}\n\nLIMIT = 3\n"))
    assert len(audits) == 2


def test_a_file_that_never_was_whole_is_left_out_as_a_check_leaves_it_out(program: Path, audits: list[object]) -> None:
    given = options(program, robot="def (")
    assert places(Session().audit(given)) == places(audit(given))
