"""MuJoCo Warp's side of the tick: many worlds of one robot, and Torch's views of their state at stable addresses."""

from __future__ import annotations

import mujoco
import mujoco_warp
import torch
import warp as wp

from capaudit.probe.targets.collector.plant import Plant
from capaudit.probe.targets.humanoid import warp_device_name


class Simulation:
    """``worlds`` copies of a robot on one device.

    The views share memory with MuJoCo Warp's data: position f32[N, nq], velocity f32[N, nv], control f32[N, nu],
    body_position f32[N, nbody, 3], body_rotation f32[N, nbody, 4] (w, x, y, z), body_velocity f32[N, nbody, 6]
    (angular, linear), constraint_force f32[N, nv], reset_mask bool[N].
    """

    def __init__(self, plant: Plant, worlds: int, device: str) -> None:
        self.worlds = worlds
        self.plant_name = plant.name
        self.device = wp.get_device(warp_device_name(device))
        host = mujoco.MjData(plant.model)
        host.qpos[:] = plant.start
        mujoco.mj_forward(plant.model, host)
        with wp.ScopedDevice(self.device):
            self.model: mujoco_warp.Model = mujoco_warp.put_model(plant.model)
            self.data: mujoco_warp.Data = mujoco_warp.put_data(
                plant.model, host, nworld=worlds, nconmax=plant.contacts, njmax=plant.constraints
            )
            self.warp_mask: wp.array = wp.zeros(worlds, dtype=wp.bool, device=self.device)
        self.position: torch.Tensor = wp.to_torch(self.data.qpos)
        self.velocity: torch.Tensor = wp.to_torch(self.data.qvel)
        self.control: torch.Tensor = wp.to_torch(self.data.ctrl)
        self.body_position: torch.Tensor = wp.to_torch(self.data.xpos)
        self.body_rotation: torch.Tensor = wp.to_torch(self.data.xquat)
        self.body_velocity: torch.Tensor = wp.to_torch(self.data.cvel)
        self.constraint_force: torch.Tensor = wp.to_torch(self.data.qfrc_constraint)
        self.warm_start: torch.Tensor = wp.to_torch(self.data.qacc_warmstart)
        self.time: torch.Tensor = wp.to_torch(self.data.time)
        self.reset_mask: torch.Tensor = wp.to_torch(self.warp_mask)

    def step(self) -> None:
        """Advance every world by one physics step."""
        with wp.ScopedDevice(self.device):
            mujoco_warp.step(self.model, self.data)

    def reset_masked(self) -> None:
        """Put the worlds that ``reset_mask`` names back to the model's defaults; the others stay as they are."""
        with wp.ScopedDevice(self.device):
            mujoco_warp.reset_data(self.model, self.data, reset=self.warp_mask)

    def forward(self) -> None:
        """Compute what depends on position and velocity, for every world."""
        with wp.ScopedDevice(self.device):
            mujoco_warp.forward(self.model, self.data)
