"""Small programs as text, audited in a folder of their own."""

from __future__ import annotations

from pathlib import Path

from capaudit.audit import AuditOptions, audit
from capaudit.model import Result


def audit_text(folder: Path, text: str, entry: str = "Env.step", **options: object) -> Result:
    """Write ``text`` to a module and audit it from ``entry``."""
    file = folder / "program.py"
    file.write_text(text)
    return audit(
        AuditOptions(
            paths=(file,),
            entries=(f"{file}:{entry}",),
            working_directory=folder,
            collect_operations=True,
            **options,  # type: ignore[arg-type]
        )
    )


def codes(result: Result) -> list[tuple[int, str]]:
    """Line and code of every rejected operation, in report order."""
    return [(finding.place.line, finding.code) for finding in result.findings]
