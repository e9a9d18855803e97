"""The benchmark measures what it says: a child's processor time, cut-off runs, and a plot that parses."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.bench.__main__ import table
from tests.bench.plot import svg
from tests.bench.timing import measure


def test_processor_time_of_the_child_is_measured(tmp_path: Path) -> None:
    busy = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"]
    cost = measure(busy, tmp_path, {}, runs=1, limit=60)
    assert 0.25 < cost.cpu < 1.5


def test_a_run_that_takes_too_long_is_cut_off_and_says_so(tmp_path: Path) -> None:
    cost = measure([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, {}, runs=3, limit=0.5)
    assert (cost.ended, cost.wall) == (False, 0.5)


def test_a_program_that_fails_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with 3"):
        measure([sys.executable, "-c", "raise SystemExit(3)"], tmp_path, {}, 1, 60)


def test_the_plot_is_well_formed_and_holds_every_point() -> None:
    points = [(100.0, 0.1, "a<b"), (10_000.0, 2.0, "c")]
    root = ElementTree.fromstring(svg({"check & more": points}, "cost"))
    assert len(root.findall(".//{http://www.w3.org/2000/svg}circle")) == len(points) + 1  # and one in the key


def test_the_table_gives_ratios_to_the_bare_parse_of_the_same_corpus() -> None:
    rows: list[dict[str, object]] = [
        {"corpus": "x", "lines": 10, "what": "bare ast.parse", "cpu": 0.5, "ended": True},
        {"corpus": "x", "lines": 10, "what": "check", "cpu": 2.0, "ended": True},
        {"corpus": "x", "lines": 10, "what": "slow", "cpu": 60.0, "ended": False},
    ]
    assert "| x | 10 | check | 2.00 | 4.0 |" in table(rows)
    assert "| slow | > 60 |" in table(rows)
