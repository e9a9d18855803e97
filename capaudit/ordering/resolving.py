"""``from_checkpoint``: the order that a policy was trained against, carried to a live backend.

No convention is ever discovered here: a record holds names, and names are all that is compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from capaudit.ordering.errors import MissingEntryError, OrderingUsageError
from capaudit.ordering.locating import load_source
from capaudit.ordering.mapping import AxisOrdering, axis_ordering, check_live, plain_names
from capaudit.ordering.names import Axis
from capaudit.ordering.sources import Source

FROM_CHECKPOINT: Final = "from_checkpoint"

Fetch = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class Resolution:
    """The orders of one articulation on the live backend.

    ``joint`` and ``body`` are ``None`` for identity: no map, no index arrays, nothing to stage.
    ``joint_names`` and ``body_names`` are the public orders in the live spelling; ``None`` where the axis
    was not asked for. ``verdict`` is ``identity`` or ``permutation``.
    """

    articulation: str
    source: Source | None
    joint: AxisOrdering | None
    body: AxisOrdering | None
    joint_names: tuple[str, ...] | None
    body_names: tuple[str, ...] | None

    @property
    def verdict(self) -> str:
        """``identity`` when no axis needs a map."""
        return "identity" if self.joint is None and self.body is None else "permutation"


def is_from_checkpoint(value: object) -> bool:
    """Whether a configured order is the ``from_checkpoint`` mode, in any case."""
    value = getattr(value, "value", value)
    return isinstance(value, str) and value.strip().casefold() == FROM_CHECKPOINT


def from_checkpoint(
    source: str | os.PathLike[str] | Source,
    *,
    articulation: str | None = None,
    joint_names: Sequence[str] | None = None,
    body_names: Sequence[str] | None = None,
    backend: str | None = None,
    fetch: Fetch | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Resolution:
    """Resolve both axes of an articulation from the record that belongs to a checkpoint.

    ``source`` is a checkpoint file, a run folder, an ``ordering.yaml``, a LEAPP artifact, or a URL together
    with ``fetch``. ``joint_names`` and ``body_names`` are the live backend's orders (``None``: leave this
    axis out). Errors: ``NoRecordError``, ``MissingEntryError``, ``NotAPermutationError``, ``ConflictError`` and
    what ``load_source`` raises.
    """
    if fetch is not None and "://" in os.fspath(source if not isinstance(source, Source) else source.path):
        from capaudit.ordering.remote import fetched_source

        source = fetched_source(os.fspath(source if not isinstance(source, Source) else source.path), fetch, cache)
    found = source if isinstance(source, Source) else load_source(source)
    key, orders = found.orders(articulation)
    maps: dict[Axis, AxisOrdering | None] = {"joint": None, "body": None}
    public: dict[Axis, tuple[str, ...] | None] = {"joint": None, "body": None}
    live: tuple[tuple[Axis, Sequence[str] | None], ...] = (("joint", joint_names), ("body", body_names))
    for axis, names in live:
        if names is None:
            continue
        stored = orders.names(axis)
        if stored is None:
            if not names:
                public[axis] = ()
                continue
            raise MissingEntryError(
                f"the source has no {axis} order of articulation {key!r}",
                place=found.path,
                remedy=f"spell it out with ArticulationCfg.{axis}_ordering",
                details={"articulation": key, "axis": axis, "available": list(found.articulations)},
            )
        maps[axis] = axis_ordering(stored, names, axis, articulation=key, backend=backend, place=found.path)
        mapped = maps[axis]
        public[axis] = plain_names(names) if mapped is None else mapped.names
    return Resolution(key, found, maps["joint"], maps["body"], public["joint"], public["body"])


def resolve_configured(
    *,
    joint_ordering: object,
    body_ordering: object,
    joint_names: Sequence[str],
    body_names: Sequence[str],
    ordering_source_path: str | os.PathLike[str] | None = None,
    articulation: str | None = None,
    backend: str | None = None,
) -> Resolution:
    """Resolve ``ArticulationCfg.joint_ordering`` and ``.body_ordering``, each on its own.

    Each is ``None`` (the backend's order), the mode ``from_checkpoint`` (any case; read from
    ``ordering_source_path``), or an explicit list of all names. Errors: ``OrderingUsageError`` for the mode
    without a path and for an alias such as ``physx``, which only the framework can resolve, and
    ``from_checkpoint``'s.
    """
    source = None
    key = articulation
    maps: list[AxisOrdering | None] = []
    names: list[tuple[str, ...]] = []
    asked: tuple[tuple[Axis, object, Sequence[str]], ...] = (
        ("joint", joint_ordering, joint_names),
        ("body", body_ordering, body_names),
    )
    for axis, wanted, live in asked:
        if is_from_checkpoint(wanted):
            if source is None:
                source = load_source(_require_path(ordering_source_path, axis))
            resolution = from_checkpoint(
                source,
                articulation=articulation,
                joint_names=live if axis == "joint" else None,
                body_names=live if axis == "body" else None,
                backend=backend,
            )
            key = resolution.articulation
            mapped = resolution.joint if axis == "joint" else resolution.body
        else:
            mapped = _explicit(wanted, live, axis, articulation, backend)
        maps.append(mapped)
        names.append(plain_names(live) if mapped is None else mapped.names)
    return Resolution(key or "robot", source, maps[0], maps[1], names[0], names[1])


def _require_path(path: str | os.PathLike[str] | None, axis: Axis) -> str | os.PathLike[str]:
    if path is None or path == "":
        raise OrderingUsageError(
            f"{axis}_ordering is 'from_checkpoint' and ordering_source_path is not set",
            remedy="set ArticulationCfg.ordering_source_path to the checkpoint, its run folder or its ordering.yaml "
            f"(inject() fills it from --checkpoint), or give ArticulationCfg.{axis}_ordering an explicit list of names",
        )
    return path


def _explicit(
    wanted: object, live: Sequence[str], axis: Axis, articulation: str | None, backend: str | None
) -> AxisOrdering | None:
    key = articulation or "robot"
    if wanted is None:
        check_live(plain_names(live), axis, key)
        return None
    if isinstance(wanted, (list, tuple)):
        return axis_ordering(
            tuple(wanted), live, axis, articulation=key, backend=backend, place=f"ArticulationCfg.{axis}_ordering"
        )
    raise OrderingUsageError(
        f"{axis}_ordering is {getattr(wanted, 'value', wanted)!r}: conventions are resolved by the framework, not here",
        remedy=f"set ArticulationCfg.{axis}_ordering to 'from_checkpoint' or to an explicit list of names",
        details={"axis": axis},
    )


def is_url(source: str | os.PathLike[str]) -> bool:
    """Whether a checkpoint is named by a URL."""
    return "://" in os.fspath(source) and not Path(os.fspath(source)).exists()
