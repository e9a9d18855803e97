"""What ``--show-settings`` and ``--show-files`` print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from capaudit.audit import AuditOptions
from capaudit.audit.gate import find_baseline
from capaudit.program.index import shown_path
from capaudit.program.reading import find_sources


def settings_text(options: AuditOptions, strict: bool, baseline: Path | None) -> str:
    """Return every setting that the audit would use, as TOML-like lines in a fixed order."""
    configuration = options.configuration
    folder = options.working_directory
    used = find_baseline(baseline, configuration, folder)
    source = shown_path(configuration.source, folder) if configuration.source is not None else None
    values: list[tuple[str, Any]] = [
        ("paths", [path.as_posix() for path in options.paths]),
        ("entries", list(options.entries)),
        ("capture", options.capture),
        ("exclude", list(configuration.exclude)),
        ("follow", list(configuration.follow)),
        ("knowledge", [shown_path(file, folder) for file in configuration.knowledge_files()]),
        ("select", list(configuration.select) or ["CAP"]),
        ("ignore", list(configuration.ignore)),
        ("extend-select", list(configuration.extend_select)),
        ("per-file-ignores", {pattern: list(rules) for pattern, rules in configuration.per_file_ignores.items()}),
        ("severity", {rule: severity.value for rule, severity in configuration.severity.items()}),
        ("overrides", [_override(item) for item in configuration.overrides]),
        ("strict", strict),
        ("evidence", [name for name, _ in options.evidence]),
        ("require-evidence", configuration.require_evidence),
        ("baseline", shown_path(used, folder) if used is not None else None),
        ("versions", dict(configuration.versions)),
        (
            "boundary",
            [{"name": item.name, "entry": item.entry, "capture": item.capture} for item in configuration.boundaries],
        ),
    ]
    head = f"# configuration: {source or 'none (defaults)'}"
    return "\n".join([head, *(f"{name} = {json.dumps(value)}" for name, value in values)]) + "\n"


def files_text(options: AuditOptions) -> str:
    """Return the files that the audit would read, one a line."""
    found = find_sources(options.paths, options.configuration.excludes, options.unsaved)
    return "".join(f"{shown_path(file, options.working_directory)}\n" for _, file in found)


def _override(item: Any) -> dict[str, Any]:
    changes = {
        "select": list(item.select) if item.select is not None else None,
        "ignore": list(item.ignore) or None,
        "extend-select": list(item.extend_select) or None,
        "severity": {rule: severity.value for rule, severity in item.severity.items()} or None,
    }
    return {"paths": list(item.paths), **{key: value for key, value in changes.items() if value is not None}}
