"""MuJoCo: a model file or an ``MjModel``. The only adapter that loads its framework, and only for a file.

The free joint is no actuated degree of freedom and is left out, as every framework on top does. Joints and
actuators are two axes with orders of their own.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from capaudit.ordering.adapters import make_entry
from capaudit.ordering.errors import LiveNamesError, NoRecordError, OrderingUsageError
from capaudit.ordering.mapping import check_live
from capaudit.ordering.record import Entry

_FREE_JOINT: Final = 0  # mjtJoint.mjJNT_FREE


def load_model(path: str | os.PathLike[str]) -> Any:
    """Compile a model file (``.xml``, ``.mjcf``, ``.mjb``).

    Errors: ``NoRecordError`` where there is none, ``OrderingUsageError`` where MuJoCo is missing or refuses it.
    """
    place = os.fspath(path)
    if not os.path.isfile(place):
        raise NoRecordError("there is no such model file", place=place, details={"probed": [place]})
    try:
        import mujoco
    except ImportError as error:
        raise OrderingUsageError(
            f"reading a MuJoCo model needs the mujoco package: {error}",
            place=place,
            remedy='pip install "capaudit[probe]" or mujoco',
        ) from error
    try:
        if place.endswith(".mjb"):
            return mujoco.MjModel.from_binary_path(place)
        return mujoco.MjModel.from_xml_path(place)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise OrderingUsageError(f"MuJoCo cannot compile the model: {reason}", place=place) from error


def model_of(env: object) -> Any | None:
    """Return the ``MjModel`` that an object is or holds (``mj_model``, ``model``), without importing MuJoCo."""
    mujoco = sys.modules.get("mujoco")
    kind = getattr(mujoco, "MjModel", None)
    if kind is None:
        return None
    for value in (
        env,
        getattr(env, "mj_model", None),
        getattr(env, "model", None),
        getattr(getattr(env, "sim", None), "mj_model", None),
    ):
        if isinstance(value, kind):
            return value
    return None


def entries(
    model: Any,
    *,
    name: str | None = None,
    backend: str | None = None,
    root: str | None = None,
    include_world: bool = False,
    bodies: bool = True,
) -> dict[str, Entry]:
    """Return the one entry of a model.

    ``root`` keeps the subtree of that body; ``include_world`` keeps body 0, the world, which no framework on top
    counts; ``bodies=False`` leaves the bodies out; actuators are left out where one has no name. Errors:
    ``LiveNamesError`` with the index of a joint or body without a name, ``OrderingUsageError`` for a root that is not
    there or has no joints.
    """
    key = name or "robot"
    kept = _subtree(model, root)
    joint_ids = [j for j in range(model.njnt) if int(model.jnt_bodyid[j]) in kept and not _is_free(model, j)]
    body_ids = [b for b in range(model.nbody) if b in kept and (b or include_world)] if bodies else []
    joints = _named(model, "joint", joint_ids, key)
    if not joints:
        raise OrderingUsageError("the model has no joint besides a free one, so there is no order to record")
    names = _named(model, "body", body_ids, key, " (or leave the bodies out)")
    actuator_ids = [a for a in range(model.nu) if root is None or _drives(model, a) in joint_ids]
    # Many models drive named joints by nameless actuators; that axis is then not known, and the others are.
    is_known = all(model.actuator(a).name for a in actuator_ids)
    return {
        key: make_entry(
            backend or "mujoco",
            joint_names=joints,
            body_names=names,
            is_fixed_base=not any(_is_free(model, j) and int(model.jnt_bodyid[j]) in kept for j in range(model.njnt)),
            actuator_names=_named(model, "actuator", actuator_ids, key) if is_known else None,
        )
    }


def actuated_joints(model: Any) -> list[str | None]:
    """Return, per actuator, the name of the joint that it drives; ``None`` for tendons, sites and bodies."""
    driven = (_drives(model, actuator) for actuator in range(model.nu))
    return [None if joint is None else str(model.joint(joint).name) for joint in driven]


def _drives(model: Any, actuator: int) -> int | None:
    joint_kinds = (0, 1)  # mjtTrn.mjTRN_JOINT, mjTRN_JOINTINPARENT
    return int(model.actuator_trnid[actuator][0]) if int(model.actuator_trntype[actuator]) in joint_kinds else None


def _is_free(model: Any, joint: int) -> bool:
    return int(model.jnt_type[joint]) == _FREE_JOINT


def _subtree(model: Any, root: str | None) -> frozenset[int]:
    if root is None:
        return frozenset(range(model.nbody))
    ids = [b for b in range(model.nbody) if model.body(b).name == root]
    if not ids:
        known = [model.body(b).name for b in range(1, model.nbody) if int(model.body_parentid[b]) == 0]
        raise OrderingUsageError(f"the model has no body {root!r}; its root bodies: {', '.join(known)}")
    kept = {ids[0]}
    for body in range(ids[0] + 1, model.nbody):  # children have higher ids than their parent
        if int(model.body_parentid[body]) in kept:
            kept.add(body)
    return frozenset(kept)


def _named(model: Any, axis: str, ids: list[int], key: str, also: str = "") -> list[str]:
    access = getattr(model, axis)
    names = [str(access(i).name) for i in ids]
    for i, name in zip(ids, names, strict=True):
        if not name:
            raise LiveNamesError(
                f"articulation {key!r}: {axis} {i} of the model has no name, so no record can speak of it",
                remedy=f"name it in the model file{also}",
                details={"articulation": key, "axis": axis, "index": i},
            )
    if axis != "actuator":
        check_live(names, "joint" if axis == "joint" else "body", key)
    return names
