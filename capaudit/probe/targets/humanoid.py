"""``mjwarp:humanoid``: the humanoid model that ships inside the mujoco_warp package, no download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from capaudit.model import InputError
from capaudit.probe.targets.base import Target, TargetOptions

MODEL = Path("test_data") / "humanoid" / "humanoid.xml"
# Room per world for contacts and constraints; the defaults of mujoco_warp are for one fallen humanoid.
CONTACTS_PER_WORLD, CONSTRAINTS_PER_WORLD = 24, 64


class Humanoid:
    """The model and its state on one Warp device, with the calls that the probe's questions need."""

    def __init__(self, worlds: int, device: str, seed: int = 0) -> None:
        import mujoco
        import mujoco_warp
        import numpy as np
        import warp as wp

        self.device = wp.get_device(warp_device_name(device))
        self.worlds = worlds
        self.host_model = load_model()
        data = mujoco.MjData(self.host_model)
        if self.host_model.nkey:
            mujoco.mj_resetDataKeyframe(self.host_model, data, 0)
        mujoco.mj_forward(self.host_model, data)
        with wp.ScopedDevice(self.device):
            self.model = mujoco_warp.put_model(self.host_model)
            self.data = mujoco_warp.put_data(
                self.host_model, data, nworld=worlds, nconmax=CONTACTS_PER_WORLD, njmax=CONSTRAINTS_PER_WORLD
            )
            control = np.random.default_rng(seed).uniform(-0.2, 0.2, (worlds, self.host_model.nu)).astype(np.float32)
            self.data.ctrl.assign(control)
            self.reset_mask = wp.zeros(worlds, dtype=wp.bool, device=self.device)

    def step(self) -> Any:
        """Run one physics step of all worlds and return the positions."""
        import mujoco_warp
        import warp as wp

        with wp.ScopedDevice(self.device):
            mujoco_warp.step(self.model, self.data)
        return self.data.qpos

    def reset_masked(self) -> Any:
        """Reset the worlds that ``reset_mask`` names."""
        import mujoco_warp
        import warp as wp

        with wp.ScopedDevice(self.device):
            mujoco_warp.reset_data(self.model, self.data, reset=self.reset_mask)
        return self.data.qpos


SEGMENTS = ("step", "reset_masked")


def build_humanoid(name: str) -> Callable[[TargetOptions], Target]:
    """Return the builder of ``mjwarp:<name>``. Raises InputError for a model that is not embedded."""
    if name != "humanoid":
        raise InputError(
            f"there is no embedded MJWarp target {name!r}", remedy="use mjwarp:humanoid, or module:factory"
        )

    def build(options: TargetOptions) -> Target:
        import mujoco_warp

        segment = options.segment or "step"
        if segment not in SEGMENTS:
            raise InputError(f"mjwarp:humanoid has no segment {segment!r}", remedy=f"use one of {', '.join(SEGMENTS)}")
        humanoid = Humanoid(options.worlds, options.device, options.seed)
        return Target(
            name=f"mjwarp:humanoid {segment}",
            step=getattr(humanoid, segment),
            owner=humanoid.data,
            roots=((Path(mujoco_warp.__file__).parent, "mujoco_warp"),),
            capture=options.capture or "shared",
            force_reset=None,
            inputs=("qpos", "qvel", "ctrl"),
            outputs=("qpos", "qvel", "act", "time"),
            uses_warp=True,
            share_warp_stream=True,
            warmup=3 if options.warmup is None else options.warmup,
            # Contacts are appended with atomic operations, so two eager runs agree to rounding only.
            tolerance=2e-3,
            facts={"model": MODEL.as_posix(), "nv": int(humanoid.host_model.nv), "nu": int(humanoid.host_model.nu)},
        )

    return build


def load_model() -> Any:
    """Load the embedded model. Raises InputError where the installed mujoco_warp does not carry it."""
    import mujoco
    import mujoco_warp

    path = Path(mujoco_warp.__file__).parent / MODEL
    if not path.exists():
        raise InputError("the installed mujoco_warp carries no humanoid model", place=MODEL.as_posix())
    return mujoco.MjModel.from_xml_path(str(path))


def warp_device_name(device: str) -> str:
    """Return Warp's name of a torch device: torch's ``cuda`` means its current device, Warp's the same."""
    return "cuda:0" if device == "cuda" else device
