"""Loading ``rules/``: the shipped pages and tables, and the tables that a user adds."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from capaudit.cache import store
from capaudit.knowledge.catalogue import Catalogue
from capaudit.knowledge.operation import Operation
from capaudit.knowledge.pages import PlainPage, build_rule, parse_page
from capaudit.knowledge.rule import Rule
from capaudit.knowledge.tables import PlainEntry, parse_table
from capaudit.model import ConfigurationError, InputError

Plain = tuple[tuple[tuple[str, PlainPage], ...], tuple[PlainEntry, ...]]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Everything that the audit knows about hazards and library operations.

    ``operations`` maps every exact qualified name to its entry. ``rules`` maps codes, ``rule_names``
    maps kebab names and aliases to codes.
    """

    operations: Catalogue
    rules: dict[str, Rule]
    rule_names: dict[str, str]

    def operation(self, name: str) -> Operation | None:
        """The entry of a qualified name: the exact one, else the longest wildcard that covers it."""
        return self.operations.find(name)

    def rule(self, selector: str) -> Rule | None:
        """The rule with this code, name or alias; codes are accepted in any case."""
        code = self.rule_names.get(selector, selector.upper())
        return self.rules.get(code)

    @property
    def entries(self) -> tuple[Operation, ...]:
        """Every entry once, ordered by its first name."""
        return self.operations.entries()


def rules_folder() -> Path:
    """The folder of pages, ``operations`` and ``idioms``: inside the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "rules"
    return inside if inside.is_dir() else package.parent / "rules"


def load(extra: Sequence[Path] = (), *, folder: Path | None = None, cache_folder: Path | None = None) -> Knowledge:
    """Load the shipped knowledge and the user's ``extra`` tables.

    ``folder`` replaces the shipped folder (tests), ``cache_folder`` the user's cache folder. Errors:
    ``ConfigurationError`` with file and key for a table that does not validate or names an operation
    twice, ``InputError`` for a file that cannot be read.
    """
    global _shipped
    root = folder or rules_folder()
    pages = [(path, _read(path)) for path in sorted(root.glob("*.md"))]
    tables = [(path, _read(path)) for path in sorted((root / "operations").glob("*.toml"))]
    if not pages or not tables:
        raise InputError("the knowledge folder has no rule pages or no operation tables", place=str(root))
    sources = [(f"{root.name}/{path.relative_to(root).as_posix()}", text) for path, text in (*pages, *tables)]
    sources += [(_shown(path), _read(path)) for path in extra]

    # Thousands of small immutable objects are born here and none dies: collection would be wasted work.
    collecting = gc.isenabled()
    gc.disable()
    try:
        key = store.content_key([*_parser_sources(), *((name, text.encode()) for name, text in sources)])
        plain = cast("Plain | None", store.read("knowledge", key, cache_folder))
        if plain is None:
            plain = _parse(sources, len(pages))
            store.write("knowledge", key, plain, cache_folder)
        knowledge = _assemble(plain, [str(path) for path, _ in pages])
        if folder is None:
            _shipped = knowledge.rules
        return knowledge
    finally:
        if collecting:
            gc.enable()


_shipped: dict[str, Rule] | None = None


def shipped_rules() -> dict[str, Rule]:
    """The shipped rules by code, from what this process has loaded already where it has."""
    return load().rules if _shipped is None else _shipped


def _parser_sources() -> Iterable[tuple[str, bytes]]:
    """The code that turns tables into plain values: what an older parser stored must not be read back."""
    folder = Path(__file__).resolve().parent
    for name in ("tables.py", "pages.py", "operation.py"):
        path = folder / name
        yield name, path.read_bytes() if path.is_file() else b""


def _parse(sources: list[tuple[str, str]], page_count: int) -> Plain:
    pages = tuple((name, parse_page(text, name)) for name, text in sources[:page_count])
    _reject_duplicate_rules(pages)
    codes = frozenset(page[0] for _, page in pages)
    entries: list[PlainEntry] = []
    for name, text in sources[page_count:]:
        entries.extend(parse_table(text, name, codes))
    _reject_duplicate_operations(entries)
    return pages, tuple(entries)


def _assemble(plain: Plain, page_paths: list[str]) -> Knowledge:
    pages, entries = plain
    rules = [build_rule(page, path) for (_, page), path in zip(pages, page_paths, strict=True)]
    rules.sort(key=lambda rule: rule.code)
    return Knowledge(
        Catalogue(entries),
        {rule.code: rule for rule in rules},
        {name: rule.code for rule in rules for name in (rule.name, *rule.aliases)},
    )


def _reject_duplicate_rules(pages: Iterable[tuple[str, PlainPage]]) -> None:
    seen: dict[str, str] = {}
    for file, (code, name, _, _, _, _, aliases, _) in pages:
        for text in (code, name, *aliases):
            if text in seen:
                raise ConfigurationError(f"{text!r} already belongs to {seen[text]}", place=file)
            seen[text] = file


def _reject_duplicate_operations(entries: Iterable[PlainEntry]) -> None:
    seen: dict[str, str] = {}
    for entry in entries:
        names, table = entry[0], entry[-1]
        for name in names:
            if name in seen:
                raise ConfigurationError(
                    f"{name!r} already has an entry in {seen[name]}",
                    place=f"{table}: op ({names[0]})",
                    remedy="keep one entry per operation and put the difference into its cases",
                )
            seen[name] = table


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read the knowledge file: {error.strerror}", place=_shown(path)) from error
    except UnicodeDecodeError as error:
        raise InputError("the knowledge file is not UTF-8", place=_shown(path)) from error


def _shown(path: Path) -> str:
    return path.as_posix()
