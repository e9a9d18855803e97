"""Joins over abstract values: they only move up, settle at once, and never lose a callable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from capaudit.audit.values import (
    NOTHING,
    Tensor,
    Value,
    const,
    host,
    items,
    join,
    none,
    sequence,
    tensor,
    unknown,
)

_ATOMS: list[Value] = [
    const(0),
    const(1),
    const(True),
    const("a"),
    none,
    unknown,
    host("int"),
    host("int", ("frozen", "x", None)),
    host("float"),
    (tensor("cuda", element="float", rank=2),),
    (tensor("cuda", element="float", rank=1),),
    (tensor("cuda", element="bool"),),
    (tensor("cpu", element="float"),),
    items((const(1), const(2))),
    items((host("int"), const(2))),
    sequence("list", host("int")),
]
_VALUES = st.lists(st.sampled_from(_ATOMS), max_size=5).map(lambda parts: _joined(parts))


def _joined(parts: list[Value]) -> Value:
    result: Value = NOTHING
    for part in parts:
        result = join(result, part)
    return result


def test_true_and_one_are_different_constants() -> None:
    assert const(True) != const(1)


def test_the_empty_value_is_neutral() -> None:
    assert join(NOTHING, const(3)) == join(const(3), NOTHING) == const(3)


@given(_VALUES, _VALUES)
def test_joining_again_changes_nothing(left: Value, right: Value) -> None:
    once = join(left, right)
    assert join(once, right) is once
    assert join(once, left) is once


@given(st.lists(st.sampled_from(_ATOMS), min_size=30, max_size=60))
def test_a_chain_of_joins_settles_after_few_changes(parts: list[Value]) -> None:
    value: Value = NOTHING
    changes = 0
    for part in parts:
        grown = join(value, part)
        changes += grown is not value
        value = grown
    assert changes <= 2 * len(_ATOMS)


def test_join_forgets_the_rank_on_which_the_branches_disagree() -> None:
    one, two = (tensor("cuda", element="float", rank=1),), (tensor("cuda", element="float", rank=2),)
    (joined,) = join(one, two)
    assert isinstance(joined, Tensor)
    assert joined.rank is None
    assert joined.element == "float"


def test_a_value_that_may_be_on_the_device_is_a_device_tensor() -> None:
    joined = join((tensor("cpu", element="int"),), (tensor("cuda", element="int"),))
    assert [atom.device for atom in joined if isinstance(atom, Tensor)] == ["cuda"]


def test_a_tainted_number_keeps_its_taint_when_it_meets_a_clean_one() -> None:
    taint = ("frozen", "self.step_index", None)
    assert join(host("int"), host("int", taint)) == host("int", taint)
