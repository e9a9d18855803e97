"""The three static audits of Gate S over the reference tick or one of its negative controls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capaudit.audit import AuditOptions, audit
from capaudit.contract.gate_s_evidence import AuditObservation
from capaudit.model import AuditName, Finding, OwnershipClass
from capaudit.probe.targets.controls import Control

TARGETS = Path(__file__).resolve().parents[1] / "targets"
_PACKAGE = "capaudit.probe.targets"
# Which files answer for which audit; what a control adds belongs to the environment.
_FILES: dict[AuditName, tuple[str, ...]] = {
    "environment": ("collector/tick.py", "collector/draws.py"),
    "backend": ("collector/simulation.py",),
    "collector": ("collector/publication.py", "collector/carriers.py"),
}


@dataclass(frozen=True, slots=True)
class Audited:
    """What the audit said of one tick: the codes with their places, and the three observations of the gate."""

    codes: tuple[str, ...]
    places: tuple[str, ...]
    observations: tuple[AuditObservation, ...]


def audit_tick(control: Control | None = None) -> Audited:
    """Audit the reference tick, or a control's, without running or importing it."""
    paths = [TARGETS / "collector"]
    entry = f"{TARGETS / 'collector' / 'tick.py'}:CollectorTick.tick"
    if control is not None:
        file = TARGETS / "controls" / f"{control.module}.py"
        paths.append(file)
        entry = f"{file}:{control.name}.tick"
    result = audit(
        AuditOptions(
            paths=tuple(paths),
            entries=(entry,),
            capture="shared" if control is None else control.capture,
            working_directory=TARGETS,
            collect_operations=True,
        )
    )
    findings = [item for item in result.findings if item.ownership is not OwnershipClass.UNRESOLVED]
    owned = {name: [Path(file).name for file in files] for name, files in _FILES.items()}
    observations = []
    for name, files in owned.items():
        mine = [item for item in findings if _owner(item, owned) == name]
        observations.append(
            AuditObservation(
                audit=name,
                packages=tuple(
                    f"{_PACKAGE}.{Path(file).with_suffix('').as_posix().replace('/', '.')}" for file in _FILES[name]
                ),
                functions=sum(1 for item in result.functions if Path(item.place.file).name in files),
                findings=len(mine),
                unresolved=sum(1 for item in result.unresolved if Path(item.place.file).name in files),
            )
        )
    return Audited(
        codes=tuple(sorted({item.code for item in findings})),
        places=tuple(f"{item.code} {Path(item.place.file).name}:{item.place.line}" for item in findings),
        observations=tuple(observations),
    )


def _owner(finding: Finding, owned: dict[AuditName, list[str]]) -> AuditName:
    name = Path(finding.place.file).name
    return next((audit for audit, files in owned.items() if name in files), "environment")
