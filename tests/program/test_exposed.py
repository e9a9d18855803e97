from __future__ import annotations

import ast

import pytest

from capaudit.program.exposed import exposed_names


@pytest.mark.parametrize(
    ("body", "exposed"),
    [
        ("x = f(i)\ny = x", {"f", "i"}),
        ("y = x\nx = f()", {"x", "f"}),
        ("total += i", {"total", "i"}),
        ("if a:\n    x = 1\ny = x", {"a", "x"}),
        ("if a:\n    x = 1\nelse:\n    x = 2\ny = x", {"a"}),
        ("for j in r:\n    x = j\ny = x", {"r", "x"}),
        ("with m() as h:\n    x = h\ny = x", {"m", "x"}),
        ("try:\n    x = 1\nexcept E:\n    pass\ny = x", {"E", "x"}),
        ("x, (y, *z) = f()\ng(x, y, z)", {"f", "g"}),
        ("x[i] = 0", {"x", "i"}),
        ("del x", {"x"}),
        ("h = lambda: x\nx = 1", {"x"}),
        ("global x\nx = 1", {"x"}),
        ("x: int\ny = x", {"int", "x"}),
    ],
)
def test_a_name_is_exposed_when_a_round_may_read_it_before_binding_it(body: str, exposed: set[str]) -> None:
    assert exposed_names(ast.parse(body).body) == exposed


def test_the_loop_s_own_target_is_bound_and_the_head_of_a_while_is_read_first() -> None:
    body = ast.parse("y = x").body
    assert exposed_names(body, ["x"]) == frozenset()
    assert exposed_names(ast.parse("x = 1").body, (), ast.parse("x", mode="eval").body) == {"x"}
