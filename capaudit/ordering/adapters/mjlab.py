"""mjlab: every articulated entity of the scene. Its public order is the order of its MuJoCo model."""

from __future__ import annotations

from typing import Any

from capaudit.ordering.adapters import make_entry
from capaudit.ordering.errors import LiveNamesError
from capaudit.ordering.mapping import check_live
from capaudit.ordering.record import Entry


def entries(scene: Any, backend: str | None = None) -> dict[str, Entry]:
    """Return one entry per entity with joints. Errors: ``LiveNamesError`` for nameless joints or bodies."""
    return {
        str(key): entity_entry(str(key), entity, backend)
        for key, entity in scene.entities.items()
        if getattr(entity, "is_articulated", False)
    }


def entity_entry(key: str, entity: Any, backend: str | None = None) -> Entry:
    """Return the entry of one entity. Errors: ``LiveNamesError``."""
    entry = make_entry(
        backend or "mjwarp",
        joint_names=entity.joint_names,
        body_names=entity.body_names,
        is_fixed_base=entity.is_fixed_base,
        actuator_names=entity.actuator_names,
    )
    try:
        check_live(entry.public_joint_names, "joint", key)
        check_live(entry.public_body_names, "body", key)
    except LiveNamesError as error:
        # The entity cuts names at their last slash, so two parts of one robot can come out alike.
        error.message += " (mjlab shows names without their prefix)"
        raise
    return entry
