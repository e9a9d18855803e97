"""UniLab: every entity of the scene that declares joints. Names are declared, in the order of the entity's columns."""

from __future__ import annotations

from typing import Any

from capaudit.ordering.adapters import make_entry
from capaudit.ordering.mapping import check_live
from capaudit.ordering.record import Entry


def entries(scene: Any, backend: str | None = None) -> dict[str, Entry]:
    """Return one entry per entity that exposes joints. Errors: ``LiveNamesError``."""
    found = {}
    for key, entity in scene.entities.items():
        joints = _declared(entity, "joint_names")
        if not joints:
            continue
        bodies = _declared(entity, "body_names") or ()
        entry = make_entry(
            backend or "mujoco",
            joint_names=joints,
            body_names=bodies,
            is_fixed_base=_is_fixed(entity),
            actuator_names=_declared(entity, "actuator_names"),
        )
        check_live(entry.public_joint_names, "joint", str(key))
        check_live(entry.public_body_names, "body", str(key))
        found[str(key)] = entry
    return found


def _declared(entity: Any, name: str) -> Any:
    """Return a namespace, or ``None`` where the entity does not declare it (UniLab raises then)."""
    try:
        return getattr(entity, name)
    except Exception:
        return None


def _is_fixed(entity: Any) -> bool:
    for name in ("is_fixed_base", "fixed_base"):
        value = _declared(entity, name)
        if isinstance(value, bool):
            return value
    return False
