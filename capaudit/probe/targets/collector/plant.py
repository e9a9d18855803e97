"""The simulated robot of the reference collector: what differs between the humanoid and the G1, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from capaudit.model import InputError

MODELS = ("humanoid", "g1")
TRACKED_BODIES = 14
_G1_FILE = Path("asset_zoo") / "robots" / "unitree_g1" / "xmls" / "g1.xml"
_G1_BODIES = (
    "pelvis",
    *(f"{side}_{part}_link" for side in ("left", "right") for part in ("hip_roll", "knee", "ankle_roll")),
    "torso_link",
    *(f"{side}_{part}_link" for side in ("left", "right") for part in ("shoulder_roll", "elbow", "wrist_yaw")),
)
_G1_HEIGHT = 0.79
_G1_STIFFNESS, _G1_DAMPING, _G1_ARMATURE = 60.0, 3.0, 0.02


@dataclass(frozen=True, slots=True)
class Plant:
    """A free-floating robot with one motor per joint.

    ``model`` is the host model; ``start`` f64[nq] the reset pose. The control of joint j is
    ``offset[j] + scale[j] * action[j]``, clamped to ``low[j]..high[j]`` (torque or position, as the motor has it).
    ``lowest`` is the height of the root in metres below which a world terminates; ``bodies`` are the tracked ones.
    ``contacts`` and ``constraints`` are the room per world.
    """

    name: str
    source: str
    model: Any
    start: Any
    offset: Any
    scale: Any
    low: Any
    high: Any
    lowest: float
    bodies: tuple[int, ...]
    contacts: int
    constraints: int


def load_plant(name: str) -> Plant:
    """Load the named robot. Raises InputError for an unknown name, or where its package is not installed."""
    if name == "humanoid":
        return _load_humanoid()
    if name == "g1":
        return _load_g1()
    raise InputError(f"there is no robot {name!r}", remedy=f"use one of {', '.join(MODELS)}")


def _load_humanoid() -> Plant:
    import numpy as np

    from capaudit.probe.targets.humanoid import MODEL, load_model

    model = load_model()
    ones = np.ones(model.nu)
    return Plant(
        name="humanoid",
        source=MODEL.as_posix(),
        model=model,
        start=model.qpos0.copy(),
        offset=0.0 * ones,
        scale=0.4 * ones,
        low=model.actuator_ctrlrange[:, 0].copy(),
        high=model.actuator_ctrlrange[:, 1].copy(),
        lowest=0.9,
        bodies=tuple(range(1, 1 + TRACKED_BODIES)),
        contacts=24,
        constraints=96,
    )


def _load_g1() -> Plant:
    import mujoco
    import numpy as np

    # The package is looked up and not imported: its import needs video libraries that a collector does not.
    package = find_spec("mjlab")
    if package is None or not package.submodule_search_locations:
        raise InputError("the G1 comes with mjlab, which is not installed", remedy="pip install mjlab")
    path = Path(package.submodule_search_locations[0]) / _G1_FILE
    if not path.is_file():
        raise InputError("the installed mjlab carries no G1 model", place=_G1_FILE.as_posix())
    specification = mujoco.MjSpec.from_file(str(path))
    for joint in specification.joints:
        if joint.type != mujoco.mjtJoint.mjJNT_FREE:
            motor = specification.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            motor.set_to_position(kp=_G1_STIFFNESS, kv=_G1_DAMPING)
            joint.armature = _G1_ARMATURE
    for geometry in specification.geoms:
        # The robot meets the floor and not itself, with the shapes that are named for it.
        geometry.contype, geometry.conaffinity = 0, int(geometry.name.endswith("_collision"))
    floor = specification.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE)
    floor.size = [0.0, 0.0, 0.05]
    floor.contype, floor.conaffinity = 1, 0
    model = specification.compile()
    model.opt.timestep = 0.005
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    start = model.qpos0.copy()
    start[2] = _G1_HEIGHT
    ranges = model.jnt_range[1:]
    return Plant(
        name="g1",
        source="mjlab unitree_g1",
        model=model,
        start=start,
        offset=start[7:].copy(),
        scale=0.25 * np.ones(model.nu),
        low=ranges[:, 0].copy(),
        high=ranges[:, 1].copy(),
        lowest=0.4,
        bodies=tuple(int(model.body(name).id) for name in _G1_BODIES),
        contacts=64,
        constraints=256,
    )
