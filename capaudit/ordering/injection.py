"""Filling ``ordering_source_path`` in a tree of configurations from ``--checkpoint``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from capaudit.ordering.errors import OrderingUsageError
from capaudit.ordering.resolving import is_from_checkpoint

FIELD: Final = "ordering_source_path"
_ORDERS: Final = ("joint_ordering", "body_ordering")
_PLAIN: Final = (str, bytes, int, float, complex, bool, type(None), type)


@dataclass(frozen=True, slots=True)
class Found:
    """One articulation configuration and what was done with it.

    ``action``: ``filled``, ``kept`` (a path was set), ``disabled`` (an override says null), ``inert`` (nothing
    there reads from a checkpoint).
    """

    path: str
    action: str


def inject(
    configuration: object,
    checkpoint: str | os.PathLike[str] | None,
    *,
    overrides: Sequence[str] = (),
    only_where_asked: bool = True,
) -> tuple[Found, ...]:
    """Set ``ordering_source_path`` of every articulation configuration that reads its order from a checkpoint.

    The walk goes through dataclasses, mappings, lists and tuples, and plain configuration objects; shared
    objects are handled once, cycles end. A path that is set stays. ``overrides`` are the user's or Hydra's
    (``env.scene.robot.ordering_source_path=null``): they win, and null or a deletion disables.
    ``only_where_asked=False`` fills every configuration that has no path. Without a checkpoint nothing is
    filled. Errors: ``OrderingUsageError`` where a configuration that asks for it cannot be written to.
    """
    overridden = dict(_overrides(overrides))
    found = []
    for path, node in _articulations(configuration):
        found.append(Found(path, _inject(node, path, checkpoint, overridden, only_where_asked)))
    return tuple(found)


def _inject(
    node: Any,
    path: str,
    checkpoint: str | os.PathLike[str] | None,
    overridden: Mapping[str, str | None],
    only_where_asked: bool,
) -> str:
    wanted = any(is_from_checkpoint(_get(node, name)) for name in _ORDERS)
    if only_where_asked and not wanted:
        return "inert"
    if _get(node, FIELD) not in (None, ""):
        return "kept"
    if _is_overridden(path, overridden) or _get(node, FIELD) == "":
        return "disabled"
    if checkpoint is None:
        return "inert"
    try:
        if isinstance(node, MutableMapping):
            node[FIELD] = os.fspath(checkpoint)
        else:
            setattr(node, FIELD, os.fspath(checkpoint))
    except (AttributeError, TypeError) as error:  # frozen, slotted or read-only
        raise OrderingUsageError(
            f"{path or 'the configuration'} reads its order from the checkpoint and cannot be written to: {error}",
            remedy=f"set ArticulationCfg.{FIELD} where the configuration is made",
        ) from error
    return "filled"


def _get(node: Any, name: str) -> Any:
    return node.get(name) if isinstance(node, Mapping) else getattr(node, name, None)


def _overrides(texts: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    for text in texts:
        key, equals, value = text.partition("=")
        deletes = key.startswith("~")
        key = key.lstrip("+~")
        if key.rpartition(".")[2] != FIELD or not (equals or deletes):
            continue
        yield key, None if deletes or value.strip("'\" ").casefold() in ("null", "none", "") else value


def _is_overridden(path: str, overridden: Mapping[str, str | None]) -> bool:
    """Whether an override speaks of this configuration: the longer of the two dotted paths ends in the other."""
    own = f".{path}.{FIELD}".replace("..", ".")
    return any(own.endswith(f".{key}") or f".{key}".endswith(own) for key in overridden)


def _articulations(root: object) -> Iterator[tuple[str, Any]]:
    """Yield articulation configurations with their dotted paths, each object once."""
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [("", root)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, _PLAIN) or id(node) in seen:
            continue
        seen.add(id(node))
        children = list(_children(node))
        if any(name in _ORDERS for name, _ in children):
            yield path, node
        stack.extend((f"{path}.{name}" if path else name, child) for name, child in reversed(children))


def _children(node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        yield from ((str(key), value) for key, value in node.items())
    elif isinstance(node, (list, tuple)):
        yield from ((str(index), value) for index, value in enumerate(node))
    elif is_dataclass(node):
        names = dict.fromkeys(field.name for field in fields(node))
        names.update(dict.fromkeys(getattr(node, "__dict__", ())))  # attributes that were added later
        yield from ((name, getattr(node, name)) for name in names if hasattr(node, name))
    elif type(node).__name__.endswith(("Cfg", "Config")) and hasattr(node, "__dict__"):
        yield from ((name, value) for name, value in vars(node).items() if not name.startswith("__"))
