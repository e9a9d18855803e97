"""Importing the contract costs nothing that a collector would notice."""

from __future__ import annotations

import subprocess
import sys

import pytest

import capaudit.contract

WATCH = """
import sys, time
import capaudit
before = time.process_time()
import capaudit.contract
package = time.process_time() - before
for name in capaudit.contract.__all__:
    getattr(capaudit.contract, name)
everything = time.process_time() - before
print(package, everything, sorted({'torch', 'warp', 'numpy', 'mujoco', 'click', 'libcst'} & set(sys.modules)))
"""


def test_the_whole_contract_imports_no_framework_and_is_quick() -> None:
    # CPU seconds of the best of three, because the machine may be busy with other things.
    times = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", WATCH], capture_output=True, text=True, check=True)
        package, everything, loaded = done.stdout.split(maxsplit=2)
        assert loaded == "[]\n"
        times.append((float(package), float(everything)))
    assert min(times)[0] < 0.05
    assert min(everything for _, everything in times) < 0.5


def test_every_public_name_is_there_and_none_is_hidden_by_a_module() -> None:
    for name in capaudit.contract.__all__:
        assert type(getattr(capaudit.contract, name)).__name__ != "module", name
    assert set(capaudit.contract.__all__) <= set(dir(capaudit.contract))


def test_the_package_has_no_other_attributes_to_offer() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = capaudit.contract.no_such_name
