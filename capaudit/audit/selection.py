"""Which findings are wanted, and how much each weighs: selectors, per-file ignores, overrides, severity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from capaudit.model import Finding, Result, Severity

if TYPE_CHECKING:
    from capaudit.audit.configuration import Configuration

Selectors = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Override:
    """What ``[[tool.capaudit.overrides]]`` changes for the files that match one of ``paths``.

    ``select`` is ``None`` where the table has none; an empty one reports nothing but meta findings.
    """

    paths: tuple[str, ...]
    select: Selectors | None = None
    ignore: Selectors = ()
    extend_select: Selectors = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)


def is_reported(configuration: Configuration, code: str, name: str, file: Path) -> bool:
    """Return whether a finding of this rule in this file is wanted.

    The last override that names the rule decides, then the table itself. Within one of them the most
    specific selector decides (a full code or name before a prefix, a long prefix before a short one), and
    ``ignore`` wins a tie. Meta findings (CAP9xx) say how far the audit itself can be trusted, so a narrow
    ``select`` does not hide them; only ``ignore`` does. ``file`` is absolute, or relative to the root.
    """
    if _is_ignored_there(configuration, code, name, file):
        return False
    meta = code.startswith("CAP9")
    for override in reversed(_matching(configuration, file)):
        wanted = max(specificity(override.select or (), code, name), specificity(override.extend_select, code, name))
        unwanted = specificity(override.ignore, code, name)
        if wanted >= 0 or unwanted >= 0:
            return wanted > unwanted
        if override.select is not None and not meta:
            return False
    wanted = max(specificity(configuration.select, code, name), 0 if meta or not configuration.select else -1)
    wanted = max(wanted, specificity(configuration.extend_select, code, name))
    return wanted >= 0 and specificity(configuration.ignore, code, name) < max(wanted, 1)


def severity_of(configuration: Configuration, code: str, name: str, file: Path) -> Severity:
    """Return how much a finding of this rule weighs in this file: the last override that names it decides."""
    for table in (*(item.severity for item in reversed(_matching(configuration, file))), configuration.severity):
        named = [(specificity((selector,), code, name), severity) for selector, severity in table.items()]
        fitting = [pair for pair in named if pair[0] >= 0]
        if fitting:
            return max(fitting, key=lambda pair: pair[0])[1]
    return Severity.ERROR


def select(result: Result, configuration: Configuration, working_directory: Path) -> Result:
    """Return the result with the wanted findings alone, each with its severity; counts of operations stay."""

    def chosen(findings: Iterable[Finding]) -> tuple[Finding, ...]:
        found = []
        for finding in findings:
            file = working_directory / finding.place.file
            if is_reported(configuration, finding.code, finding.name, file):
                severity = severity_of(configuration, finding.code, finding.name, file)
                found.append(finding if severity is finding.severity else replace(finding, severity=severity))
        return tuple(found)

    return replace(result, findings=chosen(result.findings), suppressed=chosen(result.suppressed))


def specificity(selectors: Iterable[str], code: str, name: str) -> int:
    """Return how exactly the best selector names the rule: -1 not at all, 100 in full, else the prefix's length."""
    best = -1
    for selector in selectors:
        if selector in (code, name):
            return 100
        if code.startswith(selector):
            best = max(best, len(selector))
    return best


def matches(patterns: Iterable[str], file: Path, root: Path | None) -> bool:
    """Return whether a pattern fits the path below the root, the file's name, or a folder above it."""
    relative = _relative_to(file, root)
    return any(
        fnmatchcase(relative, pattern)
        or fnmatchcase(file.name, pattern)
        or fnmatchcase(relative, f"{pattern.rstrip('/')}/*")
        for pattern in patterns
    )


def _is_ignored_there(configuration: Configuration, code: str, name: str, file: Path) -> bool:
    return any(
        specificity(selectors, code, name) > 0 and matches((pattern,), file, configuration.root)
        for pattern, selectors in configuration.per_file_ignores.items()
    )


def _matching(configuration: Configuration, file: Path) -> list[Override]:
    return [item for item in configuration.overrides if matches(item.paths, file, configuration.root)]


def _relative_to(file: Path, root: Path | None) -> str:
    if root is not None and file.is_absolute():
        try:
            return file.resolve().relative_to(root).as_posix()
        except ValueError:
            return file.as_posix()
    return file.as_posix()
