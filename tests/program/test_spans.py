"""Two parsers agree on where things stand: the spans of a report are exact.

The audit reads positions from ``ast``; libcst, an independent parser, is the referee.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

libcst = pytest.importorskip("libcst")
metadata = pytest.importorskip("libcst.metadata")

FIXTURES = Path(__file__).parents[2] / "fixtures"
FILES = sorted(FIXTURES.glob("demo/**/*.py"))

Span = tuple[int, int, int, int]


def spans_of_ast(source: str) -> set[Span]:
    """Calls and subscripts as ``(line, column, end line, end column)``, columns in characters."""
    return {
        (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Call, ast.Subscript))
    }


def spans_of_libcst(source: str) -> set[Span]:
    wrapper = metadata.MetadataWrapper(libcst.parse_module(source), unsafe_skip_copy=True)
    positions = wrapper.resolve(metadata.PositionProvider)
    return {
        (place.start.line, place.start.column, place.end.line, place.end.column)
        for node, place in positions.items()
        if isinstance(node, (libcst.Call, libcst.Subscript))
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_calls_and_subscripts_stand_where_an_independent_parser_sees_them(file: Path) -> None:
    source = file.read_text()
    assert source.isascii()
    assert spans_of_ast(source) == spans_of_libcst(source)


def test_the_compared_files_hold_enough_to_compare() -> None:
    assert sum(len(spans_of_ast(file.read_text())) for file in FILES) > 300
