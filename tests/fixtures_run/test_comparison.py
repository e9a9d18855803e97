"""The judge is judged first: a runner that lets a miss pass would make every fixture worthless."""

from __future__ import annotations

import pytest

from .comparison import Found, compare
from .expectations import Expectation, ExpectationError, parse_source


def expectations(*lines: str) -> tuple[Expectation, ...]:
    return parse_source("\n".join(lines) + "\n", "a.py")


def finding(code: str, line: int, end_line: int | None = None, path: tuple[str, ...] = ()) -> Found:
    return Found(code, "a.py", line, end_line or line, path)


def test_a_comment_inside_a_string_expects_nothing() -> None:
    assert expectations('text = "# expect: CAP103"') == ()


def test_a_clause_may_follow_another_comment() -> None:
    assert [e.codes for e in expectations("f()  # noqa: E722  # expect: CAP604")] == [{"CAP604"}]


def test_alternatives_and_conjunctions_are_told_apart() -> None:
    either, *both = expectations("f()  # expect: CAP101 | CAP202", "g()  # expect: CAP101, CAP103")
    assert either.codes == {"CAP101", "CAP202"}
    assert [sorted(e.codes) for e in both] == [["CAP101"], ["CAP103"]]


@pytest.mark.parametrize("comment", ["# expect:", "# expect: CAP1", "# todo-miss: CAP103", "# expect: CAP103 via A >"])
def test_a_clause_outside_the_grammar_is_an_error(comment: str) -> None:
    with pytest.raises(ExpectationError):
        expectations(f"f()  {comment}")


def test_a_miss_and_a_surplus_are_both_reported() -> None:
    result = compare([finding("CAP102", 2)], expectations("f()  # expect: CAP101", "g()"))
    assert result.missing == ("missing a.py:1: CAP101",)
    assert result.surplus == ("surplus a.py:2: CAP102",)


def test_a_finding_counts_for_every_line_of_its_statement() -> None:
    result = compare([finding("CAP101", 1, 3)], expectations("f(", "    x,  # expect: CAP101", ")"))
    assert result.problems == ()


def test_another_code_on_the_line_is_a_miss_and_a_surplus() -> None:
    result = compare([finding("CAP103", 1)], expectations("f()  # expect: CAP101"))
    assert len(result.missing) == len(result.surplus) == 1


def test_the_call_path_must_end_as_written() -> None:
    wanted = expectations("f()  # expect: CAP101 via A.tick > helper")
    right = finding("CAP101", 1, path=("m:A.tick", "m.helper"))
    wrong = finding("CAP101", 1, path=("m:A.tick", "m.other"))
    assert compare([right], wanted).problems == ()
    assert compare([wrong], wanted).missing[0].startswith("other path at a.py:1")


def test_an_accepted_place_stands_in_for_the_expected_one() -> None:
    wanted = expectations("use(self.head)  # expect: CAP501", "self.head += 1  # accept: CAP501")
    assert compare([finding("CAP501", 2)], wanted).problems == ()
    assert compare([], wanted).missing == ("missing a.py:1: CAP501",)


def test_a_todo_that_has_come_right_is_a_problem() -> None:
    wanted = expectations("f()  # todo-miss: CAP101 needs aliasing", "g()  # todo-false: CAP102 widened too early")
    open_result = compare([finding("CAP102", 2)], wanted)
    assert open_result.problems == ()
    assert open_result.open_todos == 2
    settled = compare([finding("CAP101", 1)], wanted)
    assert len(settled.settled_todos) == 2
    assert settled.surplus == ()
    assert settled.open_todos == 0
