"""A heap cell settles: what it holds never grows again once it was given up to tell its alternatives apart."""

from __future__ import annotations

from typing import Any, cast

from capaudit.audit.contexts import Cell
from capaudit.audit.frame import run_context
from capaudit.audit.machine import Machine
from capaudit.audit.values import UNKNOWN, kernel, library, library_object


def _filled(atoms: list[Any]) -> tuple[Cell, list[int]]:
    machine = Machine(cast(Any, None), cast(Any, None), cast(Any, None), run_context, {})
    cell = machine.cell(library_object("cache", None), "*")
    rounds = []
    for _ in range(4):
        changes = 0
        for atom in atoms:
            before = cell.value
            machine.join_cell(cell, (atom,))
            changes += cell.value is not before
        rounds.append(changes)
    return cell, rounds


def test_a_cell_of_many_alternatives_stops_growing() -> None:
    cell, rounds = _filled([library(f"package.name{i}") for i in range(60)])
    assert UNKNOWN in cell.value
    assert rounds[1:] == [0, 0, 0]


def test_kernels_stay_apart_since_each_may_be_launched() -> None:
    cell, rounds = _filled([kernel(f"package.kernel{i}")[0] for i in range(60)])
    assert len(cell.value) == 60
    assert rounds[1:] == [0, 0, 0]
