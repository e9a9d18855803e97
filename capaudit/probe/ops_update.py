"""Evidence that grows: keep what an earlier run has shown and still speaks of, measure the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capaudit.evidence import Environment, Evidence, Record
from capaudit.knowledge.idioms import Idiom
from capaudit.probe.ops_idioms import digest
from capaudit.probe.ops_record import declare, disagrees, verdict_of

_DEVICE_SIDE = ("gpu", "driver", "cuda", "torch")
_LIBRARIES = ("warp", "mujoco", "mujoco_warp")


@dataclass(frozen=True, slots=True)
class Plan:
    """``kept`` records by id, which still hold, and the idioms that are left to measure."""

    kept: dict[str, Record]
    remaining: tuple[Idiom, ...]


def plan(idioms: Sequence[Idiom], earlier: Evidence) -> Plan:
    """Keep the records of unchanged programs whose outcome agrees with today's declaration."""
    kept = {}
    for idiom in idioms:
        record = earlier.record(idiom.id)
        if record is None or record.outcome == "not-run" or record.values.get("program") != digest(idiom):
            continue
        declared = declare(record, idiom)
        if not disagrees(declared):
            kept[idiom.id] = declared
    return Plan(kept, tuple(idiom for idiom in idioms if idiom.id not in kept))


def declare_anew(idioms: Sequence[Idiom], kept: dict[str, Record], earlier: Evidence) -> Evidence:
    """Return the earlier run with today's declarations, for idioms that are all kept."""
    records = tuple(kept[idiom.id] for idiom in idioms)
    return replace(
        earlier, target=earlier.target | {"count": len(records)}, records=records, verdict=verdict_of(records)
    )


def is_comparable(earlier: Environment, now: Environment) -> bool:
    """Whether two runs may stand in one document: the same device and torch, and no library in two versions."""
    same = all(getattr(earlier, name) == getattr(now, name) for name in _DEVICE_SIDE)
    pairs = ((getattr(earlier, name), getattr(now, name)) for name in _LIBRARIES)
    return same and all(one == two or one is None or two is None for one, two in pairs)


def join(idioms: Sequence[Idiom], kept: dict[str, Record], earlier: Evidence, found: Evidence) -> Evidence:
    """Return one document with the kept and the new records, in the order of the idioms."""
    new = {record.id: record for record in found.records}
    records = tuple(kept[idiom.id] if idiom.id in kept else new[idiom.id] for idiom in idioms)
    libraries = {name: getattr(found.environment, name) or getattr(earlier.environment, name) for name in _LIBRARIES}
    return replace(
        found,
        environment=replace(found.environment, **libraries),
        target=found.target | {"count": len(records)},
        parameters=found.parameters | {"kept": len(kept), "kept_from": earlier.date},
        records=records,
        verdict=found.verdict if found.verdict == "failed" else verdict_of(records),
    )
