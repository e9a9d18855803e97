"""Simulation models and states of libraries: what binding one of their fields means for a captured step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from capaudit.audit import stores
from capaudit.audit.values import Atom, Bound, Object, Value
from capaudit.model import Confidence

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame

_MODELS = ("mujoco.MjModel", "mujoco_warp.Model", "newton.Model")
_STATES = ("mujoco_warp.Data", "newton.State", "newton.Control")


def note_binding(frame: Frame, atom: Atom, name: str, value: Value, place: ast.AST) -> None:
    """Record that ``atom.name`` of a model, of one of its parts or of a state is bound."""
    path = _shown(atom.path) if isinstance(atom, (Object, Bound)) else ""
    field = f"{path.rpartition('.')[2]}.{name}"
    if any(path == model or path.startswith(f"{model}.") for model in _MODELS):
        frame.reject(
            place,
            "CAP603",
            f"{path}.{name}",
            f"{field} of the simulation model is bound to another value or array here, while a captured step goes on "
            "with what it was recorded for",
            confidence=Confidence.LIKELY,
        )
        return
    if (path in _STATES or _keeps_array(frame, atom, name)) and stores.holds_buffers(value):
        frame.reject(
            place,
            "CAP304",
            f"{path}.{name}",
            f"{field} is bound to new storage here, while every replay keeps using the address it had during capture",
            confidence=Confidence.LIKELY,
            remedy="Write into the existing array (wp.copy, wp.launch) so that its address stays.",
        )


def _keeps_array(frame: Frame, atom: Atom, name: str) -> bool:
    """Whether the knowledge lists a field that holds an array, whose address a graph knows."""
    field = frame.machine.knowledge.operation(f"{atom.path}.{name}") if isinstance(atom, Object) else None
    return field is not None and field.kind == "attribute" and field.result.kind == "warp"


def _shown(path: str) -> str:
    """The public path of a class: ``mujoco_warp._src.types.Model`` is ``mujoco_warp.Model``."""
    package, _, rest = path.partition(".")
    parts = rest.split(".")
    if parts[0] == "_src":
        first = next((i for i, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
        return ".".join([package, *parts[first:]])
    return path
