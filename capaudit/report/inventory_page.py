"""The inventory for pull requests: a Markdown comment that fits one, and an HTML table for an artifact."""

from __future__ import annotations

import html
from collections import Counter
from typing import Final

from capaudit.model import OwnershipClass, Result
from capaudit.report.inventory import Row, rows
from capaudit.report.markdown import code, table
from capaudit.report.words import CLASS_ORDER, NO_BOUNDARY, count

_FIRST: Final = ("rejected", "unresolved", "completion-owned", "cold-path", "graph-eligible")
_LONGEST: Final = 60_000
"""Characters: services cut or refuse comments beyond 65,536."""

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 24px auto; max-width: 1200px; padding: 0 16px; }
code { font: 12.5px ui-monospace, monospace; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; margin: 8px 0 24px; }
th, td { text-align: left; vertical-align: top; padding: 4px 10px; }
th, td { border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); }
td:last-child, th:last-child { text-align: right; font-variant-numeric: tabular-nums; }
th { position: sticky; top: 0; background: Canvas; }
h2 small { font-weight: 400; opacity: 0.75; }
summary { cursor: pointer; font-weight: 600; padding: 6px 0; }
.rejected { color: light-dark(#c4232e, #ff7b82); } .unresolved { color: light-dark(#96600a, #e8b04c); }
.completion-owned { color: light-dark(#1f62c4, #79b0ff); } .graph-eligible { color: light-dark(#1c7c45, #62c98c); }
"""


def render_comment(result: Result) -> str:
    """Return Markdown for a pull request: counts first, what is rejected or unresolved open, the rest folded."""
    if not result.boundaries:
        return NO_BOUNDARY
    blocks = ["## Capture inventory\n"]
    for boundary in result.boundaries:
        found = rows(result, boundary.name)
        totals = _totals(found)
        cells = [str(totals[name]) for name in _FIRST]
        blocks.append(f"### {code(boundary.name)}\n\n{table([*_FIRST], [cells])}")
        for name in _FIRST:
            mine = [row for row in found if row.ownership == name]
            if not mine:
                continue
            body = table(("Operation", "Owner", "Reason", "Count"), [_cells(row) for row in mine])
            opened = " open" if name in ("rejected", "unresolved") else ""
            blocks.append(f"<details{opened}><summary>{totals[name]} {name}</summary>\n\n{body}\n</details>\n")
    return _fitting(blocks)


def render_html(result: Result) -> str:
    """Return one HTML file without script: the inventory per boundary and class."""
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        f"<title>Capture inventory</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>Capture inventory</h1>\n",
    ]
    if not result.boundaries:
        parts.append(f"<p>{_text(NO_BOUNDARY)}</p>\n")
    for boundary in result.boundaries:
        found = rows(result, boundary.name)
        totals = _totals(found)
        parts.append(
            f"<h2><code>{_text(boundary.name)}</code> <small>{_text(boundary.capture)} capture, "
            f"{_text(boundary.origin)}; {count(sum(totals.values()), 'operation')}</small></h2>\n"
        )
        for name in _FIRST:
            mine = [row for row in found if row.ownership == name]
            if mine:
                parts.append(_section(name, totals[name], mine))
    return "".join([*parts, "</body>\n</html>\n"])


def _section(name: str, total: int, mine: list[Row]) -> str:
    head = "".join(f'<th scope="col">{title}</th>' for title in ("Operation", "Owner", "Reason", "Count"))
    lines = "".join(
        f"<tr><td><code>{_text(row.operation)}</code></td><td><code>{_text(row.owner)}</code></td>"
        f"<td>{_text(row.reason)}</td><td>{row.count}</td></tr>\n"
        for row in mine
    )
    opened = " open" if name in (OwnershipClass.REJECTED, OwnershipClass.UNRESOLVED) else ""
    return (
        f'<details{opened}><summary class="{name}">{total} {name}</summary>\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table>\n</details>\n"
    )


def _totals(found: tuple[Row, ...]) -> Counter[str]:
    totals: Counter[str] = Counter(dict.fromkeys(CLASS_ORDER, 0))
    for row in found:
        totals[row.ownership] += row.count
    return totals


def _cells(row: Row) -> tuple[str, ...]:
    return code(row.operation), code(row.owner), row.reason, str(row.count)


def _fitting(blocks: list[str]) -> str:
    """Leave out whole blocks from the end, the least pressing ones, until the comment may be posted."""
    kept, size = [], 0
    for block in blocks:
        if size + len(block) > _LONGEST:
            continue
        kept.append(block)
        size += len(block) + 1
    if len(kept) < len(blocks):
        kept.append("Some tables are too long for a comment; `capaudit inventory --output markdown` has all of them.\n")
    return "\n".join(kept)


def _text(text: str) -> str:
    return html.escape(text)
