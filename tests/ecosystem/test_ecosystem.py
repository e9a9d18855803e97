"""The comparison itself, and that every accepted run can still be made."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from . import accepted
from .fetch import VARIABLE, cache_folder, missing
from .measure import Measurement, measure, runs
from .packages import PACKAGES, Package

_OLD = Measurement(
    functions=3, calls=9, unresolved=1, hazards={"CAP103": 2}, places={"a.py": {"CAP103": [4, 7]}}, seconds=1.0
)


def test_equal_runs_have_no_differences_whatever_their_time() -> None:
    assert accepted.differences(_OLD, replace(_OLD, seconds=9.0)) == []


def test_differences_name_counts_and_places() -> None:
    new = Measurement(
        functions=4, calls=9, unresolved=1, hazards={"CAP103": 2}, places={"a.py": {"CAP103": [4], "CAP201": [9]}}
    )
    assert accepted.differences(_OLD, new) == ["functions 3 -> 4", "- a.py:7 CAP103", "+ a.py:9 CAP201"]


def test_failed_run_is_its_own_difference() -> None:
    assert accepted.differences(_OLD, Measurement(failure="stopped")) == ["failed: stopped"]


def test_saved_runs_are_read_back(tmp_path: Path) -> None:
    file = tmp_path / "accepted.json"
    accepted.save({"some/step": _OLD}, file)
    assert accepted.differences(accepted.load(file)["some/step"], _OLD) == []
    assert '"a.py": {"CAP103": [4, 7]}' in file.read_text().replace("\n", " ")


def test_accepted_names_are_runs() -> None:
    assert accepted.load().keys() <= {f"{package.name}/{run}" for package in PACKAGES for run in runs(package)}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_accepted_shares_of_unresolved_calls_hold(package: Package) -> None:
    if VARIABLE not in os.environ:
        pytest.skip(f"set {VARIABLE} to a folder with the unpacked wheels to audit {package.name}")
    lacking = missing(cache_folder(), package)
    if lacking:
        pytest.skip(f"{VARIABLE} has no {lacking[0].distribution} {lacking[0].version}")
    known = accepted.load()
    for name, entries in package.entries.items():
        measurement = measure(package, entries, cache_folder(), 300.0)
        assert not measurement.failure, f"{package.name}/{name}: {measurement.failure}"
        assert measurement.functions > 0
        before = known.get(f"{package.name}/{name}")
        if before is not None:
            assert measurement.share <= before.share + 0.005, f"{package.name}/{name}: {measurement.causes[:3]}"
