"""``[tool.capaudit]``: read once, validated strictly, handed on as one frozen value.

An unknown key is an error that names the nearest known one: a misspelt ``per-file-ignore`` that is
silently dropped would change verdicts without a trace.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, get_args

from capaudit.audit.selection import Override, is_reported, matches, specificity
from capaudit.model import AuditName, Boundary, BoundaryRefusedError, CaptureKind, ConfigurationError, Severity

_CAPTURES: Final = get_args(CaptureKind)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings of one audit.

    ``source`` is the file they were read from and ``root`` its folder, to which relative ``paths``,
    ``exclude``, ``knowledge`` and ``evidence`` patterns and the patterns of ``per_file_ignores``
    refer; both are ``None`` without a file. ``follow`` names installed packages that are read like
    the user's own code. ``select``, ``ignore`` and ``extend_select`` hold selectors: a code
    (``CAP103``), a name (``host-to-device-copy``) or a prefix of codes (``CAP1``); an empty
    ``select`` means every rule. ``severity`` maps selectors to how much a finding weighs and ``overrides``
    change the choice for some files. ``evidence`` are files or folders of the probe's evidence,
    ``baseline`` is a file of accepted findings. ``versions`` maps a library to the version to judge by.
    ``audits`` maps ``environment``, ``backend`` and ``collector`` to the packages whose findings are counted apart.
    """

    source: Path | None = None
    root: Path | None = None
    paths: tuple[str, ...] = ()
    follow: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    knowledge: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    strict: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    require_evidence: bool = False
    baseline: str | None = None
    severity: Mapping[str, Severity] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    audits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def excludes(self, file: Path) -> bool:
        """Return whether ``exclude`` says that this file is no part of the program."""
        return matches(self.exclude, file, self.root)

    def reports(self, code: str, name: str, file: Path) -> bool:
        """Return whether a finding of this rule in this file is wanted; see ``selection.is_reported``."""
        return is_reported(self, code, name, file)

    def asks_for(self, code: str, name: str) -> bool:
        """Return whether ``select`` or ``extend-select`` mentions a rule: by code, name or prefix."""
        return specificity((*self.select, *self.extend_select), code, name) > 0

    def knowledge_files(self) -> tuple[Path, ...]:
        """Return the files that the ``knowledge`` patterns name, sorted.

        Errors: ``ConfigurationError`` for a pattern that matches no file, because knowledge that is
        silently missing would change verdicts.
        """
        root = self.root or Path.cwd()
        files: set[Path] = set()
        for pattern in self.knowledge:
            try:
                matches = [root / pattern] if Path(pattern).is_absolute() else list(root.glob(pattern))
            except (ValueError, NotImplementedError):
                matches = []
            matches = [match for match in matches if match.is_file()]
            if not matches:
                raise ConfigurationError(
                    f"'tool.capaudit.knowledge' names {pattern!r}, which matches no file",
                    place=str(self.source) if self.source else None,
                    remedy=f"correct the pattern; it is relative to {root}",
                )
            files.update(matches)
        return tuple(sorted(files))

    @property
    def selectors(self) -> tuple[str, ...]:
        """Every selector that the configuration mentions, so that unknown ones can be refused."""
        per_file = [selector for selectors in self.per_file_ignores.values() for selector in selectors]
        every = [*self.select, *self.ignore, *self.extend_select, *per_file, *self.severity]
        for item in self.overrides:
            every += [*(item.select or ()), *item.ignore, *item.extend_select, *item.severity]
        return tuple(dict.fromkeys(every))

    def with_selectors(self, named: Mapping[str, str]) -> Configuration:
        """Return the configuration with every selector replaced by what ``named`` has for it."""

        def all_of(selectors: Iterable[str]) -> tuple[str, ...]:
            return tuple(named[selector] for selector in selectors)

        def weights(table: Mapping[str, Severity]) -> dict[str, Severity]:
            return {named[selector]: severity for selector, severity in table.items()}

        return replace(
            self,
            select=all_of(self.select),
            ignore=all_of(self.ignore),
            extend_select=all_of(self.extend_select),
            per_file_ignores={pattern: all_of(selectors) for pattern, selectors in self.per_file_ignores.items()},
            severity=weights(self.severity),
            overrides=tuple(
                replace(
                    item,
                    select=all_of(item.select) if item.select is not None else None,
                    ignore=all_of(item.ignore),
                    extend_select=all_of(item.extend_select),
                    severity=weights(item.severity),
                )
                for item in self.overrides
            ),
        )


def find_configuration(start: Path) -> Path | None:
    """Return the nearest ``pyproject.toml`` with a ``[tool.capaudit]`` table, from ``start`` upwards.

    Errors: ``ConfigurationError`` when a ``pyproject.toml`` on the way cannot be read.
    """
    folder = start.resolve()
    if folder.is_file():
        folder = folder.parent
    for candidate in (folder, *folder.parents):
        file = candidate / "pyproject.toml"
        if file.is_file() and _table(_parse(file), file) is not None:
            return file
    return None


def load_configuration(file: Path) -> Configuration:
    """Read and validate the ``[tool.capaudit]`` table of one file; a file without it gives the defaults.

    Errors: ``ConfigurationError`` with the file, the key and the nearest valid key or the wanted type.
    """
    reader = _Reader(file)
    table = _table(_parse(file), file)
    return reader.configuration({} if table is None else table)


def _parse(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(
            f"the configuration cannot be read: {error.strerror or error}",
            place=str(file),
            remedy="name another file with --config, or leave configuration out with --isolated",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"the configuration is not UTF-8 text (byte {error.start})", place=str(file), remedy="save it as UTF-8"
        ) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        detail = "tables or arrays are nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigurationError(
            f"the configuration is not valid TOML: {detail}",
            place=str(file),
            remedy="correct the TOML, or leave configuration out with --isolated",
        ) from error


def _table(document: dict[str, Any], file: Path) -> dict[str, Any] | None:
    tool = document.get("tool", {})
    if not isinstance(tool, dict) or "capaudit" not in tool:
        return None
    table = tool["capaudit"]
    if not isinstance(table, dict):
        raise _wrong(file, "tool.capaudit", "a table", table)
    return table


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns the plain table into values; every complaint carries the file and the full key."""

    file: Path

    def configuration(self, table: dict[str, Any]) -> Configuration:
        values = self._read(table, "tool.capaudit", _KEYS)
        return Configuration(source=self.file, root=self.file.resolve().parent, **values)

    def _read(self, table: dict[str, Any], where: str, keys: Mapping[str, _Key]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in table.items():
            known = keys.get(key)
            if known is None:
                raise self._unknown(f"{where}.{key}", key, keys)
            field_name, read = known
            values[field_name] = read(self, f"{where}.{key}", value)
        return values

    def _unknown(self, full_key: str, key: str, keys: Iterable[str]) -> ConfigurationError:
        # Underscores for dashes is the usual slip, so compare with them made equal.
        near = difflib.get_close_matches(key.replace("_", "-").lower(), list(keys), n=1, cutoff=0.5)
        remedy = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(sorted(keys))}"
        return ConfigurationError(f"unknown key {full_key!r}", place=str(self.file), remedy=remedy)

    def whole(self, key: str, value: object) -> int:
        if type(value) is not int:
            raise _wrong(self.file, key, "a whole number", value)
        return value

    def flag(self, key: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise _wrong(self.file, key, "true or false", value)
        return value

    def text(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise _wrong(self.file, key, "a non-empty string", value)
        return value

    def texts(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise _wrong(self.file, key, "a list of strings", value)
        return tuple(self.text(f"{key}[{index}]", item) for index, item in enumerate(value))

    def versions(self, key: str, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise _wrong(self.file, key, "a table of strings", value)
        return {name: self.version(f"{key}.{name}", item) for name, item in value.items()}

    def version(self, key: str, value: object) -> str:
        from capaudit.knowledge.versions import version_key

        text = self.text(key, value)
        try:
            version_key(text)
        except ValueError:
            raise _wrong(self.file, key, 'a version such as "2.11"', value) from None
        return text

    def texts_table(self, key: str, value: object) -> dict[str, tuple[str, ...]]:
        if not isinstance(value, dict):
            raise _wrong(self.file, key, "a table of lists of strings", value)
        return {name: self.texts(f'{key}."{name}"', item) for name, item in value.items()}

    def capture(self, key: str, value: object) -> str:
        if value not in _CAPTURES:
            raise _wrong(self.file, key, "one of " + ", ".join(f'"{kind}"' for kind in _CAPTURES), value)
        return str(value)

    def severities(self, key: str, value: object) -> dict[str, Severity]:
        if not isinstance(value, dict):
            raise _wrong(self.file, key, "a table of rules", value)
        return {name: self.severity(f"{key}.{name}", item) for name, item in value.items()}

    def severity(self, key: str, value: object) -> Severity:
        if value not in tuple(Severity):
            raise _wrong(self.file, key, "one of " + ", ".join(f'"{kind.value}"' for kind in Severity), value)
        return Severity(str(value))

    def overrides(self, key: str, value: object) -> tuple[Override, ...]:
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise _wrong(self.file, key, f"an array of tables, written [[{key}]]", value)
        return tuple(self._override(f"{key}[{index}]", item) for index, item in enumerate(value))

    def _override(self, where: str, table: dict[str, Any]) -> Override:
        values = self._read(table, where, _OVERRIDE_KEYS)
        if not values.get("paths"):
            raise ConfigurationError(
                f"{where} has no 'paths'",
                place=str(self.file),
                remedy='add the files that it is for: paths = ["scripts/*"]',
            )
        if len(values) == 1:
            raise ConfigurationError(
                f"{where} changes nothing",
                place=str(self.file),
                remedy="add select, ignore, extend-select or severity, or delete it",
            )
        return Override(**values)

    def boundaries(self, key: str, value: object) -> tuple[Boundary, ...]:
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise _wrong(self.file, key, f"an array of tables, written [[{key}]]", value)
        boundaries = tuple(self._boundary(f"{key}[{index}]", item) for index, item in enumerate(value))
        names = [boundary.name for boundary in boundaries]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise ConfigurationError(
                    f"{key}[{index}]: a second boundary is named {name!r}",
                    place=str(self.file),
                    remedy="give each boundary a name of its own",
                )
        return boundaries

    def _boundary(self, where: str, table: dict[str, Any]) -> Boundary:
        values = self._read(table, where, _BOUNDARY_KEYS)
        entry = values.get("entry")
        if entry is None:
            raise ConfigurationError(
                f"{where} has no 'entry'",
                place=str(self.file),
                remedy='add entry = "package.module:Class.method" or "package.module:function"',
            )
        try:
            return Boundary(**{"name": entry, "capture": "torch", "origin": "configuration", **values})
        except BoundaryRefusedError as error:
            place = f"{self.file}: {where}"
            raise BoundaryRefusedError(error.message, place=place, remedy=error.remedy) from None

    def audits(self, key: str, value: object) -> dict[str, tuple[str, ...]]:
        if not isinstance(value, dict):
            raise _wrong(self.file, key, "a table of lists of package names", value)
        return self._read(value, key, _AUDIT_KEYS)


_Key = tuple[str, Callable[[_Reader, str, object], object]]

_OVERRIDE_KEYS: Final[Mapping[str, _Key]] = {
    "paths": ("paths", _Reader.texts),
    "select": ("select", _Reader.texts),
    "ignore": ("ignore", _Reader.texts),
    "extend-select": ("extend_select", _Reader.texts),
    "severity": ("severity", _Reader.severities),
}

_BOUNDARY_KEYS: Final[Mapping[str, _Key]] = {
    "name": ("name", _Reader.text),
    "entry": ("entry", _Reader.text),
    "capture": ("capture", _Reader.capture),
    "completion-owned": ("completion_owned", _Reader.texts),
    "cold-path": ("cold_path", _Reader.texts),
    "carriers": ("carriers", _Reader.texts),
    "exclude": ("exclude", _Reader.texts),
    "inputs": ("inputs", _Reader.texts),
    "outputs": ("outputs", _Reader.texts),
    "k": ("k", _Reader.whole),
    "action-sequence": ("action_sequence", _Reader.flag),
    "speculative": ("speculative", _Reader.flag),
}

_AUDIT_KEYS: Final[Mapping[str, _Key]] = {name: (name, _Reader.texts) for name in get_args(AuditName)}

_KEYS: Final[Mapping[str, _Key]] = {
    "paths": ("paths", _Reader.texts),
    "follow": ("follow", _Reader.texts),
    "exclude": ("exclude", _Reader.texts),
    "knowledge": ("knowledge", _Reader.texts),
    "select": ("select", _Reader.texts),
    "ignore": ("ignore", _Reader.texts),
    "extend-select": ("extend_select", _Reader.texts),
    "per-file-ignores": ("per_file_ignores", _Reader.texts_table),
    "strict": ("strict", _Reader.flag),
    "versions": ("versions", _Reader.versions),
    "evidence": ("evidence", _Reader.texts),
    "require-evidence": ("require_evidence", _Reader.flag),
    "baseline": ("baseline", _Reader.text),
    "severity": ("severity", _Reader.severities),
    "overrides": ("overrides", _Reader.overrides),
    "boundary": ("boundaries", _Reader.boundaries),
    "audits": ("audits", _Reader.audits),
}


def _wrong(file: Path, key: str, wanted: str, value: object) -> ConfigurationError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return ConfigurationError(f"{key!r} is {shown}", place=str(file), remedy=f"it must be {wanted}")
