"""Targets of the probe: the embedded humanoid, mjlab's tasks, and whatever a factory builds."""

from __future__ import annotations

from collections.abc import Callable

from capaudit.model import InputError
from capaudit.probe.targets.base import Target, TargetOptions

__all__ = ["Target", "TargetOptions", "find_builder"]

_FORMS = "mjwarp:humanoid, mjwarp:collector, mjlab:TASK, module:factory or path/file.py:make"


def find_builder(target: str) -> Callable[[TargetOptions], Target]:
    """Return what builds the named target. Raises InputError for a name of no known form."""
    scheme, _, rest = target.rpartition(":") if target.partition(":")[0].endswith(".py") else target.partition(":")
    if not scheme and target.endswith(".py"):
        scheme, rest = target, "make"
    if not scheme or not rest:
        raise InputError(f"{target!r} names no target", remedy=f"use {_FORMS}")
    if scheme == "mjwarp" and rest.startswith("collector"):
        from capaudit.probe.targets.collector.target import build_collector

        return build_collector(rest)
    if scheme == "mjwarp":
        from capaudit.probe.targets.humanoid import build_humanoid

        return build_humanoid(rest)
    if scheme == "mjlab":
        from capaudit.probe.targets.mjlab_env import build_mjlab

        return build_mjlab(rest)
    from capaudit.probe.targets.factory import build_factory

    return build_factory(scheme, rest)
