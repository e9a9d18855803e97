"""The fixed carriers of the tick: every buffer that crosses the boundary or survives it, allocated once."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from capaudit.probe.targets.collector.plant import TRACKED_BODIES

REWARDS = (
    "anchor_position",
    "anchor_rotation",
    "body_position",
    "body_rotation",
    "body_linear_velocity",
    "body_angular_velocity",
    "joint_position",
    "action_rate",
    "joint_limit",
    "contact_force",
    "alive",
)
INGRESS_DEPTH = 2
FLAGS = ("done", "truncated", "terminal_mask")


@dataclass
class Carriers:
    """The buffers by name. N worlds, J motors, A and C columns of the actor's and the critic's observation.

    ``row`` f32[N, W] is one transition laid out as ``transition_columns`` say, ``row_flags`` bool[3, N] its flags;
    ``ingress`` f32[2, N, W] and ``ingress_flags`` bool[2, 3, N] hold the two slots that replay reads. ``slot`` i64[1]
    is the slot that the next tick writes: it lives on the device, so that a replay alternates as eager steps do.
    ``reset_draws`` i32[N] counts the draws of each world's reset generator.
    """

    action: torch.Tensor
    previous_action: torch.Tensor
    control: torch.Tensor
    command: torch.Tensor
    phase: torch.Tensor
    actor: torch.Tensor
    critic: torch.Tensor
    clean: torch.Tensor
    noise: torch.Tensor
    reward: torch.Tensor
    components: torch.Tensor
    component_means: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    done: torch.Tensor
    episode_length: torch.Tensor
    episodes: torch.Tensor
    timeouts: torch.Tensor
    terminal_actor: torch.Tensor
    terminal_critic: torch.Tensor
    post_actor: torch.Tensor
    post_critic: torch.Tensor
    finite: torch.Tensor
    reset_values: torch.Tensor
    reset_draws: torch.Tensor
    row: torch.Tensor
    row_flags: torch.Tensor
    ingress: torch.Tensor
    ingress_flags: torch.Tensor
    slot: torch.Tensor
    published: torch.Tensor

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the carriers by name, in the order of declaration."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def actor_width(joints: int) -> int:
    """Return the columns of the actor's observation: 160 for 29 joints."""
    return 5 * joints + 15


def critic_width(joints: int) -> int:
    """Return the columns of the critic's observation: 289 for 29 joints."""
    return actor_width(joints) + TRACKED_BODIES * 9 + 3


def transition_columns(joints: int) -> dict[str, tuple[int, int]]:
    """Return the first and the behind-last column of each real-valued part of a transition."""
    actor, critic = actor_width(joints), critic_width(joints)
    widths = {
        "observation.actor": actor,
        "observation.critic": critic,
        "next_observation.actor": actor,
        "next_observation.critic": critic,
        "action": joints,
        "reward": 1,
        "terminal_observation.actor": actor,
        "terminal_observation.critic": critic,
    }
    columns, begin = {}, 0
    for name, width in widths.items():
        columns[name] = (begin, begin + width)
        begin += width
    return columns


def allocate_carriers(worlds: int, joints: int, velocities: int, device: str) -> Carriers:
    """Allocate every carrier, zeroed. Runs at construction only."""
    actor, critic = actor_width(joints), critic_width(joints)
    width = max(end for _, end in transition_columns(joints).values())

    def real(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.float32, device=device)

    def flags(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.bool, device=device)

    def counts(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.int64, device=device)

    return Carriers(
        action=real(worlds, joints),
        previous_action=real(worlds, joints),
        control=real(worlds, joints),
        command=real(worlds, 2 * joints),
        phase=real(worlds),
        actor=real(worlds, actor),
        critic=real(worlds, critic),
        clean=real(worlds, actor),
        noise=real(worlds, actor),
        reward=real(worlds),
        components=real(worlds, len(REWARDS)),
        component_means=real(len(REWARDS)),
        terminated=flags(worlds),
        truncated=flags(worlds),
        done=flags(worlds),
        episode_length=counts(worlds),
        episodes=counts(1),
        timeouts=counts(1),
        terminal_actor=real(worlds, actor),
        terminal_critic=real(worlds, critic),
        post_actor=real(worlds, actor),
        post_critic=real(worlds, critic),
        finite=torch.ones(1, dtype=torch.bool, device=device),
        reset_values=real(worlds, 1 + joints + velocities),
        reset_draws=torch.zeros(worlds, dtype=torch.int32, device=device),
        row=real(worlds, width),
        row_flags=flags(len(FLAGS), worlds),
        ingress=real(INGRESS_DEPTH, worlds, width),
        ingress_flags=flags(INGRESS_DEPTH, len(FLAGS), worlds),
        slot=counts(1),
        published=counts(1),
    )
