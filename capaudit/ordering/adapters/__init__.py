"""Thin adapters from frameworks to entries of a record: names are read, nothing is computed, nothing discovered.

No framework is imported here. An environment, scene or model is recognised by the public names that it
has, so that whoever calls has imported the framework already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capaudit.ordering.errors import OrderingUsageError
from capaudit.ordering.record import Entry, configured_value


def entries_of(env: object, *, backend: str | None = None) -> dict[str, Entry]:
    """Return one entry per articulation of a live environment, scene, model or Newton view.

    ``backend`` overrides the name of the physics backend. Errors: ``OrderingUsageError`` for an object that no
    adapter knows, or whose articulations are not initialised yet; ``LiveNamesError`` for nameless joints.
    """
    from capaudit.ordering.adapters import isaaclab, mjlab, mujoco, newton, unilab

    for candidate in _layers(env):
        scene = getattr(candidate, "scene", candidate)
        if isinstance(getattr(scene, "articulations", None), Mapping):
            return isaaclab.entries(scene, backend)
        entities = getattr(scene, "entities", None)
        if isinstance(entities, Mapping) and entities:
            name = backend or _backend_of(candidate)
            if any(hasattr(entity, "is_articulated") for entity in entities.values()):
                return mjlab.entries(scene, name)
            return unilab.entries(scene, name)
        if newton.is_view(candidate):
            return newton.entries(candidate, backend)
        model = mujoco.model_of(candidate)
        if model is not None:
            return mujoco.entries(model, backend=backend)
    raise OrderingUsageError(
        f"{type(env).__name__} shows none of: scene.articulations, scene.entities, an MjModel, a Newton view",
        remedy="pass the unwrapped environment after its creation, or record from explicit JSON",
    )


def _layers(env: object) -> list[Any]:
    """The object and what it wraps, outermost first."""
    found: list[Any] = []
    queue: list[Any] = [env]
    while queue and len(found) < 32:
        layer = queue.pop(0)
        if layer is None or any(layer is seen for seen in found):
            continue
        found.append(layer)
        queue += [getattr(layer, name, None) for name in ("unwrapped", "env", "_env", "venv")]
    return found


def _backend_of(env: object) -> str | None:
    for name in ("sim_backend", "backend_name"):
        value = getattr(env, name, None) or getattr(getattr(env, "cfg", None), name, None)
        if isinstance(value, str) and value:
            return value
    return None


def make_entry(
    backend: str,
    *,
    joint_names: Any,
    body_names: Any,
    is_fixed_base: bool,
    backend_joint_names: Any = None,
    backend_body_names: Any = None,
    joint_ordering: object = None,
    body_ordering: object = None,
    actuator_names: Any = None,
) -> Entry:
    """Return an entry from any sequences of names; without backend names the public order is the backend's."""
    joints, bodies = _plain(joint_names), _plain(body_names)
    return Entry(
        backend=backend,
        public_joint_names=joints,
        public_body_names=bodies,
        backend_joint_names=joints if backend_joint_names is None else _plain(backend_joint_names),
        backend_body_names=bodies if backend_body_names is None else _plain(backend_body_names),
        is_fixed_base=bool(is_fixed_base),
        joint_ordering=configured_value(joint_ordering, "joint_ordering"),
        body_ordering=configured_value(body_ordering, "body_ordering"),
        actuator_names=None if actuator_names is None else _plain(actuator_names),
    )


def _plain(names: Any) -> tuple[str, ...]:
    # Frameworks hand out their own string types; a record holds exactly ``str``.
    return tuple(str(name) if isinstance(name, str) else name for name in names)
