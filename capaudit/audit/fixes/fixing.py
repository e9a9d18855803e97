"""The use case behind ``--fix`` and ``--diff``: audit, rewrite, and audit again what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from capaudit.audit.engine import audit
from capaudit.audit.fixes.applying import Rewrite, rewrites, write
from capaudit.audit.options import AuditOptions
from capaudit.model import Fix, Result

_MOST_PASSES = 8
"""Fixes that overlap need a pass each; more passes would mean that two rewrites undo each other."""


@dataclass(slots=True)
class Fixed:
    """What remains after fixing. ``waiting`` counts rewrites that only ``--unsafe-fixes`` applies."""

    result: Result
    applied: list[Rewrite] = field(default_factory=list)
    last: list[Rewrite] = field(default_factory=list)
    waiting: int = 0

    @property
    def fixes(self) -> list[Fix]:
        return [fix for rewrite in self.applied for fix in rewrite.fixes]

    @property
    def files(self) -> list[str]:
        return sorted({rewrite.file for rewrite in self.applied if rewrite.fixes})

    @property
    def dropped(self) -> list[tuple[Fix, str]]:
        return list(dict.fromkeys(pair for rewrite in self.last for pair in rewrite.dropped))


def fix_program(
    options: AuditOptions, chosen: Callable[[Result], Result], *, unsafe: bool = False, write_files: bool = True
) -> Fixed:
    """Apply the fixes of the chosen findings until none is left; without ``write_files`` only propose them once.

    ``chosen`` takes from a result the findings that are reported. Errors: as of ``audit``, and
    ``InputError`` for a file that cannot be read or written.
    """
    options = replace(options, collect_fixes=True)
    fixed = Fixed(chosen(audit(options)))
    folder = options.working_directory
    for _ in range(_MOST_PASSES):
        result = fixed.result
        untouched = (*result.suppressed, *result.baselined)
        found = rewrites(result.findings, untouched, folder, unsafe=unsafe, unsaved=options.unsaved)
        fixed.applied += found
        fixed.last = found  # what could not be applied before may have been since
        if not write_files or not any(rewrite.fixes for rewrite in found):
            break
        for rewrite in found:
            if rewrite.fixes:
                write(rewrite, folder)
        fixed.result = chosen(audit(options))
    if not unsafe:
        left = {f.fix.edits for f in fixed.result.findings if f.fix is not None and not f.fix.safe}
        fixed.waiting = len(left)
    return fixed
