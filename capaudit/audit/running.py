"""An audit, from what is remembered of an earlier one where that stands for it."""

from __future__ import annotations

from capaudit.audit.options import AuditOptions, program_roots
from capaudit.audit.reuse import Kept, Memory
from capaudit.model import Boundary, Result


def audit(options: AuditOptions, kept: Kept | None = None) -> Result:
    """Audit the program under ``options.paths`` from its boundaries; see ``engine.audit``.

    ``kept`` holds results of earlier audits in this process.
    """
    memory = Memory(options, program_roots(options), kept)
    remembered = memory.recall()
    if remembered is not None:
        return remembered
    from capaudit.audit.engine import audit_program  # the engine takes longer to load than an answer from memory

    result, program, deferred = audit_program(options)
    memory.keep(result, program, deferred)
    return result


def find_boundaries(options: AuditOptions) -> tuple[Boundary, ...]:
    """Return the boundaries that an audit with these options would look at."""
    from capaudit.audit.engine import find_boundaries as find

    return find(options)
