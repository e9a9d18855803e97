"""The inventory: which operation, owned by whom, in which class and why; the table of a capture decision record."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from capaudit.model import Operation, Result
from capaudit.report.markdown import code, table
from capaudit.report.source import printable
from capaudit.report.words import CLASS_ORDER, NO_BOUNDARY, boundary_line, class_counts

_HEADER = ("Operation", "Owner path", "Class", "Reason", "Count")


@dataclass(frozen=True, slots=True)
class Row:
    """Operations of one owner that share name, class and reason; ``count`` says how many there are."""

    operation: str
    owner: str
    ownership: str
    reason: str
    count: int


def rows(result: Result, boundary: str) -> tuple[Row, ...]:
    """Return the rows of one boundary: by class in their fixed order, then owner, then operation."""
    counted = Counter(_key(operation) for operation in result.operations if operation.boundary == boundary)
    ordered = sorted(counted.items(), key=lambda item: (CLASS_ORDER.index(item[0][2]), item[0][1], item[0]))
    return tuple(Row(*key, number) for key, number in ordered)


def render_text(result: Result) -> str:
    """Return the inventory as aligned columns, one block per boundary."""
    if not result.boundaries:
        return NO_BOUNDARY
    blocks = []
    for boundary in result.boundaries:
        found = rows(result, boundary.name)
        cells = [tuple(title.lower() for title in _HEADER), *(_cells(row) for row in found)]
        # The reason is the one long column, so it goes last and needs no padding.
        order = (2, 4, 0, 1, 3)
        widths = [max(len(line[column]) for line in cells) for column in order[:-1]]
        lines = [f"boundary {boundary.name}: {printable(boundary_line(boundary))}", ""]
        for line in cells:
            padded = [line[column].ljust(width) for column, width in zip(order[:-1], widths, strict=True)]
            lines.append("  " + "  ".join([*padded, line[order[-1]]]).rstrip())
        lines += ["", f"  {_totals(found)}", ""]
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def render_markdown(result: Result) -> str:
    """Return the inventory as Markdown, one section per boundary, with the counts per class."""
    if not result.boundaries:
        return NO_BOUNDARY
    blocks = []
    for boundary in result.boundaries:
        found = rows(result, boundary.name)
        body = [(code(row.operation), code(row.owner), row.ownership, row.reason, str(row.count)) for row in found]
        blocks.append(
            f"## Boundary {code(boundary.name)}\n\n"
            f"Entry {code(boundary.entry)}, {boundary.capture} capture, {boundary.origin}.\n\n"
            f"{table(_HEADER, body)}\n{_totals(found)}\n"
        )
    return "\n".join(blocks)


def _key(operation: Operation) -> tuple[str, str, str, str]:
    reason = f"{operation.hazard}: {operation.reason}" if operation.hazard else operation.reason
    return operation.name, operation.owner, operation.ownership.value, reason


def _cells(row: Row) -> tuple[str, ...]:
    return tuple(printable(text) for text in (row.operation, row.owner, row.ownership, row.reason, str(row.count)))


def _totals(found: tuple[Row, ...]) -> str:
    totals: Counter[str] = Counter()
    for row in found:
        totals[row.ownership] += row.count
    return f"{totals.total()} operations: {class_counts(totals)}"
