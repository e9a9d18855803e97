"""A scratch repository: a small program with a capture boundary, faulty or not, under real git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

GOOD = """\
import torch


class Timers:
    def __init__(self, worlds):
        self.left = torch.ones(worlds, device="cuda")

    def tick(self, ids):  # capaudit: boundary
        self.left.index_fill_(0, ids, 0.0)
"""

BAD = GOOD.replace("self.left.index_fill_(0, ids, 0.0)", "self.left[ids] = 0.0")

_WHO = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.com"}
IDENTITY = {**_WHO, **{name.replace("AUTHOR", "COMMITTER"): value for name, value in _WHO.items()}}


def environment(**more: str) -> dict[str, str]:
    """The caller's environment without the settings of a job that happens to run these tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "GITHUB_", "CI_"))}
    return {**kept, **IDENTITY, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, **more}


def git(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=environment(**more), capture_output=True, text=True, check=False
    )


def repository(folder: Path, source: str) -> Path:
    """Return a new repository with ``src/robots/timers.py``, committed."""
    package = folder / "src" / "robots"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "timers.py").write_text(source, encoding="utf-8")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "begin")):
        done = git(folder, *arguments)
        assert done.returncode == 0, done.stderr
    return folder
