"""What one audit is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from capaudit.audit.configuration import Configuration
from capaudit.model import CaptureKind


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Roots, boundaries and settings of one audit.

    ``entries`` replace configured boundaries; ``capture`` says who starts the capture of entries
    that do not say it themselves. ``unsaved`` holds content by absolute path that stands for what the
    disk has (an editor, stdin).
    """

    paths: tuple[Path, ...]
    entries: tuple[str, ...] = ()
    capture: CaptureKind | None = None
    configuration: Configuration = field(default_factory=Configuration)
    working_directory: Path = field(default_factory=Path.cwd)
    collect_operations: bool = False
    unsaved: Mapping[Path, bytes] = field(default_factory=dict)
