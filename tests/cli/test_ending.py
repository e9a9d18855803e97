"""A process that ends after one command skips its own dismantling, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FAULTY = """import torch


# capaudit: boundary
def tick(x):
    return x.sum().item()
"""


def run(folder: Path, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "capaudit", *words], cwd=folder, capture_output=True, text=True, timeout=120, **more
    )


def test_a_report_that_fills_a_pipe_many_times_arrives_whole(tmp_path: Path) -> None:
    body = "".join(f"    y{n} = x.sum().item()\n" for n in range(2000))
    (tmp_path / "tick.py").write_text(f"import torch\n\n\n# capaudit: boundary\ndef tick(x):\n{body}")
    done = run(tmp_path, "check", "--no-cache", ".")
    assert done.returncode == 1
    assert all(f"tick.py:{n + 6}:" in done.stdout for n in range(2000))
    assert done.stdout.endswith("\n")


def test_exit_functions_run_and_the_status_stays(tmp_path: Path) -> None:
    (tmp_path / "tick.py").write_text(FAULTY)
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('exit function', file=sys.stderr))\n"
        "sys.argv = ['capaudit', 'check', '--no-cache', 'tick.py']\n"
        "from capaudit.cli.start import console\n"
        "console()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, "exit function\n")
    assert "CAP101" in done.stdout


def test_a_full_disk_is_still_an_error(tmp_path: Path) -> None:
    (tmp_path / "tick.py").write_text(FAULTY)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "capaudit", "check", "--no-cache", "."],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
