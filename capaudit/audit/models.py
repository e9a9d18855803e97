"""Simulation models and states of libraries: what binding one of their fields means for a captured step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from capaudit.audit import stores
from capaudit.audit.values import Atom, Bound, Object, Value
from capaudit.knowledge import Operation
from capaudit.model import Confidence

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame


def note_binding(frame: Frame, atom: Atom, name: str, value: Value, place: ast.AST) -> None:
    """Record that ``atom.name`` of a model, of one of its parts or of a state is bound."""
    if not isinstance(atom, (Object, Bound)):
        return
    path = _shown(atom.path)
    field = f"{path.rpartition('.')[2]}.{name}"
    operation = _binding(frame, path)
    if operation is not None and operation.hazard == "CAP603":
        message = f"{field} {operation.why}"
        frame.reject(place, "CAP603", f"{path}.{name}", message, confidence=Confidence.LIKELY)
    elif (operation is not None or _keeps_array(frame, atom, name)) and stores.holds_buffers(value):
        frame.reject(
            place,
            "CAP304",
            f"{path}.{name}",
            f"{field} is bound to new storage here, while every replay keeps using the address it had during capture",
            confidence=Confidence.LIKELY,
            remedy="Write into the existing array (wp.copy, wp.launch) so that its address stays.",
        )


def _binding(frame: Frame, path: str) -> Operation | None:
    """What the knowledge says of binding a field of a class: its ``__setattr__``, for a model with all its parts."""
    own = True
    while path:
        setter = f"{path}.__setattr__"
        operation = frame.machine.knowledge.operation(setter)
        if operation is not None and setter in operation.names and (own or operation.hazard == "CAP603"):
            return operation
        path, own = path.rpartition(".")[0], False
    return None


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
