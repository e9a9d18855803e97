"""Where a report goes: ``FORMAT`` to stdout, ``FORMAT:FILE`` to a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from capaudit.model import InputError
from capaudit.program.writing import replace_file

_SOURCES: Final = (".py", ".pyi", ".toml", ".ipynb")
"""Endings of files that no report has; a slip of the pen must not cost a program."""

_BASELINE: Final = "capaudit-baseline.json"


@dataclass(frozen=True, slots=True)
class Target:
    """One wanted output; ``file`` is ``None`` for stdout."""

    format: str
    file: Path | None

    def write(self, text: str, *, color: bool | None = None) -> None:
        """Write the text; ``color`` keeps colours where stdout is no terminal. Errors: ``InputError`` for the file."""
        if self.file is None:
            click.echo(text, nl=False, color=color)  # survives a caller who has closed stdout
            return
        try:
            replace_file(self.file, text.encode("utf-8", errors="backslashreplace"))
        except (OSError, ValueError) as error:
            detail = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"the report cannot be written: {detail}", place=str(self.file)) from error


def repository_root(working_directory: Path) -> Path:
    """Return the folder that a hosting service names files from: the checkout of the running job, else this folder."""
    for variable in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        checkout = os.environ.get(variable)
        if checkout and working_directory.resolve().is_relative_to(Path(checkout).resolve()):
            return Path(checkout)
    return working_directory


def parse_targets(values: Sequence[str], formats: Sequence[str]) -> tuple[Target, ...]:
    """Read ``--output`` values; without any the first format goes to stdout.

    Errors: ``click.UsageError`` for an unknown format, and for two outputs that would mix.
    """
    targets = []
    for value in values or formats[:1]:
        name, colon, file = value.partition(":")
        if name not in formats:
            raise click.UsageError(f"--output {value}: there is no format {name!r}; choose {', '.join(formats)}.")
        if colon and not file.strip():
            raise click.UsageError(f"--output {value}: a file name belongs after the colon.")
        target = Target(name, Path(file) if file not in ("", "-") else None)
        _require_writable(target, f"--output {value}")
        targets.append(target)
    places = [None if target.file is None else os.path.realpath(target.file) for target in targets]
    for target, place in zip(targets, places, strict=True):
        if places.count(place) > 1:
            raise click.UsageError(
                f"--output: two reports would go to {target.file or 'stdout'}; give them files of their own."
            )
    return tuple(targets)


def output_file(name: str, file: str, option: str) -> Target:
    """Return the target of an option that takes a file name, ``-`` for stdout. Errors: as ``parse_targets``."""
    target = Target(name, None if file == "-" else Path(file))
    _require_writable(target, f"{option} {file}")
    return target


def _require_writable(target: Target, value: str) -> None:
    """Refuse before the audit what cannot be written after it, and what a report must not overwrite."""
    file = target.file
    if file is None:
        return
    try:
        os.lstat(file)
    except (FileNotFoundError, NotADirectoryError):
        pass  # said below where it matters
    except (OSError, ValueError) as error:  # a name that is too long, or holds a null character
        detail = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"the report cannot be written: {detail}", place=str(file)[:200]) from error
    folder, exists, is_folder = file.parent.is_dir(), file.exists(), file.is_dir()
    if is_folder:
        raise InputError("the report cannot be written: it is a folder", place=str(file), remedy="name a file in it")
    if not folder:
        raise InputError(
            "the report cannot be written: there is no such folder", place=str(file.parent), remedy="create it first"
        )
    if exists and (file.suffix in _SOURCES or file.name == _BASELINE):
        what = "the baseline" if file.name == _BASELINE else "a source file"
        raise InputError(f"{value} would overwrite {what}", place=str(file), remedy="give the report another name")
