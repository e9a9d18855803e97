"""Input that nobody means well: one clear error each, status 2, and every file as it was."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Outcome
from tests.gate.robot import ENV, commit, project

Run = Callable[..., Outcome]
ENTRY = {
    "fingerprint": "0123456789abcdef0123",
    "code": "CAP101",
    "file": "robots/env.py",
    "function": "Env.step",
    "text": "self.x.any()",
    "reason": "at adoption",
    "added": "2026-11-30",
}


def refused(outcome: Outcome, *words: str) -> None:
    """One message on stderr, nothing on stdout, status 2, no traceback."""
    assert outcome.status == 2, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert "internal error" not in outcome.err
    assert outcome.err.count("rror: ") == 1, outcome.err
    for word in words:
        assert word in outcome.err


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("severity = 3", "severity"),
        ("severity = {CAP101 = 'loud'}", "loud"),
        ("severity = {CAP999 = 'note'}", "CAP999"),
        ("overrides = {}", "overrides"),
        ("overrides = [{ignore = ['CAP1']}]", "paths"),
        ("overrides = [{paths = ['a']}]", "changes nothing"),
        ("overrides = [{paths = ['a'], ignroe = ['CAP1']}]", "ignroe"),
        ("overrides = [{paths = ['a'], ignore = ['nothing-such']}]", "nothing-such"),
        ("overrides = [{paths = [1], ignore = ['CAP1']}]", "paths[0]"),
        ("baseline = ['a.json']", "baseline"),
        ("baseline = 'nowhere.json'", "nowhere.json"),
        ("evidence = 'evidence'", "evidence"),
        ("evidence = ['nowhere']", "nowhere"),
        ("evidence = ['../\\u0000']", "evidence"),
        ("require-evidence = 'yes'", "require-evidence"),
        ("require-evidence = true", "evidence is required"),
        ("severity = {CAP101 = 'note'", "TOML"),
    ],
)
def test_a_hostile_configuration_is_refused(folder: Path, run: Run, text: str, word: str) -> None:
    project(folder, text)
    refused(run("check"), word)


GOOD_EVIDENCE = json.dumps(
    {
        "schema": "capaudit-evidence/1",
        "kind": "run",
        "date": "2026-11-30T00:00:00+00:00",
        "environment": {"python": "3.12", "platform": "Linux"},
        "target": {},
        "mode": "trace",
        "parameters": {},
        "verdict": "clean",
        "sources": [{"root": "robots", "file": "env.py", "function": "f", "line": 1, "digest": "0", "ran": "0-3"}],
    }
)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "cut short"),
        (GOOD_EVIDENCE.encode()[:-20], "cut short"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"[1, 2]", "object"),
        (b"{}", "schema"),
        (GOOD_EVIDENCE.replace("evidence/1", "evidence/9").encode(), "evidence/9"),
        (GOOD_EVIDENCE.replace('"0-3"', '"0-99999999999"').encode(), "$.sources[0].ran"),
        (GOOD_EVIDENCE.replace('"0-3"', "[1, 2]").encode(), "$.sources[0].ran"),
        (GOOD_EVIDENCE.replace('"env.py"', '"/etc/passwd"').encode(), "$.sources[0].file"),
        (GOOD_EVIDENCE.replace('"env.py"', '"../../env.py"').encode(), "$.sources[0].file"),
        (GOOD_EVIDENCE.replace('"line": 1', '"line": -1').encode(), "$.sources[0]"),
        (GOOD_EVIDENCE.replace('"clean"', '"splendid"').encode(), "splendid"),
        (b"[" * 100_000, "deep"),
        (GOOD_EVIDENCE.replace('"kind": "run"', '"kind": "matrix"').encode(), "matrix"),
    ],
)
def test_hostile_evidence_is_refused(folder: Path, run: Run, data: bytes, word: str) -> None:
    project(folder)
    (folder / "trace.json").write_bytes(data)
    before = snapshot(folder)
    refused(run("check", "--evidence", "trace.json"), "trace.json", word)
    assert snapshot(folder) == before


def test_evidence_that_is_not_there_is_refused(folder: Path, run: Run) -> None:
    project(folder)
    (folder / "empty").mkdir()
    refused(run("check", "--evidence", "nowhere.json"), "nowhere.json")
    refused(run("check", "--evidence", "empty"), "empty")
    refused(run("check", "--require-evidence"), "evidence is required")


def baseline_text(**changes: object) -> str:
    entry = {key: value for key, value in {**ENTRY, **changes}.items() if value is not None}
    return json.dumps({"schema": "capaudit-baseline/1", "entries": [entry]})


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "JSON"),
        (baseline_text()[:-10], "JSON"),
        ("[" * 100_000, "JSON"),
        ("[]", "schema"),
        (baseline_text().replace("baseline/1", "baseline/7"), "baseline/7"),
        ('{"schema": "capaudit-baseline/1", "entries": {}}', "entries"),
        ('{"schema": "capaudit-baseline/1", "entries": [7]}', "entries[0]"),
        (baseline_text(reason=""), "reason"),
        (baseline_text(reason=None), "reason"),
        (baseline_text(added="yesterday"), "added"),
        (baseline_text(added="2026-02-31"), "added"),
        (baseline_text(count=0), "count"),
        (baseline_text(count=True), "count"),
        (baseline_text(code=101), "code"),
        (baseline_text(surplus=1), "surplus"),
        (baseline_text().replace("}]", "}, " + json.dumps(ENTRY) + "]"), "twice"),
        ("<<<<<<< ours\n" + baseline_text(), "JSON"),
    ],
)
def test_a_hostile_baseline_is_refused_and_left_alone(folder: Path, run: Run, text: str, word: str) -> None:
    project(folder)
    (folder / "capaudit-baseline.json").write_text(text)
    before = snapshot(folder)
    for command in (["check"], ["baseline", "update"], ["baseline", "show"]):
        refused(run(*command), "capaudit-baseline.json", word)
    assert snapshot(folder) == before


def test_a_baseline_that_is_no_text_or_no_file_is_refused(folder: Path, run: Run) -> None:
    project(folder)
    (folder / "capaudit-baseline.json").write_bytes(b"\xff\x00")
    refused(run("check"), "UTF-8")
    (folder / "capaudit-baseline.json").unlink()
    (folder / "capaudit-baseline.json").mkdir()
    refused(run("check"), "capaudit-baseline.json")


def test_a_failing_write_leaves_the_old_baseline(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project(folder)
    assert run("baseline", "write", "--reason", "at adoption").status == 0
    before = snapshot(folder)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    refused(run("baseline", "write", "--reason", "again", "--force"), "No space left")
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("ignore[CAP201]", ["CAP201", "CAP903"]),
        ("ignore[CAP201] --", ["CAP201", "CAP903"]),
        ("ignore[CAP201] --   ", ["CAP201", "CAP903"]),
        ("ignore -- all of it", ["CAP201", "CAP902"]),
        ("ignore[] -- all of it", ["CAP201", "CAP902"]),
        ("ignore[CAP9999] -- no such code", ["CAP201", "CAP902"]),
        ("ignore[*] -- everything", ["CAP201", "CAP902"]),
        ("ignore[CAP2] -- a prefix", ["CAP201", "CAP902"]),
        ("ignore[CAP101] -- another rule", ["CAP201", "CAP902"]),
        ("ignore[CAP201, CAP102] -- one too many", ["CAP902"]),
        ("ignore[CAP201] until=tomorrow -- soon", ["CAP201", "CAP902"]),
        ("ignore[CAP201] until=2026-02-31 -- soon", ["CAP201", "CAP902"]),
        ("ignore[CAP201] until=2020-01-01 -- long ago", ["CAP201", "CAP902"]),
        ("ignore[CAP201] forever -- please", ["CAP201", "CAP902"]),
        ("ingore[CAP201] -- misspelt", ["CAP201", "CAP904"]),
        ("ignore[CAP201] until=2999-12-31 -- for now", []),
        ("ignore[dynamic-compaction]--tight", []),
    ],
)
def test_a_hostile_suppression_silences_nothing_and_says_why(
    folder: Path, run: Run, comment: str, codes: list[str]
) -> None:
    source = "import torch\n\n\ndef step(x: torch.Tensor) -> None:  # capaudit: boundary\n    torch.nonzero(x)"
    project(folder, source=f"{source}  # capaudit: {comment}\n")
    outcome = run("check", "--output", "json")
    assert "Traceback" not in outcome.err
    assert outcome.status == (1 if codes else 0)
    assert sorted(finding["code"] for finding in json.loads(outcome.out)["findings"]) == codes


def with_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes | None) -> None:
    stream = None if data is None else io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", stream)


@pytest.mark.parametrize(
    ("data", "arguments", "word"),
    [
        (b"def f(:\n", ("-",), "<stdin>:1"),
        (b"x = 'never closed\n", ("-",), "<stdin>:1"),
        (b"\xff\xfe\x00", ("-",), "decoded"),
        (b"x = 1\n\x00\n", ("-",), "valid Python"),
        (b"# coding: no-such-codec\n", ("-",), "no-such-codec"),
        (b"(" * 5000, ("-",), "<stdin>"),
        (b"x = " + b"9" * 5000, ("-",), "<stdin>"),
        (None, ("-",), "closed"),
        (b"x = 1\n", ("-", "--stdin-filename", "robots"), "folder"),
        (b"x = 1\n", ("-", "--stdin-filename", ""), "no file name"),
        (b"x = 1\n", ("-", "--stdin-filename", "notes.txt"), "no Python file"),
        (b"x = 1\n", ("-", "--stdin-filename", "robots/env.py/inner.py"), "no folder"),
        (b"x = 1\n", ("-", "--stdin-filename", "a" * 5000 + ".py"), "path"),
        (b"x = 1\n", ("-", "robots"), "--stdin-filename"),
        (b"x = 1\n", ("-", "--add-suppressions", "why"), "--add-suppressions"),
    ],
)
def test_hostile_text_on_stdin_is_refused(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, data: bytes | None, arguments: tuple[str, ...], word: str
) -> None:
    project(folder)
    before = snapshot(folder)
    with_stdin(monkeypatch, data)
    refused(run("check", *arguments), word)
    assert snapshot(folder) == before


@pytest.mark.parametrize("reason", ["", "   ", "two\nlines", "a\x1bescape", "\u2028"])
def test_a_reason_that_is_no_line_of_text_changes_no_file(folder: Path, run: Run, reason: str) -> None:
    project(folder)
    before = snapshot(folder)
    refused(run("check", "--add-suppressions", reason), "reason")
    assert snapshot(folder) == before


def test_a_file_in_another_encoding_takes_no_reason_that_it_cannot_hold(folder: Path, run: Run) -> None:
    file = project(folder)
    file.write_bytes(b"# coding: latin-1\n" + ENV.encode("latin-1"))
    before = snapshot(folder)
    refused(run("check", "--add-suppressions", "\u6e2c\u8a66"), "encoding")
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    "revision", ["nowhere", "-h", "--output=x", "HEAD:robots/env.py", "", "HEAD\x00", "HEAD^{tree}"]
)
def test_a_revision_that_is_none_is_refused(folder: Path, run: Run, revision: str) -> None:
    project(folder)
    commit(folder)
    before = snapshot(folder / "robots")
    refused(run("check", f"--since={revision}"))
    assert snapshot(folder / "robots") == before


def test_a_folder_without_git_has_no_past(folder: Path, run: Run) -> None:
    project(folder)
    refused(run("check", "--since", "HEAD"), "git")
