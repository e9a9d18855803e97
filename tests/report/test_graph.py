from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from capaudit.model import Hop, Operation, OwnershipClass, Place, ReachedFunction, Result
from capaudit.report.graph import render_graph
from tests.report.sample import OPERATIONS, sample

PLACE = Place("timers.py", 1, 1, 1, 2)


def reached(name: str, *callers: str) -> ReachedFunction:
    return ReachedFunction(name, PLACE, "tick", tuple(Hop(caller, "timers.py", 1) for caller in callers))


def with_functions(*functions: ReachedFunction, operations: tuple[Operation, ...] = ()) -> Result:
    return replace(sample(), functions=functions, operations=operations)


def test_dot_names_every_function_with_its_counts_and_calls() -> None:
    text = render_graph(sample(), "dot")
    assert 'b0n0 [label="Timers.tick\\n2 graph-eligible"' in text
    assert 'b0n1 [label="Timers.restart\\n1 rejected"' in text
    assert "    b0n0 -> b0n1;\n" in text


def test_mermaid_draws_the_same_graph() -> None:
    text = render_graph(sample(), "mermaid")
    assert text.startswith("flowchart LR\n")
    assert 'b0n1["Timers.restart<br/>1 rejected"]:::rejected' in text
    assert "    b0n0 --> b0n1\n" in text


def test_several_calls_are_one_edge_with_their_number() -> None:
    result = with_functions(reached("m.a"), reached("m.b", "m.a", "m.a"))
    assert 'b0n0 -> b0n1 [label="2"];' in render_graph(result, "dot")
    assert "b0n0 -->|2| b0n1" in render_graph(result, "mermaid")


def test_names_cannot_break_out_of_their_label() -> None:
    hostile = 'm.<lambda>"];x-->y["\\\n'
    result = with_functions(reached("m.a"), reached(hostile, "m.a"))
    mermaid = render_graph(result, "mermaid")
    assert "x-->y" not in mermaid
    assert not re.search(r'\["[^"\]]*[<>"][^"\]]*"\]', mermaid.replace("<br/>", ""))
    assert '\\"];x-->y[\\"' in render_graph(result, "dot")


def test_a_big_boundary_shows_the_ways_to_what_needs_a_hand_and_counts_the_rest() -> None:
    rejected = replace(OPERATIONS[0], owner="m.f3", ownership=OwnershipClass.REJECTED, place=PLACE)
    functions = [reached("m.f0"), *(reached(f"m.f{n}", f"m.f{n - 1}") for n in range(1, 4))]
    functions += [reached(f"m.g{n}", "m.f0") for n in range(200)]
    text = render_graph(with_functions(*functions, operations=(rejected,)), "dot")
    assert "200 functions not drawn" in text
    assert text.count("fillcolor") == 4
    assert "+ 200 not drawn" in text


def test_without_a_boundary_the_drawing_is_a_comment() -> None:
    assert render_graph(sample(boundaries=()), "dot").startswith("// No capture boundary")
    assert render_graph(sample(boundaries=()), "mermaid").startswith("%% No capture boundary")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_the_drawing() -> None:
    run = subprocess.run(
        ["dot", "-Tsvg"], input=render_graph(sample(), "dot"), text=True, capture_output=True, check=True
    )
    assert "Timers.restart" in run.stdout
