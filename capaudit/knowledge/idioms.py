"""Idioms: small programs that prove an entry, as written in ``rules/idioms``.

An idiom stands in a Torch capture on these names: ``x``, ``y`` f32[64], ``Y`` f32[64, 4], ``V`` f32[4],
``m`` bool[64] and ``idx`` i64[64], all on the device. Warp idioms also find ``ws()``, the Warp stream
of the current Torch stream, and ``kmod``, a module with two kernels.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from capaudit.knowledge.loader import rules_folder
from capaudit.knowledge.versions import parse_range
from capaudit.model import ConfigurationError, InputError

OUTCOMES: Final = ("ok", "fails", "wrong-on-replay", "advances")
"""What capture and replay may do. ``advances``: state or random numbers move on, as they do eagerly."""


@dataclass(frozen=True, slots=True)
class Idiom:
    """One program. ``setup`` runs once, ``body`` is captured, ``mutate`` replaces the usual change of inputs.

    ``op`` is a name of the entry that it speaks of, ``hazard`` the code when ``capture`` is not right,
    ``twin`` the idiom that differs in the remedy alone, ``versions`` where the verdict was declared for.
    """

    id: str
    op: str
    body: str
    capture: str
    file: str
    setup: str = ""
    mutate: str = ""
    hazard: str = ""
    twin: str = ""
    versions: str = ""

    @property
    def is_right(self) -> bool:
        """Whether a replay does what eager execution does."""
        return self.capture in ("ok", "advances")


_KEYS: Final = tuple(field.name for field in fields(Idiom) if field.name != "file")
_REQUIRED: Final = ("id", "op", "body", "capture")


def load_idioms(folder: Path | None = None) -> dict[str, Idiom]:
    """Read every idiom of ``rules/idioms`` (or of ``folder``), by id.

    Errors: ``InputError`` for a file that cannot be read, ``ConfigurationError`` with file and key
    for one that does not validate or an id that is used twice.
    """
    place = folder or rules_folder() / "idioms"
    found: dict[str, Idiom] = {}
    for path in sorted(place.glob("*.toml")):
        shown = f"{place.parent.name}/{place.name}/{path.name}"
        for idiom in _read(path, shown):
            if idiom.id in found:
                raise ConfigurationError(f"{idiom.id!r} already stands in {found[idiom.id].file}", place=shown)
            found[idiom.id] = idiom
    return found


def _read(path: Path, shown: str) -> Iterable[Idiom]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the idioms: {error}", place=shown) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"not valid TOML: {error}", place=shown) from error
    entries = document.get("idiom", [])
    if set(document) - {"idiom"} or not isinstance(entries, list):
        raise ConfigurationError("a list of [[idiom]] tables is expected", place=shown)
    return [_idiom(entry, f"{shown}: idiom[{position}]", shown) for position, entry in enumerate(entries)]


def _idiom(entry: dict[str, Any], place: str, shown: str) -> Idiom:
    for key, value in entry.items():
        if key not in _KEYS:
            raise ConfigurationError(f"unknown key; known: {', '.join(_KEYS)}", place=f"{place}.{key}")
        if not isinstance(value, str):
            raise ConfigurationError("a text is expected", place=f"{place}.{key}")
    for key in _REQUIRED:
        if not entry.get(key):
            raise ConfigurationError("a text is expected", place=f"{place}.{key}")
    place = f"{place} ({entry['id']})"
    if entry["capture"] not in OUTCOMES:
        raise ConfigurationError(f"known outcomes: {', '.join(OUTCOMES)}", place=f"{place}.capture")
    for key in ("setup", "body", "mutate"):
        try:
            ast.parse(entry.get(key, ""))
        except SyntaxError as error:
            raise ConfigurationError(f"not valid Python: {error.msg}", place=f"{place}.{key}") from error
    try:
        parse_range(entry.get("versions", ""))
    except ValueError as error:
        raise ConfigurationError(str(error), place=f"{place}.versions") from error
    return Idiom(file=shown, **entry)
