"""The hook under the real pre-commit program: a commit rejected, a commit accepted, everything but pip offline."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.gate.project import BAD, GOOD, environment, git, repository

needs_pre_commit = pytest.mark.skipif(
    importlib.util.find_spec("pre_commit") is None or shutil.which("git") is None,
    reason="needs git and pre-commit (in the dev extra)",
)


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """This project as a repository of hooks, as users refer to it, and its revision."""
    folder = tmp_path_factory.mktemp("capaudit")
    for name in ("capaudit", "rules"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, folder / name)
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "release")):
        assert git(folder, *arguments).returncode == 0
    return folder, git(folder, "rev-parse", "HEAD").stdout.strip()


def pre_commit(folder: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", *arguments],
        cwd=folder,
        env=environment(PRE_COMMIT_HOME=str(home)),
        capture_output=True,
        text=True,
        check=False,
    )


@needs_pre_commit
def test_a_faulty_commit_is_rejected_and_the_repaired_one_accepted(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, hooks: tuple[Path, str]
) -> None:
    where, revision = hooks
    home = tmp_path_factory.mktemp("pre-commit")
    folder = repository(tmp_path, GOOD)
    (folder / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: {where}\n    rev: {revision}\n    hooks:\n      - id: capaudit\n        args: [src]\n"
    )
    installed = pre_commit(folder, home, "install", "--install-hooks")
    assert installed.returncode == 0, installed.stdout + installed.stderr
    source = folder / "src" / "robots" / "timers.py"

    def commit(message: str) -> subprocess.CompletedProcess[str]:
        assert git(folder, "add", "-A").returncode == 0
        # After the installation nothing may need the network.
        offline = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "PIP_NO_INDEX": "1"}
        return git(folder, "commit", "-m", message, PRE_COMMIT_HOME=str(home), **offline)

    source.write_text(BAD)
    rejected = commit("a hazard")
    assert rejected.returncode != 0
    assert "src/robots/timers.py:9:9: CAP103[host-to-device-copy]" in rejected.stdout + rejected.stderr
    assert git(folder, "rev-list", "--count", "HEAD").stdout.strip() == "1"

    source.write_text(BAD.replace(" = 0.0", " = 0.0  # capaudit: ignore[CAP103]"))
    assert "CAP903" in (unreasoned := commit("no reason")).stdout + unreasoned.stderr
    assert unreasoned.returncode != 0

    source.write_text(GOOD.replace("worlds", "count"))
    accepted = commit("repaired")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    assert "capaudit" in accepted.stdout + accepted.stderr
    assert git(folder, "rev-list", "--count", "HEAD").stdout.strip() == "2"


def test_the_hook_takes_roots_and_never_a_list_of_files() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    assert "pass_filenames: false" in text
    assert "require_serial: true" in text
