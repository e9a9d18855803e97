"""Comparing an order with another one: a live model, a second record, a LEAPP file, or what a framework stored.

Full lists have to be equal; LEAPP's selections only have to exist. Both are projections of the same
run-time names, so they can disagree only when one of them was changed or belongs to another run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from capaudit.ordering.errors import NotAPermutationError
from capaudit.ordering.mapping import axis_ordering
from capaudit.ordering.names import AXES, Axis, difference, match_spellings
from capaudit.ordering.record import Entry
from capaudit.ordering.sources import Orders, Source


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict on one axis of one articulation.

    ``verdict``: ``equal``, ``permuted`` (same names, other order), ``different`` (other names), ``missing`` (one side
    does not speak of it), ``selected`` (a selection whose names all exist), ``unknown-names`` (one whose do not).
    """

    articulation: str
    axis: str
    verdict: str
    detail: str = ""
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether nothing speaks against the two belonging together."""
        return self.verdict in ("equal", "selected")

    def as_dict(self) -> dict[str, Any]:
        """Plain data for a report."""
        return {
            "articulation": self.articulation,
            "axis": self.axis,
            "verdict": self.verdict,
            "detail": self.detail,
            "missing": list(self.missing),
            "extra": list(self.extra),
        }


def compare_sources(first: Source, second: Source) -> tuple[Comparison, ...]:
    """Compare two sources, axis by axis; an axis that only one of them knows is left out when the other is partial.

    Only two records have to have the same articulations: other sources speak of what a policy uses.
    """
    found: list[Comparison] = []
    both_records = first.kind == "record" and second.kind in ("record", "model")
    keys = first.articulations.keys() | second.articulations.keys()
    for key in sorted(keys):
        one, other = first.articulations.get(key), second.articulations.get(key)
        if one is None or other is None:
            if both_records or one is None:
                where = first.path if one is None else second.path
                found.append(Comparison(key, "joint", "missing", f"{where} has no articulation {key!r}"))
            continue
        found.extend(_compare_orders(key, one, other, both_records))
    found.extend(_selections(first, second))
    found.extend(_selections(second, first))
    if not found:
        found.append(Comparison("", "joint", "missing", "the two have no articulation in common"))
    return tuple(found)


def compare_entries(source: Source, entries: Mapping[str, Entry]) -> tuple[Comparison, ...]:
    """Compare a source with a live model's public orders."""
    live = Source(
        "model",
        "the live model",
        {
            key: Orders(entry.public_joint_names, entry.public_body_names or None, entry.actuator_names, entry.backend)
            for key, entry in entries.items()
        },
    )
    return compare_sources(source, live)


def _compare_orders(key: str, one: Orders, other: Orders, strict: bool) -> Iterator[Comparison]:
    for axis in AXES:
        left, right = one.names(axis), other.names(axis)
        if left is None or right is None:
            if strict and (left or right):
                yield Comparison(key, axis, "missing", f"only one side knows the {axis} order")
            continue
        yield _compare_axis(key, axis, left, right)
    if one.actuator_names and other.actuator_names and one.actuator_names != other.actuator_names:
        missing, extra = difference(one.actuator_names, other.actuator_names)
        verdict = "different" if missing or extra else "permuted"
        yield Comparison(
            key, "actuator", verdict, _first(one.actuator_names, other.actuator_names), *_pair(missing, extra)
        )


def _compare_axis(key: str, axis: Axis, left: tuple[str, ...], right: tuple[str, ...]) -> Comparison:
    matched = match_spellings(left, right) if axis == "joint" else left
    if matched == right:
        spelt = "" if left == right else "the spelling differs in ':' and '_' alone"
        return Comparison(key, axis, "equal", spelt)
    try:
        axis_ordering(left, right, axis, articulation=key)
    except NotAPermutationError as error:
        return Comparison(
            key,
            axis,
            "different",
            "; ".join(error.details["hints"]),
            tuple(error.details["missing"]),
            tuple(error.details["extra"]),
        )
    return Comparison(key, axis, "permuted", _first(matched, right))


def _first(left: tuple[str, ...], right: tuple[str, ...]) -> str:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return f"first difference at {index}: {a!r} and {b!r}"
    return f"{len(left)} and {len(right)} names"


def _pair(missing: list[str], extra: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(missing), tuple(extra)


def _selections(owner: Source, other: Source) -> Iterator[Comparison]:
    for (key, axis), groups in owner.selections.items():
        orders = other.articulations.get(key)
        known = orders.names(axis) if orders is not None else None
        if known is None:
            continue
        for names in groups:
            full = match_spellings_of_selection(names, known) if axis == "joint" else names
            unknown = sorted(frozenset(full) - frozenset(known))
            if unknown:
                yield Comparison(key, axis, "unknown-names", f"a selection names {unknown}", (), tuple(unknown))
            else:
                yield Comparison(key, axis, "selected", f"{len(names)} of {len(known)} names")


def match_spellings_of_selection(names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """Return a selection's joint names in the spelling of the full list, where each has exactly one partner there."""
    by_form: dict[str, list[str]] = {}
    for name in known:
        by_form.setdefault(name.replace(":", "_"), []).append(name)
    matched = []
    for name in names:
        partners = [name] if name in known else by_form.get(name.replace(":", "_"), [])
        matched.append(partners[0] if len(partners) == 1 else name)
    return tuple(matched)
