"""What stands behind ``--from``, ``--live`` and ``--against``: a path or a factory, told apart by what it is."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from capaudit.ordering.derived import RUN_CONFIG, from_io_descriptors, from_onnx, from_run_config, from_run_folder
from capaudit.ordering.errors import LiveNamesError, NoRecordError, OrderingUsageError
from capaudit.ordering.record import Entry
from capaudit.ordering.sources import Source

MODEL_SUFFIXES: Final = frozenset({".xml", ".mjcf", ".mjb"})


@dataclass(frozen=True, slots=True)
class Given:
    """Entries from somewhere, with the provenance that a record of them carries."""

    entries: Mapping[str, Entry]
    provenance: dict[str, Any] = field(default_factory=dict)


def is_live(path: str | os.PathLike[str]) -> bool:
    """Whether a path names something to record from, rather than a checkpoint or record."""
    place = Path(path)
    return place.suffix.lower() in {*MODEL_SUFFIXES, ".json"} or place.name.lower().startswith("io_descriptors")


def entries_from_path(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    backend: str | None = None,
    root: str | None = None,
    bodies: bool = True,
) -> Given:
    """Read entries from a MuJoCo model, explicit JSON, UniLab's ``run_config.json``, an ONNX policy or a run folder.

    ``name`` is the key of a source that knows only one articulation, ``root`` the root body of the
    articulation in a MuJoCo model. Errors: those of the readers; ``OrderingUsageError`` for another kind of file.
    """
    place = Path(path)
    shown = str(place)
    suffix = place.suffix.lower()
    if suffix in MODEL_SUFFIXES and not place.is_dir():
        from capaudit.ordering.adapters import mujoco

        model = mujoco.load_model(shown)
        entries = mujoco.entries(model, name=name, backend=backend, root=root, bodies=bodies)
        return Given(entries, {"source": shown, "model_sha256": _sha256(place)})
    if root is not None or not bodies:
        raise OrderingUsageError("a root body and leaving bodies out belong to MuJoCo models", place=shown)
    if suffix == ".json" and place.name != RUN_CONFIG:
        from capaudit.ordering.explicit import load_explicit

        return Given(load_explicit(shown, backend), {"source": shown})
    return _derived(derived_source(shown), name, backend)


def derived_source(path: str | os.PathLike[str]) -> Source:
    """Read what a framework stored, by the kind of the path. Errors: ``OrderingUsageError`` for another kind."""
    place = Path(path)
    if place.is_dir():
        return from_run_folder(place)
    if place.name == RUN_CONFIG:
        return from_run_config(place)
    if place.suffix.lower() == ".onnx":
        return from_onnx(place)
    if place.name.lower().startswith("io_descriptors"):
        return from_io_descriptors(place)
    if not place.exists():
        raise NoRecordError("there is no such file or folder", place=str(place), details={"probed": [str(place)]})
    raise OrderingUsageError(
        "nothing is recorded from this kind of file",
        place=str(place),
        remedy="give a MuJoCo model (.xml, .mjb), a run folder, run_config.json, an .onnx policy, or explicit .json",
    )


def _derived(source: Source, name: str | None, backend: str | None) -> Given:
    from capaudit.ordering.adapters import make_entry

    entries = {}
    for key, orders in source.articulations.items():
        shown = name if name is not None and len(source.articulations) == 1 else key
        entries[shown] = make_entry(
            backend or orders.backend or "unknown",
            joint_names=orders.joint_names or (),
            body_names=orders.body_names or (),
            is_fixed_base=False,
            actuator_names=orders.actuator_names,
        )
    return Given(entries, {"source": source.path, "source_sha256": source.sha256, "derived": True})


def entries_from_factory(reference: str, *, backend: str | None = None) -> Given:
    """Call ``module:factory`` (in the working directory or installed) and read the environment that it returns.

    Errors: ``OrderingUsageError`` where the factory cannot be found or fails.
    """
    from capaudit.ordering.adapters import entries_of

    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute:
        raise OrderingUsageError(
            f"{reference!r} is no module:factory", remedy="write --from-env package.module:make_env"
        )
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        factory: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            factory = getattr(factory, part)
    except (ImportError, AttributeError) as error:
        raise OrderingUsageError(f"the factory cannot be loaded: {error}", place=reference) from error
    env: Any = None
    try:
        env = factory() if callable(factory) else factory
        return Given(entries_of(env, backend=backend), {"source": reference})
    except OrderingUsageError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise OrderingUsageError(f"the factory failed: {reason}", place=reference) from error
    finally:
        close = getattr(env, "close", None)
        if callable(close):
            try:
                close()
            except Exception as error:  # what was read stays true
                print(f"capaudit: warning: closing the environment failed: {error}", file=sys.stderr)


def only(entries: Mapping[str, Entry], key: str | None, place: str) -> tuple[str, Entry]:
    """Return the entry of a key, or the only one. Errors: ``LiveNamesError`` with the keys that are there."""
    if key is not None and key in entries:
        return key, entries[key]
    if len(entries) == 1 and key is None:
        return next(iter(entries.items()))
    raise LiveNamesError(
        f"the live side has no articulation {key!r}; it has {', '.join(map(repr, entries))}"
        if key is not None
        else f"the live side has several articulations: {', '.join(map(repr, entries))}",
        place=place,
        remedy="name one of them (--articulation)",
        details={"available": list(entries)},
    )


def _sha256(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()
