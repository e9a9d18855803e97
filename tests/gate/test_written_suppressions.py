"""Comments written by the program: every finding silenced, and nothing else in the file touched."""

from __future__ import annotations

import ast
import difflib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Outcome
from tests.gate.robot import commit, project

Run = Callable[..., Outcome]

AWKWARD = '''\
import torch


class Env:
    x = torch.zeros(8, device="cuda")

    def step(self, ids: torch.Tensor, flag: bool) -> float:  # capaudit: boundary
        done   =   torch.nonzero( self.x )   # kept as it is
        if flag: self.x.cpu()
        if self.x.any():
            pass
        elif self.x.all():  # and this
            pass
        while self.x.sum() > 0:
            break
        total = (
            self.x.norm()
            .item()
        )
        text = f"""
        {self.x.max().item()}
        """; self.x.tolist()
        try:
            self.x[ids] = 0.0
        except ValueError: self.x.numpy()
        else:
            self.x.neg_()
        return self.x.sum().item() + self.x.a_name_that_is_so_long_that_no_comment_fits_behind_it_on_the_line.item()
'''


def added(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines that came and lines that went."""
    changes = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    return [line[2:] for line in changes if line[:1] == "+"], [line[2:] for line in changes if line[:1] == "-"]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_every_finding_is_silenced_and_only_comments_are_new(folder: Path, run: Run, ending: str) -> None:
    file = project(folder)
    data = AWKWARD.replace("\n", ending).encode()
    file.write_bytes(data)
    found = json.loads(run("check", "--output", "json").out)["findings"]
    assert len(found) >= 8
    outcome = run("check", "--output", "json", "--add-suppressions", "checked by hand")
    assert outcome.status == 0, outcome.out
    document = json.loads(outcome.out)
    assert document["findings"] == []
    assert len(document["suppressed"]) == len(found)
    assert {finding["suppression"]["reason"] for finding in document["suppressed"]} == {"checked by hand"}
    after = file.read_bytes()
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(data))
    assert after.count(b"\r\n") in (0, after.count(b"\n"))
    came, went = added(data.decode(), after.decode())
    assert all("# capaudit: ignore[" in line for line in came)
    assert all(any(line == new.partition("  # capaudit")[0] for new in came) for line in went)
    # A second time there is nothing left to write.
    assert "wrote 0" in run("check", "--add-suppressions", "again").err
    assert file.read_bytes() == after


def test_a_kill_between_writing_and_replacing_leaves_the_file(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project(folder)
    before = file.read_bytes()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    assert run("check", "--add-suppressions", "why").status != 0
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["env.py"]


def test_permissions_and_links_stay(folder: Path, run: Run) -> None:
    file = project(folder)
    real = file.rename(folder / "robots" / "real.py")
    real.chmod(0o640)
    file.symlink_to("real.py")
    assert run("check", "robots/real.py", "--add-suppressions", "why").status == 0
    assert real.stat().st_mode & 0o777 == 0o640
    assert file.is_symlink()


def test_the_ledger_lists_reason_age_and_evidence(folder: Path, run: Run) -> None:
    from tests.gate.evidence import event, saved
    from tests.gate.evidence import run as run_of

    file = project(folder)
    assert run("check", "--add-suppressions", "checked by hand").status == 0
    commit(folder)
    with file.open("a") as stream:
        stream.write(
            "\n    def log(self) -> None:  # capaudit: completion-owned -- after the replay\n        self.x.cpu()\n"
        )
    saved(run_of(event(file.read_text(), "norm().item()", "return self.norm()")), folder / "trace.json")
    outcome = run("ledger", "--output", "json", "--evidence", "trace.json")
    rows = json.loads(outcome.out)
    assert [row["kind"] for row in rows] == ["ignore", "ignore", "ignore", "completion-owned"]
    first = rows[0]
    assert (first["rules"], first["reason"], first["silences"]) == (["host-scalar-read"], "checked by hand", ["CAP101"])
    assert first["evidence"] == ["confirmed"]
    assert first["age_days"] in (0, 1)
    assert rows[-1]["since"] is None  # not committed yet
    text = run("ledger").out
    assert "checked by hand" in text
    assert text.endswith("4 comments\n")
