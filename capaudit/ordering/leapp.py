"""LEAPP artifacts as a source: the element names of an exported policy's tensors.

A LEAPP file is one YAML mapping with ``models``, ``pipeline`` and ``system information``. Only tensors
connected to ``state:<entity>:joint_*`` and ``state:<entity>:body_*`` can carry a complete order; ``write:*``
tensors are selections and say no more than that their names exist. The YAML has no integrity field, so the
result is unsigned.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from capaudit.ordering import strict_yaml
from capaudit.ordering.errors import LeappConflictError, LeappIncompleteError, LeappVersionError, NotLeappError
from capaudit.ordering.names import AXES, Axis, name_problem
from capaudit.ordering.reading import read_bytes
from capaudit.ordering.sources import Orders, Source
from capaudit.ordering.strict_yaml import Node

SUPPORTED_VERSIONS: Final = ("1.3",)
_TOP: Final = ("models", "pipeline", "system information")
_TEMPORAL: Final = "__temporal_axis__"


@dataclass(frozen=True, slots=True)
class _Tensor:
    where: str
    verb: str
    entity: str
    axis: Axis
    names: tuple[str, ...]
    complete: bool


def is_leapp(root: Node) -> bool:
    """Whether a YAML document has LEAPP's top keys."""
    if root.id != "mapping":
        return False
    keys = {str(key.value) for key, _ in root.value if key.id == "scalar"}
    return len(keys.intersection(_TOP)) > 1  # one that lacks a key is a broken LEAPP file, not a broken record


def load_leapp(path: str | os.PathLike[str]) -> Source:
    """Read a LEAPP artifact. Errors: ``NotLeappError``, ``LeappVersionError``, ``LeappIncompleteError``,
    ``LeappConflictError``; ``NoRecordError`` where there is no file."""
    place = os.fspath(path)
    data = read_bytes(place)
    return leapp_source_of(strict_yaml.compose(data, place, allow_aliases=True), data, place)


def leapp_source_of(root: Node, data: bytes, place: str) -> Source:
    """Turn a LEAPP document into a source. Errors: as ``load_leapp``."""
    document = strict_yaml.plain(root, place) if root.id == "mapping" else None
    missing = [key for key in _TOP if not isinstance(document, dict) or not isinstance(document.get(key), dict)]
    if not isinstance(document, dict) or missing:
        raise NotLeappError(
            f"not a LEAPP file: {', '.join(map(repr, missing))} is missing or no mapping",
            place=place,
            details={"missing": missing},
        )
    _check_version(document["system information"], place)
    tensors = list(_tensors(document["models"], place))
    orders = _complete_orders(tensors, place)
    if not orders:
        raise LeappIncompleteError(
            "no tensor gives a complete order: 'state:<entity>:joint_*' or 'state:<entity>:body_*' with as many "
            f"element names as its shape has places is needed, and here are {_described(tensors)}",
            place=place,
            details={"tensors": [tensor.where for tensor in tensors]},
        )
    entities = dict.fromkeys(entity for entity, _ in orders)
    selections: dict[tuple[str, Axis], tuple[tuple[str, ...], ...]] = {}
    for tensor in tensors:
        if not _is_full(tensor, orders):
            key = (tensor.entity, tensor.axis)
            selections[key] = (*selections.get(key, ()), tensor.names)
    return Source(
        kind="leapp",
        path=place,
        articulations={
            entity: Orders(orders.get((entity, "joint")), orders.get((entity, "body"))) for entity in entities
        },
        signed=False,
        sha256=hashlib.sha256(data).hexdigest(),
        selections=selections,
        notes=("a LEAPP file carries no integrity field, so this order is unsigned",),
    )


def _check_version(information: dict[str, Any], place: str) -> None:
    version = information.get("leapp config version", information.get("config version"))
    if str(version) not in SUPPORTED_VERSIONS:
        raise LeappVersionError(
            f"the LEAPP configuration version {version!r} is not supported; supported: {', '.join(SUPPORTED_VERSIONS)}",
            place=place,
            remedy="export the policy again with a LEAPP that writes a supported version",
            details={"found": version, "supported": list(SUPPORTED_VERSIONS)},
        )


def _tensors(models: dict[str, Any], place: str) -> Iterator[_Tensor]:
    for model, description in models.items():
        if not isinstance(description, dict):
            raise NotLeappError(f"not a LEAPP file: models.{model} is no mapping", place=place)
        for side in ("inputs", "outputs"):
            listed = description.get(side) or []
            if not isinstance(listed, list):
                raise NotLeappError(f"not a LEAPP file: models.{model}.{side} is no list", place=place)
            for index, tensor in enumerate(listed):
                if isinstance(tensor, dict):
                    yield from _connected(tensor, f"models.{model}.{side}[{index}]")


def _connected(tensor: dict[str, Any], where: str) -> Iterator[_Tensor]:
    connection = tensor.get("isaaclab_connection")
    if not isinstance(connection, str):
        return
    verb, _, rest = connection.partition(":")
    entity, _, quantity = rest.rpartition(":")
    axis = _axis(verb, quantity)
    if axis is None or not entity:
        return
    named = _named_axis(tensor.get("element_names"))
    if named is None:
        return
    position, names = named
    size = _size(tensor.get("shape"), position, len(names))
    name = tensor.get("name", "?")
    yield _Tensor(
        f"{where} ({name}, {connection})", verb, entity, axis, names, verb == "state" and size in (None, len(names))
    )


def _axis(verb: str, quantity: str) -> Axis | None:
    for axis in AXES:
        if verb == "state" and quantity.startswith(f"{axis}_"):
            return axis
        if verb == "write" and axis in quantity.split("_"):
            return axis
    return None


def _named_axis(element_names: Any) -> tuple[int | None, tuple[str, ...]] | None:
    """Return ``(position from the end, names)`` of the axis that has names of joints or bodies.

    Forms: a list of axes (names, ``None`` or the temporal sentinel), a flat list of names, one name.
    A body quantity has components behind the body axis, so the first named axis is meant.
    """
    if isinstance(element_names, str):
        return None if element_names == _TEMPORAL else (None, (element_names,))
    if not isinstance(element_names, list) or not element_names:
        return None
    axes = element_names
    if all(isinstance(item, str) and item != _TEMPORAL for item in axes):
        return (None, tuple(axes)) if name_problem(axes) is None else None
    for index, names in enumerate(axes):
        if isinstance(names, list) and names and _TEMPORAL not in names and name_problem(names) is None:
            return len(axes) - index, tuple(names)
    return None


def _size(shape: Any, position: int | None, count: int) -> int | None:
    """Return the length of the named axis; ``None`` where the shape does not say.

    A shape is a list, one number, or either as text; a dimension without a number (``batch``) is not known.
    """
    if isinstance(shape, str):
        shape = re.findall(r"-?\w+", shape.removeprefix("torch.Size"))
    if type(shape) is int:
        shape = [shape]
    if not isinstance(shape, list) or not shape:
        return None
    sizes = [int(size) if str(size).isdecimal() else None for size in shape]
    if position is None:  # a flat list names the last axis, or the one whose length it has
        return count if count in sizes else sizes[-1]
    return sizes[-position] if position <= len(sizes) else None


def _complete_orders(tensors: list[_Tensor], place: str) -> dict[tuple[str, Axis], tuple[str, ...]]:
    """Return the complete order per entity and axis: the longest state tensors, which have to agree.

    A state tensor whose names are a part of a longer one's is a selection: policies often read fewer
    joints than the robot has.
    """
    found: dict[tuple[str, Axis], tuple[str, ...]] = {}
    origin: dict[tuple[str, Axis], str] = {}
    for tensor in sorted((t for t in tensors if t.complete), key=lambda t: -len(t.names)):
        key = (tensor.entity, tensor.axis)
        if key not in found:
            found[key], origin[key] = tensor.names, tensor.where
        elif tensor.names != found[key] and not frozenset(tensor.names) < frozenset(found[key]):
            raise LeappConflictError(
                f"two tensors give different {tensor.axis} orders of {tensor.entity!r}: {origin[key]} and "
                f"{tensor.where}",
                place=place,
                details={
                    "articulation": tensor.entity,
                    "axis": tensor.axis,
                    "tensors": [origin[key], tensor.where],
                    "orders": [list(found[key]), list(tensor.names)],
                },
            )
    return found


def _is_full(tensor: _Tensor, orders: dict[tuple[str, Axis], tuple[str, ...]]) -> bool:
    return tensor.verb == "state" and orders.get((tensor.entity, tensor.axis)) == tensor.names


def _described(tensors: list[_Tensor]) -> str:
    return "; ".join(tensor.where for tensor in tensors[:6]) or "no tensors with element names and a connection"
