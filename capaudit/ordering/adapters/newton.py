"""Newton: an ``ArticulationView``. Its joint axis counts degrees of freedom (``joint_dof_names``, ``finger:0``)."""

from __future__ import annotations

from typing import Any

from capaudit.ordering.adapters import make_entry
from capaudit.ordering.errors import OrderingUsageError
from capaudit.ordering.mapping import check_live
from capaudit.ordering.record import Entry


def is_view(candidate: object) -> bool:
    """Whether the object is a Newton articulation view, by its public names."""
    return hasattr(candidate, "joint_dof_names") and hasattr(candidate, "link_names")


def entries(view: Any, backend: str | None = None, *, name: str = "robot") -> dict[str, Entry]:
    """Return the view's entry. Leave the free joint out where the view is made (``exclude_joint_types``).

    Errors: ``OrderingUsageError`` for a view over articulations that differ (Newton has no names then),
    ``LiveNamesError``.
    """
    if view.joint_dof_names is None or view.link_names is None:
        raise OrderingUsageError("the view covers articulations that differ, so it has no one order")
    entry = make_entry(
        backend or "newton",
        joint_names=view.joint_dof_names,
        body_names=view.link_names,
        is_fixed_base=bool(getattr(view, "is_fixed_base", False)),
    )
    check_live(entry.public_joint_names, "joint", name)
    check_live(entry.public_body_names, "body", name)
    return {name: entry}
