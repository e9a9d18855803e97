"""The hook that a training script calls once, after its environment exists."""

from __future__ import annotations

import os
import platform
import socket
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from capaudit.ordering.adapters import entries_of
from capaudit.ordering.errors import ConflictError, NoRecordError, OrderingUsageError
from capaudit.ordering.locating import load_source
from capaudit.ordering.names import AXES, difference, match_spellings
from capaudit.ordering.record import Entry, Record
from capaudit.ordering.sources import Source
from capaudit.ordering.writing import FILE_NAME, checkpoint_folder, write_record

_RANK_VARIABLES: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "JAX_RANK")
_VERSIONED: Final = (
    "capaudit",
    "isaaclab",
    "isaacsim",
    "mjlab",
    "mujoco",
    "mujoco_warp",
    "newton",
    "rl_games",
    "rsl_rl",
    "skrl",
    "stable_baselines3",
    "torch",
    "unilab",
    "warp",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What recording did: ``written``, ``unchanged`` (an equal record stood there) or ``other-rank`` (nothing)."""

    action: Literal["written", "unchanged", "other-rank"]
    path: str
    record: Record


def install_recorder(
    env: object,
    run_dir: str | os.PathLike[str],
    *,
    resumed_from: str | os.PathLike[str] | None = None,
    missing_record: Literal["error", "ignore"] = "error",
    backend: str | None = None,
    task: str | None = None,
    applies_to: Sequence[str] = (),
    provenance: Mapping[str, Any] | None = None,
    rank: int | None = None,
    allow_checkpoint_folder: bool = False,
) -> Outcome:
    """Record the orders of a live environment into ``<run_dir>/params/ordering.yaml``, once and on rank 0 only.

    Call it after the environment has been created, in any framework; a second call with the same orders
    changes nothing. With ``resumed_from`` (a checkpoint) every rank compares the orders with the record of
    the resumed run first, and a difference is an error at the start of training; ``missing_record="ignore"``
    lets a checkpoint from before there were records pass. Errors: ``ConflictError``, ``WriteConflictError``,
    ``NoRecordError``, ``OrderingUsageError``, ``LiveNamesError``.
    """
    return record_entries(
        entries_of(env, backend=backend),
        Path(run_dir) / "params" / FILE_NAME,
        resumed_from=resumed_from,
        missing_record=missing_record,
        applies_to=applies_to,
        provenance={**({"task": task} if task else {}), **(provenance or {})},
        rank=rank,
        allow_checkpoint_folder=allow_checkpoint_folder,
    )


def record_entries(
    entries: Mapping[str, Entry],
    path: str | os.PathLike[str],
    *,
    resumed_from: str | os.PathLike[str] | None = None,
    missing_record: Literal["error", "ignore"] = "error",
    applies_to: Sequence[str] = (),
    provenance: Mapping[str, Any] | None = None,
    rank: int | None = None,
    allow_checkpoint_folder: bool = False,
) -> Outcome:
    """Record entries that were read already. Errors: as ``install_recorder``."""
    place = Path(path)
    if resumed_from is not None:
        check_resumed(entries, resumed_from, missing_record)
    if not entries:
        raise OrderingUsageError("there is no articulation to record", place=str(place))
    record = Record(dict(entries), {**default_provenance(), **(provenance or {})}, tuple(applies_to), path=str(place))
    if (process_rank() if rank is None else rank) != 0:
        return Outcome("other-rank", str(place), record)
    if allow_checkpoint_folder and checkpoint_folder(place) is not None:
        warnings.warn(
            f"{place}: frameworks take any file in this folder for a checkpoint (patterns such as '.*'); "
            "their 'latest' may pick up the record",
            stacklevel=3,
        )
    written = write_record(record, place, allow_checkpoint_folder=allow_checkpoint_folder)
    return Outcome("written" if written else "unchanged", str(place), record)


def process_rank() -> int:
    """Return this process's global rank: Torch's where it is initialised, else the launcher's variables, else 0."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    variables: tuple[str, ...] = _RANK_VARIABLES
    if os.environ.get("WORLD_SIZE", "1") not in ("", "1"):
        # Alone it may be one of many independent trainings in a job array.
        variables = (*variables, "SLURM_PROCID", "LOCAL_RANK")
    for name in variables:
        text = os.environ.get(name, "")
        if text.isdecimal():
            return int(text)
    return 0


def default_provenance() -> dict[str, Any]:
    """Return where and when a record is made; none of it takes part in a digest or a verdict."""
    versions = {"python": platform.python_version()}
    for name in _VERSIONED:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            versions[name] = version
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": socket.gethostname(),
        "working_directory": os.getcwd(),
        "argv": list(sys.argv),
        "versions": versions,
    }


def check_resumed(
    entries: Mapping[str, Entry],
    resumed_from: str | os.PathLike[str],
    missing_record: Literal["error", "ignore"] = "error",
) -> None:
    """Compare new entries with the record of the checkpoint that a run resumes. Errors: ``ConflictError``."""
    try:
        source = load_source(resumed_from)
    except NoRecordError:
        if missing_record == "ignore":
            return
        raise
    problems = list(resume_problems(entries, source))
    if problems:
        raise ConflictError(
            f"the new run's order differs from that of the checkpoint it resumes ({source.path}): "
            f"{'; '.join(problems)}",
            place=os.fspath(resumed_from),
            remedy="set ArticulationCfg.joint_ordering and ArticulationCfg.body_ordering to 'from_checkpoint' (or to "
            "the recorded names), so that the policy goes on seeing its own order",
            details={"record": source.path, "differences": problems},
        )


def resume_problems(entries: Mapping[str, Entry], source: Source) -> list[str]:
    """Return in which public orders new entries differ from a source; ``:`` for ``_`` in joints does not count."""
    problems = []
    for key, orders in source.articulations.items():
        entry = entries.get(key)
        if entry is None:
            problems.append(f"articulation {key!r} is gone")
            continue
        axes: list[tuple[str, tuple[str, ...] | None, tuple[str, ...] | None]] = [
            (axis, orders.names(axis), entry.public_names(axis)) for axis in AXES
        ]
        for axis, stored, now in (*axes, ("actuator", orders.actuator_names, entry.actuator_names)):
            if stored is None or now is None:
                continue
            if axis == "joint":
                stored = match_spellings(stored, now)
            if stored == now:
                continue
            missing, extra = difference(stored, now)
            if missing or extra:
                problems.append(f"{key}, {axis} names: new {missing}, gone {extra}")
            else:
                first = next(i for i, (a, b) in enumerate(zip(stored, now, strict=True)) if a != b)
                problems.append(f"{key}, {axis} order: place {first} was {stored[first]!r} and is {now[first]!r}")
    return problems
