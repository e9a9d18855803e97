"""Finding the record of a checkpoint: a few places, in order, and nothing further up.

A flat folder of published checkpoints must not lend one policy's record to another, so a plain
``ordering.yaml`` beside several checkpoints counts only for those that it names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from capaudit.ordering import strict_yaml
from capaudit.ordering.errors import ConflictError, CorruptRecordError, NoRecordError, OrderingUsageError
from capaudit.ordering.leapp import is_leapp, leapp_source_of
from capaudit.ordering.reading import load_record, read_bytes, record_of
from capaudit.ordering.record import Record
from capaudit.ordering.sources import Source, source_of_record
from capaudit.ordering.writing import CHECKPOINT_FOLDERS, FILE_NAME

CHECKPOINT_SUFFIXES: Final = frozenset(
    {".pt", ".pth", ".pt2", ".ckpt", ".onnx", ".zip", ".pkl", ".pickle", ".jit", ".safetensors", ".npz", ".bin"}
)
_YAML: Final = frozenset({".yaml", ".yml"})


def load_source(source: str | os.PathLike[str]) -> Source:
    """Read the orders that belong to a checkpoint file, a run folder, a record file or a LEAPP artifact.

    Errors: ``NoRecordError`` with every probed path, ``ConflictError`` where two places hold different
    records, ``OrderingUsageError`` for a URL (fetch its record first, ``capaudit.ordering.remote``), and
    whatever is wrong with the file that was found.
    """
    given = os.fspath(source)
    if "://" in given:
        raise OrderingUsageError(
            "it is a URL, and nothing here opens connections",
            place=given,
            remedy="pass a callable that fetches (from_checkpoint(..., fetch=...)), or download the run folder",
        )
    path = Path(given)
    if not given or "\0" in given:
        raise OrderingUsageError("it is no path", place=repr(given))
    if path.suffix.lower() in _YAML and not path.is_dir():
        return _yaml_source(given)
    return _nearest(path)


def _yaml_source(place: str) -> Source:
    data = read_bytes(place)
    # Aliases are for LEAPP's writer; a record that uses them is refused by the second reading.
    root = strict_yaml.compose(data, place, allow_aliases=True)
    if is_leapp(root):
        return leapp_source_of(root, data, place)
    return source_of_record(record_of(strict_yaml.compose(data, place), place), (place,))


def candidates(path: Path) -> list[tuple[Path, bool]]:
    """Return the places to look at for a checkpoint or run folder, in order, each with whether it is a plain sibling.

    A checkpoint that is a link is looked for beside the link first, then beside what it points to.
    """
    found: dict[Path, bool] = {}
    for base in _bases(path):
        for place, plain in _places(base, path.is_dir()):
            found.setdefault(place, plain)
    return list(found.items())


def _bases(path: Path) -> Iterator[Path]:
    yield path
    try:
        if path.is_symlink():
            yield path.resolve()
    except (OSError, RuntimeError):
        return


def _places(path: Path, is_folder: bool) -> Iterator[tuple[Path, bool]]:
    folder = path if is_folder else path.parent
    run = folder
    if Path(os.path.abspath(folder)).name in CHECKPOINT_FOLDERS:
        run = folder.parent if folder.name in CHECKPOINT_FOLDERS else Path(os.path.abspath(folder)).parent
    yield run / "params" / FILE_NAME, False
    if is_folder:
        yield folder / FILE_NAME, False
        if run != folder:
            yield run / FILE_NAME, False
        return
    yield folder / f"{path.stem}.{FILE_NAME}", False
    yield folder / FILE_NAME, True


def _nearest(path: Path) -> Source:
    probed: list[str] = []
    rejected: list[str] = []
    found: list[Record] = []
    for place, plain in candidates(path):
        shown = str(place)
        probed.append(shown)
        if not os.path.lexists(place):
            continue
        record = load_record(shown)
        reason = _stranger(record, path, place.parent) if plain else None
        if reason is None:
            found.append(record)
        else:
            rejected.append(reason)
    if not found:
        raise _nothing(path, probed, rejected)
    for other in found[1:]:
        if other.digest != found[0].digest:
            raise ConflictError(
                f"two records claim this checkpoint and differ: {found[0].path} ({found[0].digest}) and "
                f"{other.path} ({other.digest})",
                place=str(path),
                remedy="remove the one that does not belong to it, or name the right one with "
                "ArticulationCfg.ordering_source_path",
                details={
                    "candidates": [
                        {"path": str(found[0].path), "digest": found[0].digest},
                        {"path": str(other.path), "digest": other.digest},
                    ]
                },
            )
    notes = () if os.path.exists(path) else (f"there is no file {path}; the record is that of its run folder",)
    return source_of_record(found[0], tuple(probed), notes)


def _stranger(record: Record, checkpoint: Path, folder: Path) -> str | None:
    """Say why a plain sibling does not count for this checkpoint, or ``None`` when it does."""
    if record.applies_to:
        names = {checkpoint.name, checkpoint.stem}
        if names & set(record.applies_to):
            return None
        return f"{record.path} belongs to {', '.join(record.applies_to)} (applies_to), not to {checkpoint.name}"
    try:
        files = [file for file in folder.iterdir() if file.suffix.lower() in CHECKPOINT_SUFFIXES]
    except OSError:
        files = []
    policies = {file.stem for file in files} | {checkpoint.stem}
    if len(policies) > 1:
        return (
            f"{record.path} lies beside {len(policies)} checkpoints and does not say which it belongs to: name them in "
            f"'applies_to', or call it {checkpoint.stem}.{FILE_NAME}"
        )
    return None


def _nothing(path: Path, probed: list[str], rejected: list[str]) -> NoRecordError:
    what = "no record of its joint and body order was found"
    if not os.path.lexists(path):
        what = f"there is no such checkpoint or run folder, and {what}"
    message = f"{what}; looked at {', '.join(probed)}"
    if rejected:
        message += f"; {'; '.join(rejected)}"
    return NoRecordError(
        message,
        place=str(path),
        remedy="record the run that trained it (`capaudit ordering record`)",
        details={"probed": probed, "rejected": rejected},
    )


def require_record(source: Source) -> Record:
    """Return the record behind a source. Errors: ``CorruptRecordError`` where it is none."""
    if source.record is None:
        raise CorruptRecordError(f"a {source.kind} source is no record", place=source.path)
    return source.record
