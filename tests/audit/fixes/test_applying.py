from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from capaudit.audit.fixes.applying import Rewrite, rewrites, write
from capaudit.model import Confidence, Edit, Finding, Fix, InputError, OwnershipClass, Place
from tests.audit.fixes.programs import findings, program

SOURCE = "def step(x, ids):\n    x[ids] = 0.0  # the timers\n    return x\n"
PUT = Place("a.py", 2, 5, 2, 17)


def finding(*edits: Edit, name: str = "index-fill", safe: bool = True, place: Place = PUT) -> Finding:
    fix = Fix(name, "why", safe, edits)
    return Finding(
        "CAP103",
        "host-to-device-copy",
        OwnershipClass.REJECTED,
        "host-to-device-copy",
        place,
        place,
        "message",
        Confidence.CERTAIN,
        "",
        (),
        (),
        "",
        "f00d",
        fix=fix,
    )


FILL = Edit(PUT, "x.index_fill_(0, ids, 0.0)")


def rewritten(folder: Path, data: bytes, *found: Finding) -> Rewrite:
    (folder / "a.py").write_bytes(data)
    (rewrite,) = rewrites(found, (), folder)
    return rewrite


@pytest.mark.parametrize(
    "data",
    [
        SOURCE.encode(),
        SOURCE.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + SOURCE.encode(),
        SOURCE.rstrip("\n").encode(),
    ],
    ids=["plain", "crlf", "byte order mark", "no line break at the end"],
)
def test_everything_but_the_edit_stays_byte_for_byte(tmp_path: Path, data: bytes) -> None:
    rewrite = rewritten(tmp_path, data, finding(FILL))
    assert rewrite.after == data.replace(b"x[ids] = 0.0", b"x.index_fill_(0, ids, 0.0)")
    assert rewrite.fixes
    assert rewrite.after != data


def test_a_declared_encoding_and_tabs_stay(tmp_path: Path) -> None:
    text = "# -*- coding: latin-1 -*-\ndef step(x, ids):\n\tx[ids] = 0.0  # für später\n"
    place = Place("a.py", 3, 2, 3, 14)
    rewrite = rewritten(tmp_path, text.encode("latin-1"), finding(replace(FILL, place=place), place=place))
    assert rewrite.after.decode("latin-1") == text.replace("x[ids] = 0.0", "x.index_fill_(0, ids, 0.0)")


def test_columns_count_characters_and_not_bytes(tmp_path: Path) -> None:
    text = 'def step(x, ids):\n    é = "日本"; x[ids] = 0.0\n'
    column = text.split("\n")[1].index("x[") + 1
    place = Place("a.py", 2, column, 2, column + 12)
    rewrite = rewritten(tmp_path, text.encode(), finding(replace(FILL, place=place), place=place))
    assert rewrite.after.decode() == text.replace("x[ids] = 0.0", "x.index_fill_(0, ids, 0.0)")


def test_the_program_around_a_real_fix_keeps_decorators_comments_and_layout(tmp_path: Path) -> None:
    source = program(
        """
# before
i = torch.arange(  # how many
    3,
    device="cuda",
)

self.x[i] = (
    0.0
)  # after
""".strip("\n")
    ).replace("    def step", "    @torch.no_grad()\n    def step")
    found = findings(tmp_path, source)
    (rewrite,) = rewrites(found, (), tmp_path)
    assert rewrite.after.decode() == source.replace(
        "self.x[i] = (\n            0.0\n        )", "self.x.index_fill_(0, i, 0.0)"
    )


def test_a_comment_inside_is_worth_more_than_the_fix(tmp_path: Path) -> None:
    text = SOURCE.replace("x[ids] = 0.0", "x[  # which\n        ids\n    ] = 0.0")
    place = Place("a.py", 2, 5, 4, 12)
    rewrite = rewritten(tmp_path, text.encode(), finding(replace(FILL, place=place), place=place))
    assert rewrite.after == rewrite.before
    assert [reason for _, reason in rewrite.dropped] == ["a comment inside would be lost"]
    assert rewrite.diff() == ""


def test_a_fix_that_would_not_parse_is_dropped_and_the_others_go_in(tmp_path: Path) -> None:
    broken = finding(Edit(Place("a.py", 3, 12, 3, 13), "x["), name="broken")
    rewrite = rewritten(tmp_path, SOURCE.encode(), broken, finding(FILL))
    assert [fix.name for fix in rewrite.fixes] == ["index-fill"]
    assert rewrite.dropped[0][1].startswith("the result would not parse")
    assert b"index_fill_" in rewrite.after


def test_of_fixes_that_overlap_the_first_goes_in_and_edits_of_one_fix_stay_together(tmp_path: Path) -> None:
    outer = finding(FILL, Edit(Place("a.py", 3, 12, 3, 13), "(x)"), name="a")
    inner = finding(Edit(Place("a.py", 2, 14, 2, 17), "1.0"), Edit(Place("a.py", 1, 5, 1, 9), "tick"), name="b")
    rewrite = rewritten(tmp_path, SOURCE.encode(), inner, outer)
    assert [fix.name for fix in rewrite.fixes] == ["b"]
    assert b"def tick" in rewrite.after
    assert b"(x)" not in rewrite.after


def test_accepted_debt_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE, encoding="utf-8")
    accepted = replace(finding(FILL), fix=None)
    assert rewrites([finding(FILL)], [accepted], tmp_path) == []


def test_unsafe_fixes_wait_until_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE, encoding="utf-8")
    assert rewrites([finding(FILL, safe=False)], (), tmp_path) == []
    assert rewrites([finding(FILL, safe=False)], (), tmp_path, unsafe=True)


def test_the_diff_applies_with_patch(tmp_path: Path) -> None:
    rewrite = rewritten(tmp_path, SOURCE.rstrip("\n").encode(), finding(FILL))
    assert rewrite.diff().startswith("--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n")
    assert rewrite.diff().count("\\ No newline at end of file") <= 2


def test_writing_keeps_the_mode_and_follows_a_link(tmp_path: Path) -> None:
    rewrite = rewritten(tmp_path, SOURCE.encode(), finding(FILL))
    (tmp_path / "a.py").rename(tmp_path / "real.py")
    (tmp_path / "real.py").chmod(0o755)
    (tmp_path / "a.py").symlink_to("real.py")
    write(rewrite, tmp_path)
    assert (tmp_path / "a.py").is_symlink()
    assert (tmp_path / "real.py").read_bytes() == rewrite.after
    assert (tmp_path / "real.py").stat().st_mode & 0o777 == 0o755
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.py", "real.py"]


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    rewrite = rewritten(tmp_path, SOURCE.encode(), finding(FILL))
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match="changed meanwhile"):
        write(rewrite, tmp_path)
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == "x = 1\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    rewrite = rewritten(tmp_path, SOURCE.encode(), finding(FILL))
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(InputError, match="cannot be written"):
            write(rewrite, tmp_path)
    finally:
        tmp_path.chmod(0o755)


def test_an_ordinary_check_does_not_import_libcst() -> None:
    code = "import sys, capaudit.cli.check, capaudit.audit; sys.exit('libcst' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
