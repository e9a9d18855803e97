"""The K=1 collector tick: one action in place, one transition in the ingress slot, and nothing for the host to wait on.

Everything works in place on fixed carriers, over all worlds, on one stream. Whether a world resets is a value on the
device and never a branch on the host. One call of ``tick`` is one eager step and can be recorded as one graph.
"""

from __future__ import annotations

import torch
import warp as wp

from capaudit.contract.ownership import boundary
from capaudit.probe.targets.collector.carriers import Carriers, allocate_carriers
from capaudit.probe.targets.collector.draws import draw_reset
from capaudit.probe.targets.collector.plant import Plant
from capaudit.probe.targets.collector.publication import Publication
from capaudit.probe.targets.collector.simulation import Simulation

SUBSTEPS = 3
MAXIMUM_EPISODE = 500
NOISE_SCALE, POSE_NOISE, VELOCITY_NOISE, GAIT_AMPLITUDE = 0.01, 0.05, 0.1, 0.2
UPRIGHT = 0.3
DRAW_ORDER = ("terminal-observation-noise", "reset-values", "observation-noise")
_PHASE_STEP = 0.06


class CollectorTick:
    """The tick and what it owns. ``step`` of the caller fills ``carriers.action`` and calls ``tick``.

    ``generator`` draws the observation noise and has to be registered with a graph that records the tick.
    """

    def __init__(self, plant: Plant, worlds: int, device: str, seed: int = 1) -> None:
        self.plant = plant
        self.worlds = worlds
        self.device = device
        joints, velocities = int(plant.model.nu), int(plant.model.nv)
        self.simulation = Simulation(plant, worlds, device)
        self.carriers: Carriers = allocate_carriers(worlds, joints, velocities, device)
        self.publication = Publication(self.carriers)
        self.generator = torch.Generator(device=device)
        self.generator.manual_seed(seed)
        # Evidence on the CPU: where the generator stood when somebody last asked.
        self.random_state = self.generator.get_state()
        self.offset, self.scale = _row(plant.offset, device), _row(plant.scale, device)
        self.low, self.high = _row(plant.low, device), _row(plant.high, device)
        self.start, self.joint_start = _row(plant.start, device), _row(plant.start[7:], device)
        self.gait = torch.linspace(0.0, 6.28, joints, device=device)
        self.bodies = torch.tensor(plant.bodies, dtype=torch.int64, device=device)
        # The six entries of a rotation matrix's first two columns as sums of products of quaternion components.
        self.left = torch.tensor([2, 3, 1, 0, 1, 0, 1, 0, 1, 3, 2, 0], dtype=torch.int64, device=device)
        self.right = torch.tensor([2, 3, 2, 3, 3, 2, 2, 3, 1, 3, 3, 1], dtype=torch.int64, device=device)
        signs = [-2.0, -2.0, 2.0, 2.0, 2.0, -2.0, 2.0, -2.0, -2.0, -2.0, 2.0, 2.0]
        self.signs = torch.tensor(signs, device=device)
        self.identity = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0], device=device)
        self.joint_columns = torch.arange(joints, device=device)
        weights = [0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, -0.1, -10.0, -1e-4, 0.2]
        self.weights = torch.tensor(weights, device=device)
        self.body_count = len(plant.bodies)
        self.joints = joints
        self.maximum_episode = MAXIMUM_EPISODE
        self.reference_bodies = torch.zeros(self.body_count, 3, device=device)
        self.reset_seed: wp.array = wp.full(1, seed, dtype=wp.int32, device=self.simulation.device)
        self.warp_draws: wp.array = wp.from_torch(self.carriers.reset_draws)
        self.warp_values: wp.array = wp.from_torch(self.carriers.reset_values)
        self.staged_position = torch.zeros_like(self.simulation.position)
        self.staged_velocity = torch.zeros_like(self.simulation.velocity)
        root = self.simulation.body_position[:, int(plant.bodies[0]), :]
        self.reference_bodies.copy_((self.simulation.body_position.index_select(1, self.bodies) - root.unsqueeze(1))[0])
        self._observe(self.carriers.actor, self.carriers.critic)

    @boundary(name="collector tick", capture="shared")
    def tick(self) -> torch.Tensor:
        """Run one control step of all worlds and return the ingress slots, f32[2, N, W]."""
        self.publication.begin()
        self._apply_action()
        self._advance_physics()
        self._terminate()
        self._reward()
        self._observe_terminal()
        self._reset()
        self._observe_after_reset()
        self.publication.commit()
        return self.carriers.ingress

    def _apply_action(self) -> None:
        c = self.carriers
        c.finite.logical_and_(torch.isfinite(c.action).all())
        torch.addcmul(self.offset, c.action, self.scale, out=c.control)
        torch.clamp(c.control, self.low, self.high, out=c.control)
        self.simulation.control.copy_(c.control)

    def _advance_physics(self) -> None:
        for _ in range(SUBSTEPS):
            self.simulation.step()

    def _terminate(self) -> None:
        c, s = self.carriers, self.simulation
        c.episode_length.add_(1)
        rotation = s.position[:, 3:7]
        upright = 1.0 - 2.0 * (rotation[:, 1].square() + rotation[:, 2].square())
        torch.lt(s.position[:, 2], self.plant.lowest, out=c.terminated)
        c.terminated.logical_or_(upright < UPRIGHT)
        torch.ge(c.episode_length, MAXIMUM_EPISODE, out=c.truncated)
        c.truncated.logical_and_(~c.terminated)
        torch.logical_or(c.terminated, c.truncated, out=c.done)
        s.reset_mask.copy_(c.done)
        c.episodes.add_(c.done.sum())
        c.timeouts.add_(c.truncated.sum())

    def _reward(self) -> None:
        c, s = self.carriers, self.simulation
        bodies = s.body_position.index_select(1, self.bodies)
        drift = bodies - bodies[:, :1] - self.reference_bodies
        motion = s.body_velocity.index_select(1, self.bodies)
        rotation = self._rotation_columns(s.body_rotation.index_select(1, self.bodies))
        joints = s.position[:, 7:]
        over = torch.relu(joints - 1.5) + torch.relu(-1.5 - joints)
        torch.stack(
            (
                torch.exp(-(s.position[:, 2] - self.start[2]).square() / 0.09),
                torch.exp(-(rotation[:, 0] - self.identity).square().sum(-1) / 0.16),
                torch.exp(-drift.square().sum((1, 2)) / 0.9),
                torch.exp(-(rotation - self.identity).square().mean((1, 2)) / 0.16),
                torch.exp(-motion[:, :, 3:].square().mean((1, 2))),
                torch.exp(-motion[:, :, :3].square().mean((1, 2)) / 9.8),
                torch.exp(-(joints - c.command[:, : self.joints]).square().mean(1)),
                (c.action - c.previous_action).square().sum(1),
                over.sum(1),
                s.constraint_force.abs().sum(1),
                (~c.terminated).float(),
            ),
            dim=1,
            out=c.components,
        )
        c.components.mul_(self.weights)
        torch.sum(c.components, 1, out=c.reward)
        torch.mean(c.components, 0, out=c.component_means)
        c.finite.logical_and_(torch.isfinite(c.reward).all())
        c.previous_action.copy_(c.action)

    def _observe_terminal(self) -> None:
        c = self.carriers
        self._observe(c.terminal_actor, c.terminal_critic)

    def _reset(self) -> None:
        c, s = self.carriers, self.simulation
        wp.launch(
            draw_reset,
            dim=self.worlds,
            inputs=[s.warp_mask, self.reset_seed, self.warp_draws, self.warp_values],
            device=s.device,
        )
        s.reset_masked()
        masked = c.done.unsqueeze(1)
        spread = 2.0 * c.reset_values - 1.0
        self.staged_position.copy_(self.start)
        self.staged_position[:, 7:].add_(spread[:, 1 : 1 + self.joints], alpha=POSE_NOISE)
        torch.mul(spread[:, 1 + self.joints :], VELOCITY_NOISE, out=self.staged_velocity)
        torch.where(masked, self.staged_position, s.position, out=s.position)
        torch.where(masked, self.staged_velocity, s.velocity, out=s.velocity)
        torch.where(c.done, 6.28 * c.reset_values[:, 0], c.phase + _PHASE_STEP, out=c.phase)
        c.episode_length.masked_fill_(c.done, 0)
        c.previous_action.masked_fill_(masked, 0.0)
        s.forward()

    def _observe_after_reset(self) -> None:
        c = self.carriers
        self._observe(c.post_actor, c.post_critic)
        masked = c.done.unsqueeze(1)
        # A world that goes on keeps what it saw at the end of the step.
        torch.where(masked, c.post_actor, c.terminal_actor, out=c.actor)
        torch.where(masked, c.post_critic, c.terminal_critic, out=c.critic)

    def _observe(self, actor: torch.Tensor, critic: torch.Tensor) -> None:
        c, s = self.carriers, self.simulation
        self._command()
        root = s.position[:, :3]
        rotations = self._rotation_columns(s.body_rotation.index_select(1, self.bodies))
        bodies = s.body_position.index_select(1, self.bodies) - root.unsqueeze(1)
        q = s.position[:, 3:7]
        torch.cat(
            (
                c.command,
                root - self.start[:3],
                rotations[:, 0],
                s.velocity[:, :3],
                s.velocity[:, 3:6],
                s.position[:, 7:] - self.joint_start,
                s.velocity[:, 6:],
                c.previous_action,
            ),
            dim=1,
            out=c.clean,
        )
        gravity = torch.stack(
            (
                2.0 * (q[:, 1] * q[:, 3] - q[:, 0] * q[:, 2]),
                2.0 * (q[:, 2] * q[:, 3] + q[:, 0] * q[:, 1]),
                1.0 - 2.0 * (q[:, 1].square() + q[:, 2].square()),
            ),
            dim=1,
        )
        torch.cat((c.clean, bodies.flatten(1), rotations.flatten(1), gravity), dim=1, out=critic)
        c.noise.uniform_(-1.0, 1.0, generator=self.generator)
        torch.add(c.clean, c.noise, alpha=NOISE_SCALE, out=actor)

    def _command(self) -> None:
        c = self.carriers
        angle = c.phase.unsqueeze(1) + self.gait
        c.command[:, : self.joints].copy_(self.joint_start + GAIT_AMPLITUDE * torch.sin(angle))
        c.command[:, self.joints :].copy_(GAIT_AMPLITUDE * torch.cos(angle))

    def _rotation_columns(self, quaternions: torch.Tensor) -> torch.Tensor:
        """Return the first two columns of the rotation matrices, f32[N, B, 6], of quaternions f32[N, B, 4]."""
        products = quaternions.index_select(2, self.left) * quaternions.index_select(2, self.right) * self.signs
        return products.unflatten(2, (6, 2)).sum(3) + self.identity


def _row(values: object, device: str) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.float32, device=device)
