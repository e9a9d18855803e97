"""Selectors checked against the rules there are: a selector that fits nothing would silently select nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from capaudit.knowledge import load
from capaudit.model import InputError


def canonical(selectors: Iterable[str], source: Path | None) -> dict[str, str]:
    """Map each selector to its code (names, old names) or itself in upper case (prefixes of codes).

    Errors: ``InputError`` for one that fits no rule; ``source`` is the configuration it may come from.
    """
    knowledge = load()
    found = {}
    for selector in selectors:
        rule = knowledge.rule(selector)
        if rule is not None:
            found[selector] = rule.code
        elif any(code.startswith(selector.upper()) for code in knowledge.rules):
            found[selector] = selector.upper()
        else:
            raise _unknown(selector, [*knowledge.rules, *knowledge.rule_names], source)
    return found


def _unknown(selector: str, known: list[str], source: Path | None) -> InputError:
    near = difflib.get_close_matches(selector, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "`capaudit rules` lists all codes and names"
    return InputError(f"no rule fits the selector {selector!r}", place=str(source) if source else None, remedy=hint)
