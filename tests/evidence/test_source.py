"""What ran is found again after an edit: functions by digest, statements by text."""

from __future__ import annotations

import textwrap

import pytest

from capaudit.evidence.source import (
    SourceOutline,
    decode_lines,
    encode_lines,
    owner_name,
    same_statement,
)

BEFORE = textwrap.dedent(
    '''
    class Timers:
        @property
        def left(self):
            """The time left."""
            return self._left

        def restart(self, ids):
            if ids.numel():
                self._left[
                    ids
                ] = 0.0
            for step in range(3):
                self._left += step
    '''
)
AFTER = textwrap.dedent(
    '''
    import torch


    class Timers:
        # A comment that was not there.
        @property
        def left(self):
            """The time left."""

            return self._left  # and one more

        def restart(self, ids):

            if ids.numel():
                # The number is uploaded.
                self._left[
                    ids
                ] = 0.0
            for step in range(3):
                self._left += step
    '''
)


def test_comments_blank_lines_and_moves_leave_a_digest_alone_and_edits_do_not() -> None:
    before, after = SourceOutline(BEFORE), SourceOutline(AFTER)
    assert [function.name for function in before.functions] == ["Timers.left", "Timers.restart"]
    assert [f.digest for f in before.functions] == [f.digest for f in after.functions]
    edited = SourceOutline(BEFORE.replace("range(3)", "range(4)"))
    assert edited.functions[0].digest == before.functions[0].digest
    assert edited.functions[1].digest != before.functions[1].digest


def test_a_line_that_leaves_its_block_changes_the_digest() -> None:
    moved = BEFORE.replace("            self._left += step", "        self._left += step")
    assert moved != BEFORE
    inside = "def f(x):\n    if x:\n        a()\n        b()\n"
    outside = "def f(x):\n    if x:\n        a()\n    b()\n"
    assert SourceOutline(inside).functions[0].digest != SourceOutline(outside).functions[0].digest


def test_a_hash_inside_a_string_is_no_comment() -> None:
    one, other = (SourceOutline(f"def f():\n    return '# {word}'\n").functions[0] for word in ("a", "b"))
    assert one.digest != other.digest


def test_code_lines_of_the_same_digest_correspond() -> None:
    before, after = SourceOutline(BEFORE).named("Timers.restart")[0], SourceOutline(AFTER).named("Timers.restart")[0]
    assert len(before.code_lines) == len(after.code_lines)
    texts = [BEFORE.splitlines()[number - 1].strip() for number in before.code_lines]
    assert texts == [AFTER.splitlines()[number - 1].strip() for number in after.code_lines]


def test_a_statement_is_found_from_any_of_its_lines_and_a_compound_one_is_its_header() -> None:
    outline = SourceOutline(BEFORE)
    lines = BEFORE.splitlines()
    inside = next(number for number, text in enumerate(lines, 1) if text.strip() == "ids")
    statement = outline.statement_at(inside)
    assert statement is not None
    assert (statement.first, statement.last, statement.text) == (inside - 1, inside + 1, "self._left[ ids ] = 0.0")
    header = outline.statement_at(inside - 2)
    assert header is not None
    assert header.text == "if ids.numel():"


def test_layout_alone_makes_no_other_statement() -> None:
    assert same_statement("f( a, b, )", "f(a, b)")
    assert not same_statement("f(a, b)", "f(a, c)")
    assert not same_statement("", "")


def test_a_trailing_comment_is_no_part_of_a_statement() -> None:
    source = "def f(x):\n    return x.item()  # capaudit: ignore[CAP101] -- it's only a test\n"
    statement = SourceOutline(source).statement_at(2)
    assert statement is not None
    assert statement.text == "return x.item()"


@pytest.mark.parametrize(
    ("code", "owner"),
    [
        ("Env.step", "Env.step"),
        ("Env.step.<locals>.<listcomp>", "Env.step"),
        ("Env.step.<locals>.<lambda>", "Env.step"),
        ("Env.step.<locals>.inner.<locals>.<genexpr>", "Env.step.<locals>.inner"),
        ("make.<locals>.step", "make.<locals>.step"),
        ("<module>", ""),
    ],
)
def test_comprehensions_and_lambdas_belong_to_their_function(code: str, owner: str) -> None:
    assert owner_name(code) == owner


def test_ranges_of_lines_survive_the_round_trip_and_nonsense_does_not() -> None:
    assert encode_lines([5, 0, 1, 2, 3, 1]) == "0-3,5"
    assert decode_lines("0-3,5") == {0, 1, 2, 3, 5}
    assert decode_lines(encode_lines([])) == frozenset()
    for text in ("a", "1-", "-", "1,,2", "0-99999999999"):
        with pytest.raises(ValueError, match="range"):
            decode_lines(text)


def test_what_does_not_parse_has_no_functions() -> None:
    outline = SourceOutline("def broken(:\n")
    assert (outline.functions, outline.statement_at(1), outline.function_at(1)) == ((), None, None)
