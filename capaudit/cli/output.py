"""Where a report goes: ``FORMAT`` to stdout, ``FORMAT:FILE`` to a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from capaudit.model import InputError


@dataclass(frozen=True, slots=True)
class Target:
    """One wanted output; ``file`` is ``None`` for stdout."""

    format: str
    file: Path | None

    def write(self, text: str) -> None:
        """Write the text. Errors: ``InputError`` when the file cannot be written."""
        if self.file is None:
            click.echo(text, nl=False)  # survives a caller who has closed stdout
            return
        try:
            self.file.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
        except (OSError, ValueError) as error:
            detail = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"the report cannot be written: {detail}", place=str(self.file)) from error


def parse_targets(values: Sequence[str], formats: Sequence[str]) -> tuple[Target, ...]:
    """Read ``--output`` values; without any the first format goes to stdout.

    Errors: ``click.UsageError`` for an unknown format, and for two outputs that would mix.
    """
    targets = []
    for value in values or formats[:1]:
        name, colon, file = value.partition(":")
        if name not in formats:
            raise click.UsageError(f"--output {value}: there is no format {name!r}; choose {', '.join(formats)}.")
        if colon and not file:
            raise click.UsageError(f"--output {value}: a file name belongs after the colon.")
        targets.append(Target(name, Path(file) if file else None))
    places = [target.file for target in targets]
    for place in places:
        if places.count(place) > 1:
            raise click.UsageError(
                f"--output: two reports would go to {place or 'stdout'}; give them files of their own."
            )
    return tuple(targets)


def colored(no_color: bool, target: Target) -> bool:
    """Return whether terminal colours are fit: stdout is a terminal and nobody has asked for none."""
    if no_color or target.file is not None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()
