"""The three audits: what was found in the environment's, the backend's and the collector's packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import get_args

from capaudit.audit.verdicts import Verdicts
from capaudit.model import AuditName, Finding, StaticAudit
from capaudit.program import Program


def static_audits(
    wanted: Mapping[str, tuple[str, ...]], program: Program, verdicts: Iterable[Verdicts], findings: Iterable[Finding]
) -> tuple[StaticAudit, ...]:
    """Count per audit, in the fixed order, what lies in its packages; audits that nobody configured are left out.

    A package is a dotted name or pattern (``robots``, ``robots.*_env``) and covers what is below it. What a
    boundary calls out of a package counts for it as well, so that a backend known from the knowledge tables
    alone is looked at too.
    """
    reached = tuple(verdicts)
    found = tuple(findings)
    return tuple(_audit(name, wanted[name], program, reached, found) for name in get_args(AuditName) if name in wanted)


def _audit(
    name: AuditName,
    packages: tuple[str, ...],
    program: Program,
    verdicts: tuple[Verdicts, ...],
    findings: tuple[Finding, ...],
) -> StaticAudit:
    def inside(owner: str) -> bool:
        return any(fnmatchcase(owner, package) or fnmatchcase(owner, f"{package}.*") for package in packages)

    modules = {file: inside(module.name) for file, module in program.by_file.items()}
    functions = {owner for verdict in verdicts for owner in verdict.functions if inside(owner)}
    functions |= {item.name for verdict in verdicts for item in verdict.operations if inside(item.name)}
    return StaticAudit(
        audit=name,
        packages=packages,
        functions=len(functions),
        findings=sum(modules.get(item.place.file, False) or inside(item.operation) for item in findings),
        unresolved=sum(inside(call.owner) for verdict in verdicts for call in verdict.unresolved),
    )
