"""What is remembered of an audit may stand for a new one only where the new one would say the same, byte for byte."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from capaudit.audit import engine
from tests.cache.edits import apply
from tests.conftest import ROOT, Outcome

Run = Callable[..., Outcome]

OTHERS = ("foreign-stream", "replay-without-record", "frozen-host-state", "nameless-joint-data", "unregistered-rng")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bundled example beside some programs that it never reaches, and an empty cache."""
    monkeypatch.setenv("CAPAUDIT_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "work"
    shutil.copytree(ROOT / "fixtures" / "demo" / "reacher", folder / "src" / "reacher")
    for name in OTHERS:
        for file in sorted((ROOT / "fixtures" / name).glob("*.py"))[:3]:
            shutil.copy(file, folder / "src")
    monkeypatch.chdir(folder)
    return folder / "src"


@pytest.fixture
def audits(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for every audit that was made in full."""
    made: list[object] = []
    real = engine.audit_program
    monkeypatch.setattr(engine, "audit_program", lambda options: made.append(options) or real(options))
    return made


ENTRY = ("--entry", "reacher.env:ManagerBasedEnv.step")
WITH_FIXES = ("--operations", "--output", "json:out.json", "--output", "text")


def report(run: Run, *more: str) -> tuple[object, ...]:
    """Everything that a check says: on the streams, in its status, and in a file."""
    written = Path("out.json")
    written.unlink(missing_ok=True)
    outcome = run("check", "src", "--verbose", *more)
    return outcome.status, outcome.out, outcome.err, written.read_bytes() if written.exists() else b""


def same(run: Run, *more: str) -> tuple[object, ...]:
    """Check with and without the cache, see that both say the same, and return it."""
    cached = report(run, *more)
    assert cached == report(run, *more, "--no-cache")
    return cached


@pytest.mark.parametrize("seed", range(2))
def test_after_any_edit_what_is_remembered_and_a_full_audit_say_the_same(
    program: Path, run: Run, audits: list[object], seed: int
) -> None:
    rng = random.Random(seed)
    kept = {file: file.read_text(encoding="utf-8") for file in program.rglob("*.py")}
    options = (*ENTRY, *WITH_FIXES) if seed else ()
    answered = 0
    for number in range(12):
        if number % 4 == 0:
            for file, text in kept.items():
                file.write_text(text, encoding="utf-8")
            report(run, *options)
        apply(program, rng)
        before = len(audits)
        remembered = report(run, *options)
        if len(audits) == before:
            answered += 1
            assert remembered == report(run, *options, "--no-cache")
    assert answered  # else this has shown nothing


def changed(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(old) >= 1
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


UNNOTICED = {
    "a comment at the end": lambda f: f.write_text(f"{f.read_text()}\n# the end\n"),
    "a comment above everything": lambda f: f.write_text(f"# first of all\n{f.read_text()}"),
    "blank lines before a class": lambda f: changed(f, "\nclass ", "\n\n\nclass "),
    "another docstring": lambda f: changed(f, '"""', '"""Anew: '),
    "a longer docstring": lambda f: changed(f, '"""', '"""Anew.\n\n'),
    "comments at both ends": lambda f: f.write_text(f"# above\n{f.read_text()}# below\n"),
}


@pytest.mark.parametrize("edit", UNNOTICED)
def test_an_edit_that_no_audit_can_notice_costs_none_and_moves_every_place(
    program: Path, run: Run, audits: list[object], edit: str
) -> None:
    before = report(run, *ENTRY, *WITH_FIXES)
    UNNOTICED[edit](program / "reacher" / "managers" / "command.py")
    after = report(run, *ENTRY, *WITH_FIXES)
    assert len(audits) == 1
    assert after == report(run, *ENTRY, *WITH_FIXES, "--no-cache")
    assert (after == before) is (edit in ("a comment at the end", "another docstring"))


def test_another_way_to_report_costs_no_audit(program: Path, run: Run, audits: list[object]) -> None:
    report(run)
    run("check", "src", "--output", "markdown")
    run("check", "src", "--exit-zero", "--strict")
    run("inventory", "src")
    assert len(audits) == 2  # the inventory has operations to list


TELLING = (
    ("reacher/managers/command.py", "\nclass ", "\n# capaudit: cold-path -- set-up\nclass "),
    ("reacher/robot.py", "\nclass ", "\n# torch.set_default_device('cuda')\n\n\nclass "),
    ("reacher/env.py", "# capaudit: boundary", "# capaudit: border"),
)


@pytest.mark.parametrize(("file", "old", "new"), TELLING)
def test_a_comment_that_the_audit_reads_is_noticed(
    program: Path, run: Run, audits: list[object], file: str, old: str, new: str
) -> None:
    report(run)
    changed(program / file, old, new)
    same(run)
    assert len(audits) == 3


def test_a_comment_within_what_is_reported_is_noticed(program: Path, run: Run, audits: list[object]) -> None:
    file = program / "timers.py"
    file.write_text(
        "import torch\n\n\nclass Timers:\n    def __init__(self):\n        self.left = torch.ones(4, device='cuda')\n\n"
        "    def tick(self, ids: torch.Tensor):\n        self.left[\n            ids  # which\n        ] = 0.0\n"
    )
    entry = ("--entry", "timers:Timers.tick", *WITH_FIXES[:3])
    assert "# which" in str(report(run, *entry))
    changed(file, "# which", "# those")
    same(run, *entry)
    assert len(audits) == 3


_ASKED = re.compile(
    r"\bsource\.(?:search|matches|near|guard|part|questions|isascii|count)\b|\bin \w+(?:\.\w+)*\.source\b"
)
_READERS = {
    *("callsites.py", "index.py", "symbols.py", "walking.py", "observed.py", "late.py", "text.py", "locating.py"),
    "words.py",
}
"""Files that use the text otherwise: what they build from it depends on the syntax alone, or is asked for there."""


def test_every_question_to_a_source_text_is_noted() -> None:
    """A text handed to ``re``, or split, is asked something that nobody notes: see ``capaudit/program/text.py``."""
    for package in ("audit", "program"):
        for file in sorted((ROOT / "capaudit" / package).rglob("*.py")):
            if file.name in _READERS:
                continue
            for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
                for use in re.finditer(r"[\w.]*module\.source\b", line):
                    asked = any(m.start() <= use.end() <= m.end() + 1 for m in _ASKED.finditer(line))
                    assert asked or re.search(r"(?:=|\[) ?[\w.]*module\.source\b", line), f"{file}:{number}: {line}"
