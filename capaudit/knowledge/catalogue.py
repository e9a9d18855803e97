"""The catalogue of operations: names to entries, where an entry is built when it is first asked for.

A check looks up a few hundred of several thousand names, and building all entries would cost more
than reading them from the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from capaudit.knowledge.operation import Operation
from capaudit.knowledge.tables import PlainEntry, build


class Catalogue(Mapping[str, Operation]):
    """Entries by exact qualified name; ``find`` knows wildcard names too. Immutable to its users."""

    def __init__(self, entries: Sequence[PlainEntry]) -> None:
        self._entries = entries
        self._built: list[Operation | None] = [None] * len(entries)
        self._exact: dict[str, int] = {}
        self._families: dict[str, int] = {}
        partial = []
        for position, entry in enumerate(entries):
            for name in entry[0]:
                if not name.endswith("*"):
                    self._exact[name] = position
                elif name.endswith(".*"):
                    self._families[name[:-1]] = position
                else:
                    partial.append((name[:-1], position))
        self._partial = tuple(sorted(partial, key=lambda family: (-len(family[0]), family[0])))

    def find(self, name: str) -> Operation | None:
        """The entry of a qualified name: the exact one, else the longest wildcard that covers it."""
        position = self._exact.get(name)
        if position is None:
            position = self._family(name)
        return None if position is None else self._at(position)

    def entries(self) -> tuple[Operation, ...]:
        """Every entry once, ordered by its first name."""
        found = [self._at(position) for position in range(len(self._entries))]
        return tuple(sorted(found, key=lambda entry: entry.name))

    def _family(self, name: str) -> int | None:
        prefix = name.rpartition(".")[0]
        # A wildcard inside the last component (warp.is_*) is longer than any that ends in a dot above it.
        for partial, position in self._partial:
            if name.startswith(partial) and len(partial) > len(prefix):
                return position
        while prefix:
            position_or_none = self._families.get(f"{prefix}.")
            if position_or_none is not None:
                return position_or_none
            prefix = prefix.rpartition(".")[0]
        return None

    def _at(self, position: int) -> Operation:
        operation = self._built[position]
        if operation is None:
            operation = self._built[position] = build(self._entries[position])
        return operation

    def __getitem__(self, name: str) -> Operation:
        return self._at(self._exact[name])

    def __contains__(self, name: object) -> bool:
        return name in self._exact

    def __iter__(self) -> Iterator[str]:
        return iter(self._exact)

    def __len__(self) -> int:
        return len(self._exact)
