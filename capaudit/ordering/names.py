"""Names of joints and bodies: what a valid list is, how spellings match, and what to say when lists differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

Axis = Literal["joint", "body"]
AXES: tuple[Axis, ...] = ("joint", "body")

_MOST_HINTS = 8
_MOST_COMPARED = 200
"""Beyond this many names on each side nobody reads hints, and comparing all pairs takes seconds."""


def name_problem(names: Sequence[object]) -> tuple[int, str] | None:
    """Return ``(index, what is wrong)`` for the first entry that is no usable name, else ``None``.

    A name is exactly a ``str``, not empty, valid Unicode, and there once. Nothing is normalised: two
    spellings of one letter (NFC and NFD) are two names, because a backend compares them so.
    """
    if _all_usable(names):
        return None
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if type(name) is not str:
            return index, f"{name!r} is a {type(name).__name__}, not a name"
        if not name:
            return index, "the name is empty"
        if not _is_encodable(name):
            return index, f"{name!r} holds half a surrogate pair and cannot be written as UTF-8"
        if name in seen:
            return index, f"{name!r} stands there twice (first at index {seen[name]})"
        seen[name] = index
    return None


def _all_usable(names: Sequence[object]) -> bool:
    """The quick answer for the usual case: no loop in Python over the names."""
    if set(map(type, names)) - {str}:
        return False
    texts = frozenset(names)
    return len(texts) == len(names) and "" not in texts and _is_encodable("".join(map(str, names)))


def _is_encodable(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def canonical_spelling(name: str) -> str:
    """Return the joint's name with ``:`` and ``_`` made equal; backends differ there for multi-DoF joints."""
    return name.replace(":", "_")


def match_spellings(names: Sequence[str], live_names: Sequence[str]) -> tuple[str, ...]:
    """Return joint ``names`` in the spelling of ``live_names``, or unchanged.

    All or nothing, and one to one: names that already agree stay, and so do all where two live names
    share a canonical form, where two stored names would become one, or where a name has no partner.
    """
    stored, live = tuple(names), tuple(live_names)
    if len(stored) != len(live) or frozenset(stored) == frozenset(live):
        return stored
    by_form = {canonical_spelling(name): name for name in live}
    if len(by_form) != len(live):
        return stored
    matched = [by_form.get(canonical_spelling(name)) for name in stored]
    if None in matched or len(frozenset(matched)) != len(live):
        return stored
    return tuple(name for name in matched if name is not None)


def difference(names: Iterable[str], live_names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return ``(missing, extra)``, sorted: live names that are not stored, stored names that are not live."""
    stored, live = frozenset(names), frozenset(live_names)
    return sorted(live - stored), sorted(stored - live)


def near_misses(missing: Sequence[str], extra: Sequence[str]) -> list[str]:
    """Return sentences about stored names that probably mean a live one: prefixes, case, spelling, composition."""
    if not missing or not extra:
        return []
    prefixed = _prefix_hint(missing, extra)
    if prefixed:
        return [prefixed]
    hints: list[str] = []
    left = list(missing)[:_MOST_COMPARED]
    for name in list(extra)[:_MOST_COMPARED]:
        found = _near(name, left)
        if found is not None:
            partner, why = found
            left.remove(partner)
            hints.append(f"stored {ascii_or_plain(name)} may be live {ascii_or_plain(partner)} ({why})")
        if len(hints) == _MOST_HINTS:
            break
    return hints


def ascii_or_plain(name: str) -> str:
    """Return the quoted name, escaped where it is not plain ASCII, so that look-alikes can be told apart."""
    return repr(name) if name.isascii() else ascii(name)


def _prefix_hint(missing: Sequence[str], extra: Sequence[str]) -> str | None:
    if len(missing) != len(extra):
        return None
    longer, shorter, who = (missing, extra, "live") if len(missing[0]) > len(extra[0]) else (extra, missing, "stored")
    for name in shorter:
        if longer[0].endswith(name) and longer[0] != name:
            prefix = longer[0][: -len(name)]
            if frozenset(prefix + other for other in shorter) == frozenset(longer):
                return f"the {who} names carry the prefix {prefix!r}, the others do not"
    return None


def _near(name: str, candidates: Sequence[str]) -> tuple[str, str] | None:
    import difflib
    import unicodedata

    for why, form in (
        ("other Unicode composition", lambda text: unicodedata.normalize("NFC", text)),
        ("':' for '_'", canonical_spelling),
        ("upper and lower case", str.casefold),
        ("space around it", str.strip),
        ("path in front of it", lambda text: text.rpartition("/")[2]),
    ):
        for candidate in candidates:
            if form(candidate) == form(name):
                return candidate, why
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=0.8)
    return (close[0], "similar") if close else None
