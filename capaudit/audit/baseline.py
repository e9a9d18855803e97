"""The baseline file: findings that a team has accepted, with reason and date; it only shrinks unless asked to grow."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from pathlib import Path
from typing import Any, Final

from capaudit.model import BaselineEntry, BaselineState, Finding, InputError, Result
from capaudit.program.index import shown_path
from capaudit.program.writing import replace_file

SCHEMA: Final = "capaudit-baseline/1"
DEFAULT_NAME: Final = "capaudit-baseline.json"
_REFUSED: Final = frozenset({"CAP906"})
"""A contradiction is settled by looking at it; accepting it would keep what a run has refuted."""

_AGAIN: Final = "restore the file from version control, or write it anew with `capaudit baseline write --force`"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Findings beside a baseline: new and accepted ones, and what the entries became.

    ``kept`` are the entries that still hold, under the names of today; ``absent`` those that nothing
    matches; ``unseen`` those that this audit did not look at.
    """

    new: tuple[Finding, ...]
    accepted: tuple[Finding, ...]
    kept: tuple[BaselineEntry, ...]
    absent: tuple[BaselineEntry, ...]
    unseen: tuple[BaselineEntry, ...]


@dataclass(slots=True)
class _Group:
    """Findings with one fingerprint; a place counts once, however many boundaries reach it."""

    findings: list[Finding] = field(default_factory=list)
    places: dict[Any, None] = field(default_factory=dict)


def entries_of(result: Result, folder: Path, base: Path, reason: str, day: str) -> tuple[BaselineEntry, ...]:
    """Return an entry per distinct finding of a result. ``folder`` is the baseline's, ``base`` what places refer to."""
    return _ordered(
        _entry(group, folder, base, reason, day) for group in _grouped(result.findings).values() if group.findings
    )


def compare(
    result: Result, entries: Iterable[BaselineEntry], folder: Path, base: Path, boundaries: frozenset[str] | None = None
) -> Comparison:
    """Lay findings beside entries: by fingerprint, and where that is gone by code, function and text.

    So code that moves to another file or function stays accepted, one finding for each that was. An entry
    whose file was not read, or whose boundary is not among ``boundaries`` (``None``: all were audited),
    is unseen and not absent.
    """
    groups = _grouped(result.findings)
    left = {key: len(group.places) for key, group in groups.items()}
    taken: Counter[str] = Counter()
    kept: list[BaselineEntry] = []
    open_entries: list[BaselineEntry] = []
    for entry in entries:
        number = min(entry.count, left.get(entry.fingerprint, 0))
        if number:
            left[entry.fingerprint] -= number
            taken[entry.fingerprint] += number
            today = _entry(groups[entry.fingerprint], folder, base, entry.reason, entry.added)
            kept.append(replace(today, count=number))
        if number < entry.count:
            open_entries.append(replace(entry, count=entry.count - number))
    for named in (_by_function, _by_file):
        open_entries = _moved(named, open_entries, groups, left, taken, kept, folder, base)
    # With its file gone, nothing but the operation is left of an entry's name.
    lost = [entry for entry in open_entries if not (folder / entry.file).exists()]
    kept_open = [entry for entry in open_entries if (folder / entry.file).exists()]
    open_entries = kept_open + _moved(_by_text, lost, groups, left, taken, kept, folder, base)
    read = {_relative(file, folder, base) for file in result.files}
    absent: list[BaselineEntry] = []
    unseen: list[BaselineEntry] = []
    for entry in open_entries:
        gone = not (folder / entry.file).exists()
        seen = boundaries is None or entry.boundary in boundaries
        (absent if seen and (gone or entry.file in read) else unseen).append(entry)
    new: list[Finding] = []
    accepted: list[Finding] = []
    for finding in result.findings:
        group = groups.get(finding.fingerprint)
        # Of several findings that read alike the first ones are the accepted ones.
        order = list(group.places).index(finding.place) if group is not None else 0
        if group is not None and order < taken[finding.fingerprint]:
            accepted.append(replace(finding, baseline_state=BaselineState.UNCHANGED))
        else:
            new.append(replace(finding, baseline_state=BaselineState.NEW))
    return Comparison(tuple(new), tuple(accepted), _ordered(_merged(kept)), _ordered(absent), _ordered(unseen))


def apply_baseline(result: Result, comparison: Comparison) -> Result:
    """Return the result with accepted findings set apart."""
    return replace(result, findings=comparison.new, baselined=comparison.accepted, absent=comparison.absent)


def read_baseline(file: Path) -> tuple[BaselineEntry, ...]:
    """Read a baseline. Errors: ``InputError`` with the file and the place for anything that is not one."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the baseline cannot be read: {error.strerror}", place=str(file)) from None
    except UnicodeDecodeError:
        raise InputError("the baseline is not UTF-8 text", place=str(file), remedy=_AGAIN) from None
    except json.JSONDecodeError as error:
        place = f"{file}:{error.lineno}:{error.colno}"
        raise InputError(f"the baseline is not valid JSON: {error.msg}", place=place, remedy=_AGAIN) from None
    except (ValueError, RecursionError):
        raise InputError("the baseline is no JSON that can be read", place=str(file), remedy=_AGAIN) from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        found = document.get("schema") if isinstance(document, dict) else None
        said = f"its schema is {found!r}" if found is not None else "it has no schema"
        raise InputError(f"this is no baseline of this version: {said}", place=str(file), remedy=_AGAIN)
    listed = document.get("entries")
    unknown = sorted(set(document) - {"schema", "entries"})
    if not isinstance(listed, list) or unknown:
        problem = f"unknown key {unknown[0]!r}" if unknown else "'entries' is no list"
        raise InputError(f"the baseline cannot be used: {problem}", place=str(file), remedy=_AGAIN)
    entries = tuple(_read_entry(item, f"{file}: entries[{index}]") for index, item in enumerate(listed))
    doubled = [mark for mark, number in Counter(entry.fingerprint for entry in entries).items() if number > 1]
    if doubled:
        raise InputError(f"the fingerprint {doubled[0]!r} stands there twice", place=str(file), remedy=_AGAIN)
    return entries


def write_baseline(entries: Iterable[BaselineEntry], file: Path) -> None:
    """Write a baseline whole or not at all, one entry a line. Errors: ``InputError`` where it cannot be written."""
    rows = [json.dumps(_row(entry), ensure_ascii=True) for entry in _ordered(entries)]
    body = ",\n  ".join(rows)
    listed = f"\n  {body}\n " if rows else ""
    text = f'{{\n "schema": "{SCHEMA}",\n "entries": [{listed}]\n}}\n'
    try:
        replace_file(file, text.encode())
    except (OSError, ValueError) as error:
        detail = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"the baseline cannot be written: {detail}", place=str(file)) from error


def _row(entry: BaselineEntry) -> dict[str, Any]:
    row = asdict(entry)
    if entry.count == 1:
        del row["count"]
    return row


_TYPES: Final[Mapping[str, type]] = {name.name: int if name.name == "count" else str for name in fields(BaselineEntry)}
_OPTIONAL: Final = frozenset({"boundary", "count"})


def _read_entry(item: object, place: str) -> BaselineEntry:
    if not isinstance(item, dict):
        raise InputError("an entry is an object", place=place, remedy=_AGAIN)
    for key, value in item.items():
        kind = _TYPES.get(key)
        if kind is None:
            raise InputError(f"unknown key {key!r}", place=place, remedy=f"known keys: {', '.join(_TYPES)}")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(f"{key!r} is {value!r}"[:100], place=place, remedy=f"it must be a {kind.__name__}")
    for key in _TYPES:
        if key not in item and key not in _OPTIONAL:
            raise InputError(f"the entry has no {key!r}", place=place, remedy=_AGAIN)
    entry = BaselineEntry(**item)
    if not entry.reason.strip():
        raise InputError("the entry gives no reason", place=place, remedy="say why the finding is accepted")
    if entry.count < 1:
        raise InputError(f"'count' is {entry.count}", place=place, remedy="it must be at least 1")
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", entry.added) or not _is_day(entry.added):
        raise InputError(f"'added' is {entry.added[:40]!r}", place=place, remedy="it must be a date: YYYY-MM-DD")
    return entry


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _grouped(findings: Iterable[Finding]) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    for finding in findings:
        if finding.code not in _REFUSED:
            group = groups.setdefault(finding.fingerprint, _Group())
            group.findings.append(finding)
            group.places[finding.place] = None
    return groups


def _entry(group: _Group, folder: Path, base: Path, reason: str, day: str) -> BaselineEntry:
    finding = group.findings[0]
    return BaselineEntry(
        fingerprint=finding.fingerprint,
        code=finding.code,
        file=_relative(finding.place.file, folder, base),
        function=_function(finding),
        text=finding.text,
        reason=reason,
        added=day,
        boundary=finding.boundary,
        count=len(group.places),
    )


def _function(finding: Finding) -> str:
    """The function's name within its module: the module's own name changes when a file moves."""
    if not finding.call_path:
        return ""
    parts = finding.call_path[-1].function.split(".")
    names = finding.place.file.removesuffix(".py").removesuffix("/__init__").split("/")
    head = next((size for size in range(len(parts) - 1, 0, -1) if parts[:size] == names[-size:]), 0)
    return ".".join(parts[head:])


def _relative(file: str, folder: Path, base: Path) -> str:
    return shown_path(base / file, folder)


def _by_function(entry: BaselineEntry) -> tuple[str, ...]:
    return entry.code, entry.function, entry.text


def _by_file(entry: BaselineEntry) -> tuple[str, ...]:
    return entry.code, entry.file, entry.text


def _by_text(entry: BaselineEntry) -> tuple[str, ...]:
    return entry.code, entry.text


def _moved(
    named: Any,
    entries: list[BaselineEntry],
    groups: dict[str, _Group],
    left: dict[str, int],
    taken: Counter[str],
    kept: list[BaselineEntry],
    folder: Path,
    base: Path,
) -> list[BaselineEntry]:
    """Give entries without a finding to findings without an entry that differ in name or place alone."""
    free: dict[tuple[str, ...], list[str]] = {}
    for mark, group in groups.items():
        if left[mark]:
            free.setdefault(named(_entry(group, folder, base, "", "")), []).append(mark)
    rest: list[BaselineEntry] = []
    for entry in entries:
        number = entry.count
        for mark in free.get(named(entry), ()) if entry.text else ():
            some = min(number, left[mark])
            if some:
                left[mark] -= some
                taken[mark] += some
                number -= some
                kept.append(replace(_entry(groups[mark], folder, base, entry.reason, entry.added), count=some))
        if number:
            rest.append(replace(entry, count=number))
    return rest


def _merged(entries: Iterable[BaselineEntry]) -> list[BaselineEntry]:
    """One entry per fingerprint; the older reason stays."""
    found: dict[str, BaselineEntry] = {}
    for entry in sorted(entries, key=lambda item: item.added):
        old = found.get(entry.fingerprint)
        found[entry.fingerprint] = entry if old is None else replace(old, count=old.count + entry.count)
    return list(found.values())


def _ordered(entries: Iterable[BaselineEntry]) -> tuple[BaselineEntry, ...]:
    def key(entry: BaselineEntry) -> tuple[str, ...]:
        return entry.file, entry.code, entry.function, entry.text, entry.fingerprint

    return tuple(sorted(entries, key=key))
