"""Where the suppression comment goes: each edit is applied, and the audit itself says whether it silences."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("lsprotocol", reason="needs the lsp extra")

from capaudit.audit import AuditOptions, audit
from capaudit.lsp.actions import suppression
from capaudit.lsp.positions import split_lines, to_column, to_position, to_range
from capaudit.model import Place

HEAD = """\
import torch


def tick(left: torch.Tensor, ids: torch.Tensor):  # capaudit: boundary
"""


def codes(folder: Path) -> list[str]:
    found = audit(AuditOptions((folder,), working_directory=folder)).findings
    return sorted(finding.code for finding in found)


def silenced(folder: Path, body: str, encoding: str = "utf-16") -> str:
    """Suppress everything found in the body, one edit after the other, and return the text."""
    file = folder / "m.py"
    file.write_text(HEAD + body, encoding="utf-8")
    assert codes(folder) != []
    for _ in range(5):
        found = [f for f in audit(AuditOptions((folder,), working_directory=folder)).findings if f.hazard]
        if not found:
            break
        text = file.read_text(encoding="utf-8")
        lines = split_lines(text)
        edit = suppression(found[0], lines, encoding)
        assert edit is not None
        start, end = edit.range.start, edit.range.end
        first = sum(len(line) + 1 for line in lines[: start.line]) + to_column(start, lines, encoding)
        last = sum(len(line) + 1 for line in lines[: end.line]) + to_column(end, lines, encoding)
        file.write_text(text[:first] + edit.new_text + text[last:], encoding="utf-8")
    return file.read_text(encoding="utf-8")[len(HEAD) :]


@pytest.mark.parametrize(
    "body",
    [
        "    left[ids] = 0.0\n",
        "    left[ids] = 0.0   \n",
        "    left[ids] = 0.0",
        "    left[ids] = 0.0  # a comment\n",
        "    left[ids] = (\n        0.0\n    )\n",
        "    '\U0001f600 # no comment'; left[ids] = 0.0\n",
        "    if left.sum() > 0:\n        left.zero_()\n",
        "    left.zero_()\n    if left is None:\n        pass\n    elif left.sum() > 0:\n        left.zero_()\n",
        "    left[ids] = 0.0; y = left.sum().item()\n",
        "    # capaudit: ignore[CAP101] -- the number is wanted\n    left[ids] = left.sum().item()\n",
        "    return " + "(left + 1).sum() + " * 5 + "left.sum().item()\n",
    ],
)
def test_the_edit_silences_the_finding_and_leaves_the_program_alone(tmp_path: Path, body: str) -> None:
    after = silenced(tmp_path, body)
    assert codes(tmp_path) == []
    without = "".join(
        line[: line.index("# capaudit: ignore")].rstrip() + "\n" if "# capaudit: ignore" in line else line
        for line in after.splitlines(keepends=True)
    )
    assert [line for line in without.split() if line] == [
        word for word in body.split("# capaudit")[0].split() + body.partition("wanted")[2].split() if word
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-32"])
def test_the_edit_fits_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    silenced(tmp_path, "    '\U0001f600 # no comment'; left[ids] = 0.0\n", encoding)
    assert codes(tmp_path) == []


def test_a_second_rule_on_a_statement_joins_the_first_comment(tmp_path: Path) -> None:
    after = silenced(tmp_path, "    left[ids] = 0.0; y = left.sum().item()\n")
    assert after.count("# capaudit: ignore[") == 1 or after.count("\n") == 2


def test_columns_are_counted_in_the_units_of_the_editor() -> None:
    lines = ["x = '\U0001f600\u00e9'; y"]
    place = Place("m.py", 1, 10, 1, 11)  # y
    for encoding, column in (("utf-32", 9), ("utf-16", 10), ("utf-8", 13)):
        where = to_range(place, lines, encoding)
        assert (where.start.character, where.end.character) == (column, column + 1)
        assert to_column(where.start, lines, encoding) == 9


def test_a_place_that_is_gone_is_no_error() -> None:
    assert to_position(99, 5, ["x"], "utf-16").line == 98
    assert to_range(Place("m.py", 99, 5, 99, 9), ["x"], "utf-16").start.line == 98
