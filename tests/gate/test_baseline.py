"""The ratchet: what counts as accepted, what as new, and what a part of the program may not decide."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import Outcome
from tests.gate.robot import commit, edit, git, project

Run = Callable[..., Outcome]


def entries(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "capaudit-baseline.json").read_text())["entries"]
    return found


def accept(run: Run) -> None:
    outcome = run("baseline", "write", "--reason", "at adoption")
    assert outcome.status == 0, outcome.err


def codes(outcome: Outcome) -> list[str]:
    assert outcome.status in (0, 1), outcome.err
    return sorted(finding["code"] for finding in json.loads(outcome.out)["findings"])


def test_every_entry_has_a_reason_and_a_day_and_no_line(folder: Path, run: Run, monkeypatch: Any) -> None:
    project(folder)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1796083200")
    accept(run)
    assert {(entry["reason"], entry["added"]) for entry in entries(folder)} == {("at adoption", "2026-12-01")}
    assert all("line" not in entry for entry in entries(folder))
    assert len((folder / "capaudit-baseline.json").read_text().splitlines()) == len(entries(folder)) + 5


def test_a_reason_is_needed_and_a_second_write_refused(folder: Path, run: Run) -> None:
    project(folder)
    assert run("baseline", "write").status == 2
    assert not (folder / "capaudit-baseline.json").exists()
    accept(run)
    before = (folder / "capaudit-baseline.json").read_bytes()
    again = run("baseline", "write", "--reason", "again")
    assert again.status == 2
    assert "update" in again.err
    assert (folder / "capaudit-baseline.json").read_bytes() == before


def test_a_second_copy_of_an_accepted_statement_is_new(folder: Path, run: Run) -> None:
    file = project(folder)
    accept(run)
    edit(file, "        done = torch.nonzero(self.x)\n", "        done = torch.nonzero(self.x)\n" * 2)
    assert codes(run("check", "--output", "json")) == ["CAP201"]


def test_update_grows_only_with_the_flag_and_a_reason(folder: Path, run: Run) -> None:
    file = project(folder)
    accept(run)
    edit(file, "            self.x.add_(1.0)\n", "            self.x.add_(1.0)\n            self.x.cpu()\n")
    before = entries(folder)
    refused = run("baseline", "update")
    assert (refused.status, entries(folder)) == (1, before)
    assert run("baseline", "update", "--grow").status == 2
    assert run("baseline", "update", "--reason", "later").status == 2
    assert run("baseline", "update", "--grow", "--reason", "until the mirror lands").status == 0
    assert [entry["reason"] for entry in entries(folder) if entry["code"] == "CAP102"] == ["until the mirror lands"]
    assert codes(run("check", "--output", "json")) == []


def test_an_update_that_changes_nothing_leaves_the_bytes(folder: Path, run: Run) -> None:
    project(folder)
    accept(run)
    before = (folder / "capaudit-baseline.json").stat()
    assert run("baseline", "update").status == 0
    after = (folder / "capaudit-baseline.json").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_an_audit_of_a_part_takes_no_entry_of_the_rest_out(folder: Path, run: Run) -> None:
    project(folder)
    other = folder / "robots" / "other.py"
    other.write_text("import torch\n\n\ndef tick(x: torch.Tensor) -> None:  # capaudit: boundary\n    x.cpu()\n")
    accept(run)
    everything = entries(folder)
    assert run("baseline", "update", "robots/other.py").status == 0
    assert entries(folder) == everything
    assert run("baseline", "update", "--entry", "other:tick").status in (0, 1)
    assert len(entries(folder)) == len(everything)
    other.unlink()
    assert run("baseline", "update").status == 0
    assert {entry["file"] for entry in entries(folder)} == {"robots/env.py"}


def test_the_reason_and_the_day_follow_the_code(folder: Path, run: Run, monkeypatch: Any) -> None:
    file = project(folder)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1796083200")
    accept(run)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    edit(file, "def norm(", "def length(")
    edit(file, "self.norm()", "self.length()")
    assert run("baseline", "update").status == 0
    (entry,) = (entry for entry in entries(folder) if "norm().item()" in entry["text"])
    assert (entry["function"], entry["added"], entry["reason"]) == ("Env.length", "2026-12-01", "at adoption")


def test_the_same_baseline_serves_from_any_folder(folder: Path, run: Run, monkeypatch: Any) -> None:
    project(folder)
    accept(run)
    monkeypatch.chdir(folder / "robots")
    outcome = run("check", "--output", "json")
    assert (outcome.status, codes(outcome)) == (0, [])


def test_a_contradiction_cannot_be_accepted(folder: Path, run: Run) -> None:
    from tests.gate.evidence import ran, saved
    from tests.gate.evidence import run as run_of

    file = project(folder)
    document = run_of(sources=ran(file.read_text()), verdict="clean")
    saved(document, folder / "trace.json")
    assert run("baseline", "write", "--reason", "all of it", "--evidence", "trace.json").status == 0
    assert "CAP906" not in {entry["code"] for entry in entries(folder)}
    assert "CAP906" in codes(run("check", "--output", "json", "--evidence", "trace.json"))


def test_isolated_and_no_baseline_accept_nothing(folder: Path, run: Run) -> None:
    project(folder)
    accept(run)
    assert run("check", "--no-baseline").status == 1
    assert run("check", "robots", "--isolated").status == 1
    assert run("check", "robots", "--isolated", "--baseline", "capaudit-baseline.json").status == 0


def test_since_a_revision_tells_what_the_change_brought_wherever_it_shows(folder: Path, run: Run) -> None:
    file = project(folder)
    (folder / "robots" / "maths.py").write_text("import torch\n\n\ndef mean(x):\n    return x.mean()\n")
    edit(file, "import torch\n", "import torch\n\nfrom maths import mean\n")
    edit(file, "            self.x.add_(1.0)\n", "            self.x.add_(mean(self.x))\n")
    commit(folder)
    assert codes(run("check", "--output", "json", "--since", "HEAD")) == []
    # A change in one file makes a hazard in it that only the other file's call reaches.
    (folder / "robots" / "maths.py").write_text("import torch\n\n\ndef mean(x):\n    return x.mean().item()\n")
    edit(file, "import torch\n", "\n\nimport torch\n")
    outcome = run("check", "--output", "json", "--since", "HEAD")
    assert codes(outcome) == ["CAP101"]
    assert json.loads(outcome.out)["findings"][0]["file"] == "robots/maths.py"
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "faulty")
    assert codes(run("check", "--output", "json", "--since", "HEAD~1")) == ["CAP101"]
    assert codes(run("check", "--output", "json", "--since", "HEAD")) == []


def test_a_boundary_that_did_not_exist_is_new_in_all_of_it(folder: Path, run: Run) -> None:
    project(folder)
    commit(folder)
    other = folder / "robots" / "other.py"
    other.write_text("import torch\n\n\ndef tick(x: torch.Tensor) -> None:\n    x.cpu()\n")
    outcome = run("check", "--output", "json", "--since", "HEAD", "--entry", "other:tick")
    assert codes(outcome) == ["CAP102"]
