"""Isaac Lab: every articulation of the scene.

Public names read: ``scene.articulations``, and of an articulation ``joint_names``, ``body_names``,
``is_fixed_base``, ``is_initialized``, ``cfg.joint_ordering``, ``cfg.body_ordering``, ``backend_joint_names``,
``backend_body_names`` (3.0). Before 3.0 there was one order, the backend's.
"""

from __future__ import annotations

from typing import Any

from capaudit.ordering.adapters import make_entry
from capaudit.ordering.errors import OrderingUsageError
from capaudit.ordering.mapping import check_live
from capaudit.ordering.record import Entry


def entries(scene: Any, backend: str | None = None) -> dict[str, Entry]:
    """Return one entry per articulation. Errors: ``OrderingUsageError`` before the simulation has started."""
    return {str(key): _entry(str(key), articulation, backend) for key, articulation in scene.articulations.items()}


def _entry(key: str, articulation: Any, backend: str | None) -> Entry:
    if getattr(articulation, "is_initialized", True) is False:
        raise OrderingUsageError(
            f"articulation {key!r} is not initialised yet, so its order is not known",
            remedy="record after the environment has been created (the simulation has played once)",
        )
    configuration = getattr(articulation, "cfg", None)
    entry = make_entry(
        backend or backend_name(articulation),
        joint_names=articulation.joint_names,
        body_names=articulation.body_names,
        is_fixed_base=bool(articulation.is_fixed_base),
        backend_joint_names=getattr(articulation, "backend_joint_names", None),
        backend_body_names=getattr(articulation, "backend_body_names", None),
        joint_ordering=getattr(configuration, "joint_ordering", None),
        body_ordering=getattr(configuration, "body_ordering", None),
    )
    check_live(entry.public_joint_names, "joint", key)
    check_live(entry.public_body_names, "body", key)
    return entry


def backend_name(articulation: Any) -> str:
    """Return the physics backend: what the articulation says, else what its package is called, else ``physx``."""
    for name in ("__backend_name__", "backend_name"):
        value = getattr(articulation, name, None)
        if isinstance(value, str) and value:
            return value
    package = type(articulation).__module__.partition(".")[0]
    return package.removeprefix("isaaclab_") if package.startswith("isaaclab_") else "physx"
