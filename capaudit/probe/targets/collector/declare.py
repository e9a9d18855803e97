"""What the collector declares of itself: its carriers, its capabilities, its generators, its boundary."""

from __future__ import annotations

from dataclasses import replace

import torch
import warp as wp

from capaudit.contract import (
    AllocatorSnapshot,
    Boundary,
    Candidate,
    Capabilities,
    Carrier,
    CarrierManifest,
    DriverFacts,
    StreamContract,
    collector_layout,
    describe,
)
from capaudit.contract.carriers import Role
from capaudit.contract.ownership import declared_boundary
from capaudit.probe.environment import driver_version
from capaudit.probe.targets.collector.carriers import FLAGS, INGRESS_DEPTH, REWARDS, transition_columns
from capaudit.probe.targets.collector.modes import TickRunner
from capaudit.probe.targets.collector.tick import CollectorTick

STREAM_NAME = "collector"
_OWNER = "CollectorTick.carriers"
# Contract name, attribute of the carriers, role.
_NAMES: tuple[tuple[str, str, Role], ...] = (
    ("action", "action", "input"),
    ("control", "control", "output"),
    ("command", "command", "output"),
    ("phase", "phase", "output"),
    ("previous_action", "previous_action", "output"),
    ("episode_length", "episode_length", "output"),
    ("episodes", "episodes", "output"),
    ("timeouts", "timeouts", "output"),
    ("reward", "reward", "output"),
    ("reward_components", "components", "output"),
    ("reward_means", "component_means", "output"),
    ("terminated", "terminated", "output"),
    ("truncated", "truncated", "output"),
    ("reset_mask", "done", "output"),
    ("observation.actor", "actor", "output"),
    ("observation.critic", "critic", "output"),
    ("terminal_observation.actor", "terminal_actor", "output"),
    ("terminal_observation.critic", "terminal_critic", "output"),
    ("post_reset_observation.actor", "post_actor", "output"),
    ("post_reset_observation.critic", "post_critic", "output"),
    ("verdict.finite", "finite", "verdict"),
    ("ingress.row", "row", "ingress"),
    ("ingress.row_flags", "row_flags", "ingress"),
    ("ingress.slot", "slot", "ingress"),
    ("receipt", "published", "evidence"),
    ("rng.reset_draws", "reset_draws", "evidence"),
)


def describe_carriers(tick: CollectorTick) -> tuple[Carrier, ...]:
    """Read the carriers off their storage as it is now."""
    c = tick.carriers
    found = [
        describe(name, getattr(c, attribute), owner=_OWNER, role=role, writers=("CollectorTick.tick",))
        for name, attribute, role in _NAMES
    ]
    for view in ("position", "velocity", "control", "reset_mask"):
        tensor = getattr(tick.simulation, view)
        found.append(describe(f"physics.{view}", tensor, owner="CollectorTick.simulation", role="output", drift="view"))
    found.append(describe("rng_state", tick.random_state, owner="CollectorTick", role="evidence"))
    columns = transition_columns(tick.joints)
    for slot in range(INGRESS_DEPTH):
        for name, (begin, end) in columns.items():
            part = c.ingress[slot, :, begin] if name == "reward" else c.ingress[slot, :, begin:end]
            found.append(describe(f"ingress[{slot}].{name}", part, owner=_OWNER, role="ingress"))
        for number, name in enumerate(FLAGS):
            flag = c.ingress_flags[slot, number]
            found.append(describe(f"ingress[{slot}].{name}", flag, owner=_OWNER, role="ingress"))
    return tuple(found)


def storages(tick: CollectorTick) -> tuple[torch.Tensor, ...]:
    """Return the carriers themselves. Whoever keeps them keeps their addresses from being given to others."""
    c, s = tick.carriers, tick.simulation
    return (*c.tensors().values(), s.position, s.velocity, s.control, s.reset_mask)


def fingerprint(tick: CollectorTick) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
    """Return what tells cheaply whether the carriers are the same storage as before."""
    return tuple((id(tensor), tensor.data_ptr(), tuple(tensor.shape)) for tensor in storages(tick))


def ingress_slots(tick: CollectorTick) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
    """Return the storage of each slot: real-valued columns f32[N, W] and flags bool[3, N]."""
    c = tick.carriers
    return tuple((c.ingress[slot], c.ingress_flags[slot]) for slot in range(INGRESS_DEPTH))


def declare_candidate(runner: TickRunner, *, requested: bool) -> Candidate:
    """Return what preflight judges; nothing is captured, allocated on the device or drawn for it."""
    tick = runner.tick
    device = str(tick.carriers.action.device)
    groups = {"actor": int(tick.carriers.actor.shape[1]), "critic": int(tick.carriers.critic.shape[1])}
    layout = collector_layout(
        tick.worlds,
        actions=tick.joints,
        controls=tick.joints,
        groups=groups,
        components=len(REWARDS),
        verdicts={"finite": (1,)},
        rng_state_bytes=tick.random_state.numel(),
    )
    capabilities = Capabilities(
        contract_version=1,
        requested=requested,
        devices=(device,),
        stream=stream_contract(runner),
        stable_views=True,
        stepping=True,
        masked_reset="masked",
        deferred_validation=True,
        allocator=_allocator(runner),
        generators=("observation-noise",),
        semantic_owners=(),
        driver=_driver(runner),
    )
    return Candidate(declare_boundary(tick), capabilities, CarrierManifest(describe_carriers(tick)), layout)


def declare_boundary(tick: CollectorTick) -> Boundary:
    """Return the boundary that the decorator left on the tick, with the carriers that cross it."""
    declared = declared_boundary(CollectorTick.tick)
    assert declared is not None
    outputs = tuple(name for name, _, role in _NAMES if role == "output")
    return replace(declared, inputs=("action",), outputs=outputs)


def stream_contract(runner: TickRunner) -> StreamContract:
    """Return the stream's name and handle."""
    return StreamContract(STREAM_NAME, runner.stream_id)


def _allocator(runner: TickRunner) -> AllocatorSnapshot:
    if not runner.captures:
        return AllocatorSnapshot(0, 0, 0)
    statistics = torch.cuda.memory_stats()
    return AllocatorSnapshot(
        allocated_bytes=int(statistics["allocated_bytes.all.current"]),
        reserved_bytes=int(statistics["reserved_bytes.all.current"]),
        allocations=int(statistics.get("num_device_alloc", statistics.get("segment.all.allocated", 0))),
    )


def _driver(runner: TickRunner) -> DriverFacts:
    if not runner.captures:
        return DriverFacts("absent", "absent", memory_pool=True)
    pool = bool(wp.is_mempool_supported(runner.tick.simulation.device))
    return DriverFacts(driver_version() or "unknown", str(torch.version.cuda), memory_pool=pool)
