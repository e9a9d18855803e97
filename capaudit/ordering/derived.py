"""Orders that frameworks have stored already, each marked ``derived``: nothing protected them and some lack axes.

mjlab and BeyondMimic write ``joint_names`` into the metadata of exported ONNX policies, UniLab's
``run_config.json`` holds its entities' names, and Isaac Lab can export IO descriptors.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from capaudit.ordering import strict_yaml
from capaudit.ordering.errors import ConflictError, CorruptRecordError, MissingEntryError, NoRecordError
from capaudit.ordering.names import name_problem
from capaudit.ordering.reading import read_bytes
from capaudit.ordering.sources import Orders, Source

RUN_CONFIG: Final = "run_config.json"
_DESCRIPTORS: Final = ("io_descriptors/IO_descriptors.yaml", "params/IO_descriptors.yaml", "IO_descriptors.yaml")
_ONNX_METADATA_FIELD: Final = 14


def from_run_folder(path: str | os.PathLike[str]) -> Source:
    """Read what a framework stored in a run folder.

    Looks for UniLab's ``run_config.json``, Isaac Lab's IO descriptors, and ONNX policies with metadata.
    Errors: ``NoRecordError`` with everything that was looked at, ``ConflictError`` where two policies differ.
    """
    folder = Path(path)
    probed = [str(folder / RUN_CONFIG)]
    if (folder / RUN_CONFIG).is_file():
        return from_run_config(folder / RUN_CONFIG)
    for name in _DESCRIPTORS:
        probed.append(str(folder / name))
        if (folder / name).is_file():
            return from_io_descriptors(folder / name)
    found: Source | None = None
    for file in sorted([*folder.glob("*.onnx"), *folder.glob("exported/*.onnx")]):
        probed.append(str(file))
        try:
            source = from_onnx(file)
        except MissingEntryError:
            continue
        if found is not None and source.articulations != found.articulations:
            raise ConflictError(
                f"two exported policies of this run give different orders: {found.path} and {source.path}",
                place=str(folder),
                details={"candidates": [found.path, source.path]},
            )
        found = found or source
    if found is None:
        raise NoRecordError(
            f"the run folder holds no order that a framework stored; looked at {', '.join(probed)} and *.onnx",
            place=str(folder),
            remedy="record from the live environment (install_recorder, or --from-env)",
            details={"probed": probed},
        )
    return found


def from_run_config(path: str | os.PathLike[str]) -> Source:
    """Read UniLab's ``run_config.json``: the names of ``config.env.scene.entities``. Errors: ``MissingEntryError``."""
    place = os.fspath(path)
    data, document = _json(place)
    config = document.get("config") if isinstance(document, dict) else None
    entities = _dig(config, "env", "scene", "entities") or _dig(config, "scene", "entities")
    backend = _dig(config, "training", "sim_backend") or _dig(document, "run", "sim_backend")
    found = {}
    for key, entity in (entities or {}).items() if isinstance(entities, dict) else ():
        if isinstance(entity, dict) and isinstance(entity.get("joint_names"), list):
            found[key] = Orders(
                _names(entity["joint_names"], place, f"{key}.joint_names"),
                _optional(entity, "body_names", place, key),
                _optional(entity, "actuator_names", place, key),
                backend if isinstance(backend, str) else None,
            )
    return _derived(found, place, data, "UniLab's run_config.json")


def from_io_descriptors(path: str | os.PathLike[str]) -> Source:
    """Read Isaac Lab's IO descriptors: ``articulations.<key>.joint_names``. Errors: ``MissingEntryError``."""
    place = os.fspath(path)
    data = read_bytes(place)
    document = strict_yaml.plain(strict_yaml.compose(data, place, allow_aliases=True), place)
    articulations = _dig(document, "articulations")
    found = {
        key: Orders(
            _names(value["joint_names"], place, f"{key}.joint_names"), _optional(value, "body_names", place, key)
        )
        for key, value in (articulations.items() if isinstance(articulations, dict) else ())
        if isinstance(value, dict) and isinstance(value.get("joint_names"), list)
    }
    return _derived(found, place, data, "Isaac Lab's IO descriptors")


def from_onnx(path: str | os.PathLike[str], articulation: str = "robot") -> Source:
    """Read the ``joint_names`` (and ``body_names``) in an ONNX policy's metadata, without the onnx package.

    Errors: ``MissingEntryError`` for a policy without them, ``CorruptRecordError`` for a file that is no ONNX.
    """
    place = os.fspath(path)
    metadata: dict[str, str] = {}
    digest = hashlib.sha256()
    try:
        with open(place, "rb") as stream:
            data = stream.read()
        digest.update(data)
        for number, payload in _fields(memoryview(data)):
            if number == _ONNX_METADATA_FIELD and payload is not None:
                pair = {inner: bytes(value or b"").decode("utf-8") for inner, value in _fields(payload)}
                metadata[pair.get(1, "")] = pair.get(2, "")
    except FileNotFoundError as error:
        raise NoRecordError("there is no such file", place=place, details={"probed": [place]}) from error
    except (ValueError, IndexError) as error:
        raise CorruptRecordError(f"it is no ONNX model: {error}", place=place) from error
    found = {}
    if metadata.get("joint_names"):
        found[articulation] = Orders(
            _names(_listed(metadata["joint_names"]), place, "joint_names"),
            # BeyondMimic's body_names are those that it tracks, not all there are, so they give no order.
        )
    return _derived(found, place, None, "an ONNX policy's metadata", digest.hexdigest())


def _listed(text: str) -> list[str]:
    """Read a list that was stored as text: comma separated, or JSON."""
    if text.lstrip().startswith("["):
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if isinstance(value, list):
            return value
    return [name.strip() for name in text.split(",")]


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """Yield ``(field number, bytes)`` of one protobuf message; other wire types yield ``None``.

    Source: the protobuf encoding, wire types 0 (varint), 1 (64 bit), 2 (length), 5 (32 bit).
    """
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        wire = tag & 7
        if wire == 0:
            _, position = _varint(data, position)
            yield tag >> 3, None
        elif wire == 2:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise ValueError("a field ends behind the file")
            yield tag >> 3, data[position : position + length]
            position += length
        elif wire in (1, 5):
            position += 8 if wire == 1 else 4
            yield tag >> 3, None
        else:
            raise ValueError(f"wire type {wire} is none of protobuf's")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _derived(found: dict[str, Orders], place: str, data: bytes | None, what: str, sha256: str | None = None) -> Source:
    if not found:
        raise MissingEntryError(f"{what} holds no joint names", place=place, details={"available": []})
    return Source(
        kind="derived",
        path=place,
        articulations=found,
        sha256=sha256 or hashlib.sha256(data or b"").hexdigest(),
        notes=(f"derived from {what}: no digest protects it",),
    )


def _json(place: str) -> tuple[bytes, Any]:
    data = read_bytes(place)
    try:
        return data, json.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CorruptRecordError(f"it is not valid JSON: {error}", place=place) from error


def _dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _optional(value: dict[str, Any], field: str, place: str, key: str) -> tuple[str, ...] | None:
    names = value.get(field)
    return _names(names, place, f"{key}.{field}") if isinstance(names, list) else None


def _names(names: list[Any], place: str, what: str) -> tuple[str, ...]:
    found = name_problem(names)
    if found is not None:
        raise CorruptRecordError(f"{what}[{found[0]}]: {found[1]}", place=place)
    return tuple(names)
