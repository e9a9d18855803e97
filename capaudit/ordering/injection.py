"""Filling ``ordering_source_path`` in a tree of configurations from ``--checkpoint``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, Final, Literal

from capaudit.ordering.errors import OrderingUsageError
from capaudit.ordering.resolving import is_from_checkpoint

FIELD: Final = "ordering_source_path"
_ORDERS: Final = ("joint_ordering", "body_ordering")
_PLAIN: Final = (str, bytes, int, float, complex, bool, type(None), type)


class _Silence(Enum):
    SILENT = 0


_SILENT: Final = _Silence.SILENT
_Said = str | None | Literal[_Silence.SILENT]
"""What an override says about a path: a path, null, or nothing at all."""


@dataclass(frozen=True, slots=True)
class Found:
    """One articulation configuration and what was done with it.

    ``action``: ``filled``, ``kept`` (a path was set, there or by an override), ``disabled`` (an override says
    null), ``inert`` (nothing there reads from a checkpoint).
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
    (``env.scene.robot.ordering_source_path=null``): they win, by whichever of a shared object's paths they go,
    and null or a deletion disables. ``only_where_asked=False`` fills every configuration that has no path.
    Without a checkpoint nothing is filled. Errors: ``OrderingUsageError`` where a configuration that asks for
    it cannot be written to.
    """
    named: dict[int, str | None] = {}
    unplaced: dict[str, str | None] = {}
    for key, value in _overrides(overrides):
        node = _named(configuration, key)
        if node is None:
            unplaced[key] = value
        else:
            named[id(node)] = value
    found = []
    for path, node in _articulations(configuration):
        said = named[id(node)] if id(node) in named else _override(path, unplaced)
        found.append(Found(path, _inject(node, path, checkpoint, said, only_where_asked)))
    return tuple(found)


def _inject(
    node: Any,
    path: str,
    checkpoint: str | os.PathLike[str] | None,
    said: _Said,
    only_where_asked: bool,
) -> str:
    wanted = any(is_from_checkpoint(_get(node, name)) for name in _ORDERS)
    if only_where_asked and not wanted:
        return "inert"
    if _get(node, FIELD) not in (None, ""):
        return "kept"
    if said is None or _get(node, FIELD) == "":
        return "disabled"
    value, action = (checkpoint, "filled") if said is _SILENT else (said, "kept")
    if value is None:
        return "inert"
    try:
        if isinstance(node, MutableMapping):
            node[FIELD] = os.fspath(value)
        else:
            setattr(node, FIELD, os.fspath(value))
    except (AttributeError, TypeError) as error:  # frozen, slotted or read-only
        raise OrderingUsageError(
            f"{path or 'the configuration'} reads its order from the checkpoint and cannot be written to: {error}",
            remedy=f"set ArticulationCfg.{FIELD} where the configuration is made",
        ) from error
    return action


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


def _override(path: str, overridden: Mapping[str, str | None]) -> _Said:
    """What an override says about this configuration: the longer of the two dotted paths ends in the other."""
    own = f".{path}.{FIELD}".replace("..", ".")
    for key, value in overridden.items():
        if own.endswith(f".{key}") or f".{key}".endswith(own):
            return value
    return _SILENT


def _named(root: object, key: str) -> Any:
    """Return what the override's path leads to from the root, without its first parts (``env.``) if need be.

    A shared object has several paths, and an override may go by any of them.
    """
    parts = key.split(".")[:-1]
    for start in range(len(parts)):
        node = root
        for part in parts[start:]:
            node = dict(_children(node)).get(part)
        if node is not None:
            return node
    return None


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
