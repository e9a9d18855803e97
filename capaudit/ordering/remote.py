"""Records of remote checkpoints, through a callable that somebody else provides.

``fetch(url)`` returns the bytes, or ``None`` (or raises ``FileNotFoundError``) where the server says that
there is nothing; any other exception means that nobody knows. The two stay apart.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from capaudit.ordering.errors import ConflictError, NoRecordError, RemoteError
from capaudit.ordering.reading import parse_record
from capaudit.ordering.record import Record
from capaudit.ordering.sources import Source, source_of_record
from capaudit.ordering.writing import CHECKPOINT_FOLDERS, FILE_NAME, write_record

Fetch = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class RemoteRecord:
    """What a best-effort fetch brought: ``status``, the urls that were tried, and the record with its local path."""

    status: Literal["found", "not-found", "network-error"]
    tried: tuple[str, ...]
    record: Record | None = None
    path: str | None = None
    cause: str = ""


def record_urls(url: str) -> Iterator[tuple[str, bool]]:
    """Yield where a checkpoint's record may lie, in order, each with whether it is a plain sibling."""
    base = url.partition("?")[0].partition("#")[0]
    folder, _, name = base.rpartition("/")
    parent, _, last = folder.rpartition("/")
    run = parent if last in CHECKPOINT_FOLDERS else folder
    stem = name.rpartition(".")[0] or name
    yield f"{run}/params/{FILE_NAME}", False
    yield f"{folder}/{stem}.{FILE_NAME}", False
    yield f"{folder}/{FILE_NAME}", True


def fetch_record(url: str, fetch: Fetch, cache: str | os.PathLike[str] | None = None) -> RemoteRecord:
    """Try to fetch the record of a remote checkpoint into a folder of its own below ``cache``.

    A plain sibling counts only if it names the checkpoint (``applies_to``): who else lies in a remote folder
    is not known. Errors: ``ConflictError`` where two fetched records differ, and whatever is wrong with one.
    """
    tried: list[str] = []
    causes: list[str] = []
    found: list[Record] = []
    base = url.partition("?")[0].partition("#")[0]
    name = base.rpartition("/")[2]
    for candidate, plain in record_urls(url):
        tried.append(candidate)
        try:
            data = fetch(candidate)
        except FileNotFoundError:
            continue
        except Exception as error:
            causes.append(f"{candidate}: {type(error).__name__}: {error}")
            continue
        if data is None:
            continue
        record = parse_record(data, candidate)
        if plain and not {name, name.rpartition(".")[0]} & set(record.applies_to):
            continue
        found.append(record)
    for other in found[1:]:
        if other.digest != found[0].digest:
            raise ConflictError(
                f"two remote records claim this checkpoint and differ: {found[0].path} and {other.path}",
                place=url,
                details={"candidates": [str(found[0].path), str(other.path)]},
            )
    if not found:
        status: Literal["not-found", "network-error"] = "network-error" if causes else "not-found"
        return RemoteRecord(status, tuple(tried), cause="; ".join(causes))
    folder = (
        Path(cache or Path(tempfile.gettempdir()) / "capaudit-ordering")
        / hashlib.sha256(base.encode()).hexdigest()[:24]
    )
    path = folder / FILE_NAME
    write_record(found[0], path)
    return RemoteRecord("found", tuple(tried), found[0].at(str(path)), str(path))


def fetched_source(url: str, fetch: Fetch, cache: str | os.PathLike[str] | None = None) -> Source:
    """Return the fetched record as a source.

    Errors: ``NoRecordError`` where the server has none, ``RemoteError`` where it could not be asked.
    """
    result = fetch_record(url, fetch, cache)
    if result.record is not None:
        return source_of_record(result.record, result.tried)
    details = {"probed": list(result.tried), "cause": result.cause}
    if result.status == "network-error":
        raise RemoteError(
            f"the record could not be fetched ({result.cause})",
            place=url,
            remedy="try again, or download the run folder",
            details=details,
        )
    raise NoRecordError(
        f"no record lies beside this checkpoint; looked at {', '.join(result.tried)}",
        place=url,
        remedy="publish the run's ordering.yaml as <checkpoint>.ordering.yaml beside it",
        details=details,
    )
