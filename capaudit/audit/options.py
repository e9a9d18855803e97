"""What one audit is asked to do."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from capaudit.audit.configuration import Configuration
from capaudit.model import CaptureKind, UnresolvedEntryError

if TYPE_CHECKING:
    from capaudit.evidence import Evidence


def today() -> str:
    """Return the ISO date of today, or of ``SOURCE_DATE_EPOCH`` for runs that have to repeat on another day."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = float(fixed) if fixed.isdigit() and len(fixed) < 12 else None
    return time.strftime("%Y-%m-%d", time.gmtime(moment) if moment is not None else time.localtime())


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Roots, boundaries and settings of one audit.

    ``entries`` replace configured boundaries; ``capture`` says who starts the capture of entries
    that do not say it themselves. ``evidence`` are the probe's documents by file name, to be laid beside
    the findings. ``unsaved`` holds content by absolute path that stands for what the disk has (an editor,
    stdin). ``today`` (ISO) is the day by which suppressions expire. ``jobs`` is the number of processes for
    boundaries and checks that do not depend on each other, ``None`` for what pays on this machine; it changes no
    result.
    """

    paths: tuple[Path, ...]
    entries: tuple[str, ...] = ()
    capture: CaptureKind | None = None
    configuration: Configuration = field(default_factory=Configuration)
    working_directory: Path = field(default_factory=Path.cwd)
    collect_operations: bool = False
    evidence: tuple[tuple[str, Evidence], ...] = ()
    unsaved: Mapping[Path, bytes] = field(default_factory=dict)
    today: str = field(default_factory=today)
    collect_fixes: bool = False
    jobs: int | None = 1


def program_roots(options: AuditOptions) -> tuple[Path, ...]:
    """Return the files and folders that an audit reads, none of which lies in another.

    Errors: ``UnresolvedEntryError`` for an entry that names a file which does not exist.
    """
    roots = dict.fromkeys([*options.paths, *entry_files(options)])
    return tuple(root for root in roots if not any(_inside(root, other) for other in roots if other != root))


def _inside(path: Path, folder: Path) -> bool:
    return folder.is_dir() and Path(os.path.abspath(path)).is_relative_to(os.path.abspath(folder))


def entry_files(options: AuditOptions) -> tuple[Path, ...]:
    """Files that command-line entries name by path, so that they are indexed too."""
    found: list[Path] = []
    for entry in options.entries:
        head = entry.rpartition(":")[0]
        if head.endswith(".py"):
            file = Path(head)
            file = file if file.is_absolute() else options.working_directory / file
            if not file.is_file():
                raise UnresolvedEntryError(
                    f"entry {entry!r} names a file that does not exist (CAP904)",
                    place=head,
                    remedy="write path/to/file.py:Class.method with a path relative to the working directory",
                )
            found.append(file)
    return tuple(found)
