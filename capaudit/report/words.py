"""Small wording that the text formats share: counts, places, who declared a boundary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from capaudit.model import Boundary, OwnershipClass, StaticAudit

CLASS_ORDER = tuple(ownership.value for ownership in OwnershipClass)


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Return ``1 finding`` or ``3 findings``."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def class_counts(by_class: Mapping[str, int]) -> str:
    """Return the counts per ownership class in their fixed order, zeros included: a missing class would hide."""
    return ", ".join(f"{by_class.get(name, 0)} {name}" for name in CLASS_ORDER)


def name_counts(names: Iterable[str], most: int | None = None) -> str:
    """Return ``3 host-scalar-read, 1 dynamic-compaction``, the most frequent first; ``most`` bounds the list."""
    ranked = sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{number} {name}" for name, number in ranked[:most]]
    rest = sum(number for _, number in ranked[len(shown) :])
    return ", ".join([*shown, f"{rest} of other kinds"] if rest else shown)


def boundary_line(boundary: Boundary) -> str:
    """Return what the boundary is and why it was audited, in one line."""
    place = f" at {boundary.file}:{boundary.line}" if boundary.file else ""
    return f"{boundary.entry}{place} ({boundary.capture} capture; {boundary.origin})"


def audit_line(audit: StaticAudit) -> str:
    """Return what one of the three audits found; one that reached nothing found nothing out."""
    packages = f"{audit.audit} ({', '.join(audit.packages)})"
    if not audit.functions:
        return f"{packages}: not reached, no boundary calls into these packages"
    unresolved = f", {count(audit.unresolved, 'unresolved call')}" if audit.unresolved else ""
    return f"{packages}: {count(audit.findings, 'finding')} in {count(audit.functions, 'function')}{unresolved}"


NO_BOUNDARY = (
    "No capture boundary was found, so nothing was audited.\n"
    "Declare one: --entry package.module:Class.method, `# capaudit: boundary` on its def,\n"
    "@capaudit.boundary, or [[tool.capaudit.boundary]] in pyproject.toml.\n"
)
