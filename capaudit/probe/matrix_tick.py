"""The reference collector's tick: everything that one control step does, on fixed buffers and one stream."""

from __future__ import annotations

from typing import Any

from capaudit.probe.targets.humanoid import Humanoid

SUBSTEPS = 3
_LOWEST_HEIGHT = 0.9


class CollectorTick:
    """Action, physics, observation, reward, termination, masked reset, forward, and the copy to the ingress slot.

    ``action`` f32[worlds, nu] is the input carrier; ``ingress`` f32[worlds, nq + nv + 2] the output carrier.
    """

    def __init__(self, humanoid: Humanoid) -> None:
        import torch
        import warp as wp

        self.humanoid = humanoid
        data, worlds = humanoid.data, humanoid.worlds
        self.position, self.velocity = wp.to_torch(data.qpos), wp.to_torch(data.qvel)
        self.control, self.mask = wp.to_torch(data.ctrl), wp.to_torch(humanoid.reset_mask)
        device = self.position.device
        self.action = torch.zeros_like(self.control)
        self.observation = torch.zeros(worlds, self.position.shape[1] + self.velocity.shape[1], device=device)
        self.reward = torch.zeros(worlds, device=device)
        self.done = torch.zeros(worlds, dtype=torch.bool, device=device)
        self.ingress = torch.zeros(worlds, self.observation.shape[1] + 2, device=device)

    def step(self) -> Any:
        """Run one tick and return the ingress slot."""
        import torch

        self.control.copy_(self.action.clamp(-1.0, 1.0))
        for _ in range(SUBSTEPS):
            self.humanoid.step()
        self._observe()
        torch.sub(self.position[:, 2], self.control.square().sum(1), alpha=0.1, out=self.reward)
        torch.lt(self.position[:, 2], _LOWEST_HEIGHT, out=self.done)
        self.mask.copy_(self.done)
        self.humanoid.reset_masked()
        self._forward()
        self._observe()
        width = self.observation.shape[1]
        self.ingress[:, :width].copy_(self.observation)
        self.ingress[:, width].copy_(self.reward)
        self.ingress[:, width + 1].copy_(self.done)
        return self.ingress

    def _observe(self) -> None:
        width = self.position.shape[1]
        self.observation[:, :width].copy_(self.position)
        self.observation[:, width:].copy_(self.velocity)

    def _forward(self) -> None:
        import mujoco_warp
        import warp as wp

        with wp.ScopedDevice(self.humanoid.device):
            mujoco_warp.forward(self.humanoid.model, self.humanoid.data)
