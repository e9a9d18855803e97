"""Cost against size as a small SVG: both axes logarithmic, so that linear cost is a line of slope one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 720, 420, 64, 48, 24, 170
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")

Point = tuple[float, float, str]


def svg(series: dict[str, Sequence[Point]], title: str) -> str:
    """Return a plot of named series of (lines, seconds, label) points. Errors: ``ValueError`` without any point."""
    points = [point for one in series.values() for point in one]
    left, right = _decades([x for x, _, _ in points])
    low, high = _decades([y for _, y, _ in points])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="11"><title>{escape(title)}</title><rect width="100%" height="100%" fill="white"/>'
    ]

    def x_of(value: float) -> float:
        return _LEFT + (math.log10(value) - left) / (right - left) * (_WIDTH - _LEFT - _RIGHT)

    def y_of(value: float) -> float:
        return _HEIGHT - _BOTTOM - (math.log10(value) - low) / (high - low) * (_HEIGHT - _BOTTOM - _TOP)

    for decade in range(left, right + 1):
        x = x_of(10**decade)
        parts.append(f'<path d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{10**decade:,}</text>')
    for decade in range(low, high + 1):
        y = y_of(10**decade)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**decade:g} s</text>')
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 10}">lines of Python</text>')
    named = max(series, key=lambda name: max(y for _, y, _ in series[name]))  # one series names the corpora
    for index, (name, one) in enumerate(series.items()):
        color = _COLORS[index % len(_COLORS)]
        ordered = sorted(one)
        for x, y, label in ordered:
            spot = f"{escape(name)}, {escape(label)}: {y:.2f} s"
            if name == named:
                parts.append(f'<text x="{x_of(x) + 6:.1f}" y="{y_of(y) + 4:.1f}">{escape(label)}</text>')
            parts.append(
                f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3.5" fill="{color}"><title>{spot}</title></circle>'
            )
        key = _TOP + 16 * index + 8
        parts.append(f'<circle cx="{_WIDTH - _RIGHT + 16}" cy="{key}" r="4" fill="{color}"/>')
        parts.append(f'<text x="{_WIDTH - _RIGHT + 26}" y="{key + 4}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    if not values:
        raise ValueError("nothing to plot")
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return first, max(last, first + 1)
