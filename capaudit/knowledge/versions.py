"""Version ranges of knowledge entries: the small part of PEP 440 that they need, without a dependency.

A range is a comma-separated list of bounds (``>=2.0,<2.14``); every bound must hold. Local parts
(``+cu130``) are ignored, pre-releases sort before their release, and a missing part counts as zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)[-_.]?((?:a|b|rc|alpha|beta|dev|pre)\d*)?", re.IGNORECASE)
_BOUND = re.compile(r"(>=|<=|==|!=|>|<)\s*(\S+)")

Key = tuple[tuple[int, ...], int]
"""Sort key: release numbers without trailing zeros, then 0 for a pre-release and 1 for the release."""


@lru_cache(maxsize=1024)
def version_key(text: str) -> Key:
    """Return the sort key of one version. Errors: ``ValueError`` when the text does not start with a number."""
    match = _VERSION.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a version")
    numbers = [int(part) for part in match.group(1).split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), 0 if match.group(2) else 1


@dataclass(frozen=True, slots=True)
class VersionRange:
    """A set of versions; ``text`` is the range as it was written, ``""`` admits every version."""

    text: str
    bounds: tuple[tuple[str, Key], ...]

    def contains(self, version: str) -> bool:
        """Return whether the range admits ``version``. Errors: ``ValueError`` for text that is no version."""
        key = version_key(version)
        return all(_holds(operator, key, bound) for operator, bound in self.bounds)


def _holds(operator: str, key: Key, bound: Key) -> bool:
    if operator == ">=":
        return key >= bound
    if operator == ">":
        return key > bound
    if operator == "<=":
        return key <= bound
    if operator == "<":
        return key < bound
    return (key == bound) == (operator == "==")


@lru_cache(maxsize=1024)
def parse_range(text: str) -> VersionRange:
    """Read ``">=2.0,<2.14"``. Errors: ``ValueError`` names the bound that is not understood."""
    bounds = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _BOUND.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not a version bound such as >=2.0")
        bounds.append((match.group(1), version_key(match.group(2))))
    return VersionRange(text, tuple(bounds))
