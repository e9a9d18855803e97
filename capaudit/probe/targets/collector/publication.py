"""The collector's side of the tick: one transition per world, copied into the fixed slots of the replay ingress."""

from __future__ import annotations

import torch

from capaudit.probe.targets.collector.carriers import INGRESS_DEPTH, Carriers


class Publication:
    """Writes the transition of one tick. The slot alternates on the device, where a replay advances it as well."""

    def __init__(self, carriers: Carriers) -> None:
        self.carriers = carriers
        self.before = int(carriers.actor.shape[1]) + int(carriers.critic.shape[1])

    def begin(self) -> None:
        """Keep the observations that the action was taken on, before they are written over."""
        c = self.carriers
        torch.cat((c.actor, c.critic), dim=1, out=c.row[:, : self.before])

    def commit(self) -> None:
        """Lay out the rest of the transition and copy it into the slot that is due."""
        c = self.carriers
        torch.cat(
            (c.actor, c.critic, c.action, c.reward.unsqueeze(1), c.terminal_actor, c.terminal_critic),
            dim=1,
            out=c.row[:, self.before :],
        )
        torch.stack((c.done, c.truncated, c.terminated), dim=0, out=c.row_flags)
        c.ingress.index_copy_(0, c.slot, c.row.unsqueeze(0))
        c.ingress_flags.index_copy_(0, c.slot, c.row_flags.unsqueeze(0))
        c.slot.add_(1).remainder_(INGRESS_DEPTH)
        c.published.add_(1)
