"""``mjlab:TASK``: an mjlab environment, whole or by segment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from capaudit.model import InputError
from capaudit.probe.targets.base import Target, TargetOptions

# Named segments with the arguments that ``ManagerBasedRlEnv.step`` gives them.
SEGMENTS: dict[str, Callable[[Any, Any], Callable[[], Any]]] = {
    "step": lambda env, action: lambda: env.step(action),
    "action_manager.process_action": lambda env, action: lambda: env.action_manager.process_action(action),
    "action_manager.apply_action": lambda env, action: env.action_manager.apply_action,
    "sim.step": lambda env, action: env.sim.step,
    "sim.forward": lambda env, action: env.sim.forward,
    "termination_manager.compute": lambda env, action: env.termination_manager.compute,
    "reward_manager.compute": lambda env, action: lambda: env.reward_manager.compute(dt=env.step_dt),
    "observation_manager.compute": lambda env, action: lambda: env.observation_manager.compute(update_history=True),
    "command_manager.compute": lambda env, action: lambda: env.command_manager.compute(dt=env.step_dt),
    "reset": lambda env, action: _resetter(env),
}


def build_mjlab(task: str) -> Callable[[TargetOptions], Target]:
    """Return the builder of ``mjlab:<task>``. Raises InputError for an unknown task or segment."""

    def build(options: TargetOptions) -> Target:
        env = make_environment(task, options.worlds, options.seed, options.device)
        import mjlab
        import torch

        generator = torch.Generator(device="cpu").manual_seed(options.seed)
        width = sum(env.action_manager.action_term_dim)
        action = torch.empty(options.worlds, width, device=options.device)

        def new_action(index: int) -> None:
            action.copy_(torch.rand(action.shape, generator=generator) * 2.0 - 1.0)

        def time_out() -> None:
            # Half of the worlds, so that the reset path runs with a partial set of indices.
            env.episode_length_buf[::2] = env.max_episode_length

        new_action(0)
        segment = options.segment or "step"
        return Target(
            name=f"mjlab:{task} {segment}",
            step=find_segment(env, segment, action),
            owner={"env": env, "action": action},
            roots=((Path(mjlab.__file__).parent, "mjlab"),),
            capture=options.capture or "torch",
            before_step=new_action,
            force_reset=time_out,
            inputs=("['action']",),
            outputs=("['env'].obs_buf", "['env'].reward_buf", "['env'].reset_buf"),
            uses_warp=True,
            warmup=3 if options.warmup is None else options.warmup,
            repeatable=False,
            eager_on_default=True,
            tolerance=1e-3,
            close=env.close,
            facts={"task": task, "segment": segment, "actions": width},
        )

    return build


def make_environment(task: str, worlds: int, seed: int, device: str) -> Any:
    """Build and reset the environment. Raises InputError for a task that mjlab does not register."""
    try:
        import mjlab.tasks  # noqa: F401  registers the tasks
        from mjlab.envs import ManagerBasedRlEnv
        from mjlab.tasks.registry import list_tasks, load_env_cfg
    except ImportError as error:
        raise InputError(f"mjlab cannot be imported: {error}", remedy="pip install mjlab") from error
    known = list_tasks()
    if task not in known:
        raise InputError(f"mjlab registers no task {task!r}", remedy=f"known tasks: {', '.join(sorted(known))}")
    configuration = load_env_cfg(task)
    configuration.scene.num_envs = worlds
    configuration.seed = seed
    # mjlab names devices with their index and compares the names.
    env = ManagerBasedRlEnv(configuration, device="cuda:0" if device == "cuda" else device)
    env.reset()
    return env


def find_segment(env: Any, segment: str, action: Any) -> Callable[[], Any]:
    """Return the segment as a call without arguments. Raises InputError naming the known ones."""
    if segment in SEGMENTS:
        return SEGMENTS[segment](env, action)
    owner: Any = env
    for name in segment.split("."):
        owner = getattr(owner, name, None)
    if not callable(owner):
        raise InputError(f"the environment has no segment {segment!r}", remedy=f"known segments: {', '.join(SEGMENTS)}")
    return owner  # type: ignore[no-any-return]


def _resetter(env: Any) -> Callable[[], Any]:
    import torch

    every = torch.arange(env.num_envs, device=env.device)

    def reset() -> Any:
        env.extras["log"] = {}
        return env.reset(env_ids=every)

    return reset
