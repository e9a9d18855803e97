"""The result of ``probe ops`` as text: counts, and what contradicts its declaration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from capaudit.evidence import Environment, Evidence, Record
from capaudit.probe.ops_record import disagrees

_ORDER = ("ok", "advances", "varies", "fails", "wrong-on-replay", "broken", "not-run")


def render(evidence: Evidence) -> str:
    """Return the environment, the disagreements (or an operator sweep's troubles) and the counts, one per line."""
    parts = [_environment(evidence.environment)]
    if evidence.kind == "ops":
        rows = [record for record in evidence.records if disagrees(record)]
        if rows:
            parts.append(_table(("id", "declared", "measured", "why"), [_row(record) for record in rows]))
    else:
        rows = [record for record in evidence.records if record.outcome in ("wrong-on-replay", "broken")]
        if rows:
            parts.append(_table(("operator", "measured", "why"), [(r.id, r.outcome, r.error or r.note) for r in rows]))
    counts = Counter(record.outcome for record in evidence.records)
    parts.append(", ".join(f"{counts[outcome]} {outcome}" for outcome in _ORDER if counts[outcome]))
    parts.append(_conclusion(evidence, sum(map(disagrees, evidence.records))))
    return "\n".join(part for part in parts if part) + "\n"


def _conclusion(evidence: Evidence, disagreements: int) -> str:
    if evidence.verdict == "failed":
        return "The run ended early: what is listed as not-run was not measured."
    if evidence.kind == "opinfo":
        return f"{len(evidence.records)} operators measured."
    declared = len([record for record in evidence.records if record.outcome != "not-run"])
    if disagreements:
        return f"{disagreements} of {declared} declared verdicts disagree with what happened."
    return f"All {declared} declared verdicts agree with what happened."


def _environment(environment: Environment) -> str:
    driver = f"driver {environment.driver}" if environment.driver else None
    torch = f"torch {environment.torch}" if environment.torch else None
    warp = f"Warp {environment.warp}" if environment.warp else None
    return ", ".join(part for part in (environment.gpu, driver, torch, warp) if part)


def _row(record: Record) -> tuple[str, ...]:
    return (record.id, record.expected or "", record.outcome, record.error or record.note)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Align all columns but the last, which holds free text."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head) - 1)]
    lines = []
    for row in (head, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return "\n".join(lines)
