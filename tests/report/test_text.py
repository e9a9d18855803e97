from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from capaudit.knowledge import load
from capaudit.model import EvidenceVerdict, InputError, Place, RelatedPlace
from capaudit.report import RenderOptions, render
from capaudit.report.source import frame, printable
from tests.report.sample import UPLOAD, sample, written


def text(folder: Path, **options: bool) -> str:
    return render("text", sample(), RenderOptions(working_directory=written(folder), **options))


def test_a_finding_shows_place_rule_message_code_path_story_and_remedy(tmp_path: Path) -> None:
    assert f"""\
timers.py:3:9: CAP103[host-to-device-copy] the number is uploaded first (certain)
  3 | self.left[ids] = 0.0
    | ^^^^^^^^^^^^^^^^^^^^
  reached by: Timers.tick  (defined at timers.py:5)
              -> Timers.restart  (called at timers.py:6)
  because:    left is a device tensor
              ids holds integers
  at capture: {load().rules["CAP103"].message}
  instead:    Use index_fill_.
""" in text(tmp_path)


def test_the_general_reason_is_told_once_per_rule(tmp_path: Path) -> None:
    twice = sample(findings=(UPLOAD, replace(UPLOAD, place=Place("timers.py", 6, 9, 6, 20))))
    report = render("text", twice, RenderOptions(working_directory=written(tmp_path)))
    assert report.count("CAP103[host-to-device-copy]") == 2
    assert report.count("at capture:") == 1


def test_the_boundary_says_what_was_audited_and_who_declared_it(tmp_path: Path) -> None:
    assert text(tmp_path).startswith("boundary tick: timers:Timers.tick at timers.py:5 (torch capture; comment)\n")


def test_a_finding_without_a_boundary_is_not_lost(tmp_path: Path) -> None:
    report = text(tmp_path)
    assert "about the audit itself\n\nbroken.py:1:1: CAP905[unparsable-file]" in report


def test_the_summary_counts_every_class_and_what_is_unresolved(tmp_path: Path) -> None:
    report = text(tmp_path)
    assert "2 findings in 1 boundary: 1 host-to-device-copy, 1 unparsable-file\n" in report
    assert "2 graph-eligible, 0 completion-owned, 0 cold-path, 1 rejected, 1 unresolved;" in report


def test_a_clean_result_says_so() -> None:
    assert "no findings in 1 boundary" in render("text", sample(findings=()), RenderOptions())


def test_nothing_audited_does_not_look_like_a_clean_result() -> None:
    report = render("text", sample(findings=(), boundaries=()), RenderOptions())
    assert "nothing was audited" in report
    assert "no findings" not in report


def test_branches_left_out_are_counted_and_listed_on_request(tmp_path: Path) -> None:
    assert "1 x the device is a CPU there" in text(tmp_path)
    assert "timers.py:4: the device is a CPU there" in text(tmp_path, verbose=True)


def test_unresolved_calls_name_the_annotation_that_settles_them(tmp_path: Path) -> None:
    assert "annotate self.helper (settles 1 call), for example\n      timers.py:6:9: self.helper()" in text(tmp_path)


def test_wall_time_appears_only_with_statistics(tmp_path: Path) -> None:
    assert "1.50 s" not in text(tmp_path)
    assert "1.50 s" in text(tmp_path, statistics=True)


def test_colours_change_nothing_but_colour(tmp_path: Path) -> None:
    colored = text(tmp_path, color=True)
    assert "\033[31mCAP103[host-to-device-copy]\033[0m" in colored
    assert re.sub(r"\033\[\d+m", "", colored) == text(tmp_path)


def test_links_lead_to_the_line_of_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    linked = text(folder, color=True, links=True)
    assert f"\033]8;;{folder.as_uri()}/timers.py#L3\033\\" in linked
    assert re.sub(r"\033\]8;;.*?\033\\", "", linked) == text(folder, color=True)


def test_a_narrow_terminal_folds_at_blanks_and_a_file_never_does(tmp_path: Path) -> None:
    finding = replace(UPLOAD, message="one two three " * 12, why=("word " * 40,), remedy="x" * 90)
    result = sample(findings=(finding,))
    options = RenderOptions(working_directory=written(tmp_path), width=60)
    report = render("text", result, options)
    block = report.split("\n\n")[1].split("\n")
    assert all(len(line) <= 60 for line in block if "x" * 90 not in line)
    assert "x" * 90 in report  # a word stays whole
    assert block[1].startswith("    ")
    unfolded = render("text", result, replace(options, width=None))
    assert report.split() == unfolded.split()


def test_a_code_frame_fits_the_terminal_and_keeps_its_place_in_sight(tmp_path: Path) -> None:
    (tmp_path / "timers.py").write_text(f"a = {'b + ' * 40}self.left[ids]\n", encoding="utf-8")
    place = Place("timers.py", 1, 165, 1, 179)
    finding = replace(UPLOAD, place=place, statement=place)
    report = render("text", sample(findings=(finding,)), RenderOptions(working_directory=tmp_path, width=60))
    code, carets = (line for line in report.split("\n") if line.startswith(("  1 |", "    |")))
    assert len(code) <= 60
    assert code[carets.index("^") : carets.rindex("^") + 1] == "self.left[ids]"


def test_a_related_place_and_an_evidence_verdict_are_shown(tmp_path: Path) -> None:
    related = RelatedPlace(Place("timers.py", 6, 9, 6, 26), "captured here")
    finding = replace(UPLOAD, related=(related,), evidence=EvidenceVerdict.CONFIRMED)
    report = render("text", sample(findings=(finding,)), RenderOptions(working_directory=written(tmp_path)))
    assert "see also:   timers.py:6:9: captured here\n  6 | self.restart(ids)\n" in report
    assert "evidence:   confirmed" in report


def test_a_vanished_source_costs_the_frame_and_not_the_finding(tmp_path: Path) -> None:
    report = render("text", sample(), RenderOptions(working_directory=tmp_path))
    assert "CAP103" in report
    assert "^" not in report


def test_a_latin_1_source_is_framed_in_its_declared_encoding(tmp_path: Path) -> None:
    (tmp_path / "timers.py").write_bytes(b"# -*- coding: latin-1 -*-\n\nself.gr\xf6sse[ids] = 0.0\n")
    report = render("text", sample(), RenderOptions(working_directory=tmp_path))
    assert "self.grösse[ids] = 0.0" in report


@pytest.mark.parametrize("codec", ["hex", "rot13", "idna", "no-such-codec"])
def test_a_codec_that_gives_no_text_costs_no_report(tmp_path: Path, codec: str) -> None:
    written(tmp_path)
    source = tmp_path / UPLOAD.place.file
    source.write_text(f"# coding: {codec}\n" + source.read_text())
    assert f"{UPLOAD.place.file}:{UPLOAD.place.line}" in render("text", sample(), RenderOptions(tmp_path))


def test_a_very_long_line_is_cut_to_the_surroundings_of_the_place() -> None:
    line = "table = [" + "0, " * 5000 + "x.item(), " + "1, " * 5000 + "]"
    start = line.index("x.item()")
    shown, carets = frame(line, Place("a.py", 1, start + 1, 1, start + 9))
    assert len(shown) < 200
    assert shown.startswith("...")
    assert shown.endswith("...")
    assert shown[len(carets) - 8 : len(carets)] == "x.item()"
    assert carets.strip() == "^" * 8


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="choose one of text, json"):
        render("yaml", sample(), RenderOptions())


@pytest.mark.parametrize(
    ("line", "columns", "expected"),
    [
        ("    x.item()", (5, 13), ("x.item()", "^^^^^^^^")),
        ("\tx.item()", (2, 10), ("x.item()", "^^^^^^^^")),
        ("y = '漢' + x.item()", (11, 19), ("y = '漢' + x.item()", "           ^^^^^^^^")),
        ("a\tb.item()", (3, 11), ("a   b.item()", "    ^^^^^^^^")),
        ("short", (40, 50), ("short", "     ^")),
    ],
)
def test_carets_stand_under_the_marked_source(line: str, columns: tuple[int, int], expected: tuple[str, str]) -> None:
    assert frame(line, Place("f.py", 1, columns[0], 1, columns[1])) == expected


def test_a_place_of_several_lines_is_marked_to_the_end_of_its_first() -> None:
    assert frame("  f(a,", Place("f.py", 1, 3, 4, 2)) == ("f(a,", "^^^^")


def test_source_cannot_steer_the_terminal() -> None:
    assert printable("a\033[2Jb\u202ec") == "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}c"
