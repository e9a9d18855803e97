"""The index: module names as imports spell them, comments, and files that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from capaudit.model import InputError
from capaudit.program import build_program
from capaudit.program.comments import read_comments


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(build_program((folder,), folder).modules)


def test_a_package_is_named_from_above_its_top_folder(tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "", "pkg/envs/__init__.py": "", "pkg/envs/env.py": ""})
    assert names(tmp_path / "pkg") == names(tmp_path) == ["pkg", "pkg.envs", "pkg.envs.env"]


def test_a_namespace_folder_inside_a_package_belongs_to_it(tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "", "pkg/_src/solvers/__init__.py": "", "pkg/_src/solvers/xpbd.py": ""})
    assert "pkg._src.solvers.xpbd" in names(tmp_path)


def test_a_source_folder_inside_a_package_begins_another_tree(tmp_path: Path) -> None:
    write(tmp_path, {"lab/__init__.py": "", "lab/source/ext/lab/__init__.py": "", "lab/source/ext/lab/envs.py": ""})
    assert "lab.envs" in names(tmp_path)


def test_a_pipe_or_a_missing_root_ends_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"good.py": "x = 1\n"})
    os.mkfifo(tmp_path / "pipe.py")
    program = build_program((tmp_path,), tmp_path)
    assert list(program.modules) == ["good"]
    assert [broken.cause for broken in program.unparsable] == ["is not a regular file"]
    with pytest.raises(InputError):
        build_program((tmp_path / "nowhere",), tmp_path)


def test_comments_are_read_from_comments_only() -> None:
    source = 'text = "# capaudit: boundary"\nx = 1  # capaudit: ignore[CAP101, nonzero] -- a reason\n'
    (comment,) = read_comments(source)
    assert (comment.line, comment.word, comment.rules, comment.reason) == (
        2,
        "ignore",
        ("CAP101", "nonzero"),
        "a reason",
    )
