"""From two lists of names to index arrays: the permutation check and the gather direction.

Gather direction, everywhere: ``public = backend[..., user_to_backend]`` and
``backend = public[..., backend_to_user]``. ``user_to_backend[i]`` is the backend's index of public name i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from capaudit.ordering.errors import LiveNamesError, NotAPermutationError
from capaudit.ordering.names import Axis, difference, match_spellings, name_problem, near_misses

GATHER: Final = (
    "public = backend[..., user_to_backend] (public column i is backend column user_to_backend[i]); "
    "backend = public[..., backend_to_user]"
)


@dataclass(frozen=True, slots=True)
class AxisOrdering:
    """A public order of one axis that differs from the backend's.

    ``names`` is the public order in the live backend's spelling, ``backend_names`` the live order, both
    of length n; ``user_to_backend`` and ``backend_to_user`` are inverse index arrays of length n.
    ``public = backend[..., user_to_backend]`` and ``backend = public[..., backend_to_user]``.
    """

    axis: Axis
    names: tuple[str, ...]
    backend_names: tuple[str, ...]
    user_to_backend: tuple[int, ...]
    backend_to_user: tuple[int, ...]

    def __post_init__(self) -> None:
        public = tuple(self.backend_names[index] for index in self.user_to_backend)
        back = tuple(public[index] for index in self.backend_to_user)
        if public != self.names or back != self.backend_names:
            # Catches an inverse map that was handed in for the map; a self-inverse one is both.
            raise ValueError("the index arrays do not carry the backend's order to the public one and back")


def axis_ordering(
    names: Sequence[str],
    live_names: Sequence[str],
    axis: Axis,
    *,
    articulation: str = "robot",
    backend: str | None = None,
    place: str | None = None,
) -> AxisOrdering | None:
    """Return the map from the stored public ``names`` to the live backend's, or ``None`` for identity.

    Joint names pass through the spelling match first. Errors: ``NotAPermutationError`` with the exact
    missing and extra names, ``LiveNamesError`` for live names that nothing can be matched with.
    """
    live = plain_names(live_names)
    check_live(live, axis, articulation)
    stored = match_spellings(names, live) if axis == "joint" else tuple(names)
    if stored == live:
        return None
    positions = {name: index for index, name in enumerate(live)}
    if len(stored) != len(live) or positions.keys() != frozenset(stored):
        raise _mismatch(stored, live, axis, articulation, backend, place)
    user_to_backend = tuple(positions[name] for name in stored)
    backend_to_user = [0] * len(live)
    for public, native in enumerate(user_to_backend):
        backend_to_user[native] = public
    return AxisOrdering(axis, stored, live, user_to_backend, tuple(backend_to_user))


def plain_names(names: Sequence[Any]) -> tuple[Any, ...]:
    """Return names as exactly ``str``: frameworks hand out their own string types. What is no text stays."""
    return tuple(str(name) if isinstance(name, str) else name for name in names)


def check_live(names: Sequence[object], axis: Axis, articulation: str) -> None:
    """Refuse live names that no record could name. Errors: ``LiveNamesError`` with axis and index."""
    found = name_problem(names)
    if found is not None:
        index, problem = found
        raise LiveNamesError(
            f"articulation {articulation!r}: {axis} {index} of the live model: {problem}",
            remedy=f"give every {axis} of the model a name of its own",
            details={"articulation": articulation, "axis": axis, "index": index},
        )


def _mismatch(
    stored: tuple[str, ...],
    live: tuple[str, ...],
    axis: Axis,
    articulation: str,
    backend: str | None,
    place: str | None,
) -> NotAPermutationError:
    missing, extra = difference(stored, live)
    hints = near_misses(missing, extra)
    other = "body" if axis == "joint" else "joint"
    on = f" on {backend}" if backend else ""
    message = (
        f"the stored {axis} names are not a permutation of the live ones of articulation {articulation!r}{on}: "
        f"{len(stored)} stored, {len(live)} live; missing from the record: {missing}; "
        f"extra in the record: {extra}"
    )
    if hints:
        message += f"; {'; '.join(hints)}"
    return NotAPermutationError(
        message,
        place=place,
        remedy=(
            f"use the asset that the policy was trained with, or spell the order out "
            f"with ArticulationCfg.{axis}_ordering (an explicit list of all {len(live)} live names; "
            f"ArticulationCfg.{other}_ordering is resolved on its own), "
            "or name another record with ArticulationCfg.ordering_source_path"
        ),
        details={
            "axis": axis,
            "articulation": articulation,
            "backend": backend,
            "missing": missing,
            "extra": extra,
            "stored_count": len(stored),
            "live_count": len(live),
            "hints": hints,
        },
    )
