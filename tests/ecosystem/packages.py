"""The packages of an ecosystem run: pinned versions, where their sources lie, and where a tick enters them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Wheel:
    """One pinned distribution; ``folder`` is where it is unpacked below the cache."""

    distribution: str
    version: str

    @property
    def folder(self) -> str:
        return self.distribution.replace("-", "_")


@dataclass(frozen=True, slots=True)
class Package:
    """One subject of the run.

    ``roots`` are folders below the cache that go on the command line, ``base`` the folder that file
    names are shown relative to. ``entries`` maps the name of a run to its entries; ``discovery`` says
    whether the package is also audited without any.
    """

    name: str
    wheels: tuple[Wheel, ...]
    base: str
    roots: tuple[str, ...]
    entries: dict[str, tuple[str, ...]] = field(default_factory=dict)
    discovery: bool = True


def _many(module: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{module}:{name}" for name in names)


_NEWTON = "newton._src.solvers"
_SKRL = "skrl.agents.torch"

PACKAGES: tuple[Package, ...] = (
    Package(
        "mjlab",
        (Wheel("mjlab", "1.6.0"),),
        "mjlab",
        ("mjlab/mjlab",),
        {"step": _many("mjlab.envs.manager_based_rl_env", "ManagerBasedRlEnv.step")},
    ),
    Package(
        "isaaclab",
        (Wheel("isaaclab", "2.3.2.post1"),),
        "isaaclab/isaaclab/source",
        (
            "isaaclab/isaaclab/source/isaaclab",
            "isaaclab/isaaclab/source/isaaclab_tasks",
            "isaaclab/isaaclab/source/isaaclab_assets",
        ),
        {
            "direct": _many("isaaclab.envs.direct_rl_env", "DirectRLEnv.step"),
            "managers": _many("isaaclab.envs.manager_based_rl_env", "ManagerBasedRLEnv.step"),
        },
    ),
    Package(
        "newton",
        (Wheel("newton", "1.8.0"),),
        "newton",
        ("newton/newton",),
        {
            "mujoco": _many(f"{_NEWTON}.mujoco.solver_mujoco", "SolverMuJoCo.step"),
            "xpbd": _many(f"{_NEWTON}.xpbd.solver_xpbd", "SolverXPBD.step"),
            "featherstone": _many(f"{_NEWTON}.featherstone.solver_featherstone", "SolverFeatherstone.step"),
            "semi-implicit": _many(f"{_NEWTON}.semi_implicit.solver_semi_implicit", "SolverSemiImplicit.step"),
            "style3d": _many(f"{_NEWTON}.style3d.solver_style3d", "SolverStyle3D.step"),
            "vbd": _many(f"{_NEWTON}.vbd.solver_vbd", "SolverVBD.step"),
            "kamino": _many(f"{_NEWTON}.kamino.solver_kamino", "SolverKamino.step"),
            "mpm": _many(f"{_NEWTON}.implicit_mpm.solver_implicit_mpm", "SolverImplicitMPM.step"),
            "collide": _many("newton._src.sim.collide", "CollisionPipeline.collide"),
        },
    ),
    Package(
        "unilab",
        (Wheel("unilab", "1.5.2"), Wheel("unisim-core", "2.2.0")),
        "",
        ("unilab/unilab", "unisim_core/unisim"),
        {"step": _many("unilab.envs.manager_based_rl_env", "ManagerBasedRlEnv.step")},
    ),
    Package(
        "rsl-rl",
        (Wheel("rsl-rl-lib", "5.5.1"),),
        "rsl_rl_lib",
        ("rsl_rl_lib/rsl_rl",),
        {
            "rollout": _many("rsl_rl.algorithms.ppo", "PPO.act", "PPO.process_env_step", "PPO.compute_returns"),
            "update": _many("rsl_rl.algorithms.ppo", "PPO.update"),
        },
    ),
    Package(
        "skrl",
        (Wheel("skrl", "2.1.1"),),
        "skrl",
        ("skrl/skrl",),
        {
            "rollout": _many(f"{_SKRL}.ppo.ppo", "PPO.act", "PPO.record_transition"),
            "update": _many(f"{_SKRL}.ppo.ppo", "PPO.update"),
            "sac-update": _many(f"{_SKRL}.sac.sac", "SAC.update"),
        },
    ),
    Package(
        "mujoco-warp",
        (Wheel("mujoco-warp", "4.0.0"),),
        "mujoco_warp",
        ("mujoco_warp/mujoco_warp",),
        {"step": _many("mujoco_warp._src.forward", "step"), "reset": _many("mujoco_warp._src.io", "reset_data")},
    ),
)
