"""The probe keeps count of what ran, because silence of a line that did not run says nothing."""

from __future__ import annotations

from pathlib import Path

from capaudit.evidence.source import SourceOutline, decode_lines
from capaudit.probe.coverage import ExecutedLines, SourceTexts, ran_functions, without
from capaudit.probe.locator_roots import SourceRoots

HERE = Path(__file__).resolve()
ROOTS = SourceRoots([(HERE.parent, "tests")])


def line_of(text: str) -> int:
    lines = HERE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().endswith(f"# {text}"))


def branches(taken: bool) -> list[int]:
    found = []
    if taken:
        found.append(1)  # taken
    else:
        found.append(2)  # not taken
    return [value for value in found]  # noqa: C416


def test_lines_that_ran_are_kept_and_others_are_not() -> None:
    executed = ExecutedLines(ROOTS)
    with executed:
        branches(True)
    with executed:
        branches(True)
    assert line_of("taken") in executed.lines[str(HERE)]
    assert line_of("not taken") not in executed.lines[str(HERE)]
    assert set(executed.lines) == {str(HERE)}


def test_functions_come_with_their_digest_and_the_code_lines_that_ran() -> None:
    executed = ExecutedLines(ROOTS)
    with executed:
        branches(False)
    functions = {function.function: function for function in ran_functions(executed.lines, ROOTS, SourceTexts())}
    ran = functions["branches"]
    source = SourceOutline(HERE.read_text()).named("branches")[0]
    assert (ran.root, ran.file, ran.line, ran.digest) == ("tests", HERE.name, source.first, source.digest)
    lines = {source.code_lines[ordinal] for ordinal in decode_lines(ran.ran)}
    assert line_of("not taken") in lines
    assert line_of("taken") not in lines


def test_a_line_that_was_cut_short_does_not_count() -> None:
    lines = {"a.py": {1, 2, 3}, "b.py": {7}}
    assert without(lines, [("a.py", 2, "f"), ("b.py", 7, "g")]) == {"a.py": {1, 3}, "b.py": set()}


def test_a_file_that_is_gone_has_no_statements() -> None:
    texts = SourceTexts()
    assert texts.statement("/nowhere/at/all.py", 3) == ""
    assert ran_functions({"/nowhere/at/all.py": {1}}, ROOTS, texts) == ()
