"""Shared by all tests: the command line in this process, and the knowledge cache kept out of the user's home."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from capaudit.cli.main import main

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Outcome:
    """What one run of the command left behind."""

    status: int
    out: str
    err: str


@pytest.fixture(autouse=True, scope="session")
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    patch = pytest.MonkeyPatch()
    patch.setenv("CAPAUDIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run ``capaudit`` with these arguments in this process."""

    def call(*arguments: str) -> Outcome:
        status = main(arguments)
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
