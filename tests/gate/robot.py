"""A small project that a team might have: an environment with a boundary, a fault and a helper."""

from __future__ import annotations

import subprocess
from pathlib import Path

ENV = """\
import torch


class Env:
    def __init__(self) -> None:
        self.x = torch.zeros(8, device="cuda")

    def norm(self) -> float:
        return self.x.norm().item()

    def step(self) -> float:  # capaudit: boundary
        done = torch.nonzero(self.x)
        if self.x.any():
            self.x.add_(1.0)
        return self.norm()
"""


def project(folder: Path, configuration: str = "", source: str = ENV) -> Path:
    """Write the project below ``folder`` and return its environment's file."""
    (folder / "pyproject.toml").write_text(f'[tool.capaudit]\npaths = ["robots"]\n{configuration}', encoding="utf-8")
    file = folder / "robots" / "env.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(source, encoding="utf-8")
    return file


def edit(file: Path, old: str, new: str) -> None:
    """Replace the one occurrence of a text."""
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new), encoding="utf-8")


def git(folder: Path, *words: str) -> None:
    """Run git without anybody's own settings."""
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, message: str = "change") -> None:
    """Make the folder a repository if it is none, and commit everything."""
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
