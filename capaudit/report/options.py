"""What a caller may ask of a renderer, the same for every format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """``working_directory`` is what the result's file names are relative to; code frames are read there.

    ``operations`` adds every classified operation, ``statistics`` the wall time (without it the same
    input gives the same bytes), ``verbose`` lists what is otherwise only counted, ``color`` allows
    terminal colours, ``links`` places that a terminal opens, and ``width`` is where it folds long lines
    (``None``: nowhere). ``strict`` says that unresolved calls fail the run, so that the summary can tell.
    ``root`` is the repository's root where a hosting service names files from there (default: the
    working directory), ``status`` the exit status that the run will end with. ``sources`` holds lines by
    file name that stand for what the disk has (an editor, stdin).
    """

    working_directory: Path = field(default_factory=Path.cwd)
    operations: bool = False
    statistics: bool = False
    verbose: bool = False
    color: bool = False
    links: bool = False
    width: int | None = None
    strict: bool = False
    root: Path | None = None
    status: int = 0
    sources: Mapping[str, list[str]] = field(default_factory=dict)
