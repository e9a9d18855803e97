"""The list of rules as text, JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence

from capaudit.knowledge import Rule
from capaudit.report.markdown import code, table

SCHEMA = "capaudit-rules/1"


def render_text(rules: Sequence[Rule]) -> str:
    """Return one line per rule: code, name, class, title."""
    widths = [max((len(value(rule)) for rule in rules), default=0) for value in (_code, _name, _class)]
    lines = [
        "  ".join(value(rule).ljust(width) for value, width in zip((_code, _name, _class), widths, strict=True))
        + f"  {rule.title}"
        for rule in rules
    ]
    return "\n".join(lines) + "\n"


def render_json(rules: Sequence[Rule]) -> str:
    """Return the rules as a JSON document, ``capaudit-rules/1``."""
    document = {
        "schema": SCHEMA,
        "rules": [
            {
                "code": rule.code,
                "name": rule.name,
                "class": rule.ownership,
                "title": rule.title,
                "message": rule.message,
                "remedy": rule.remedy,
                "aliases": list(rule.aliases),
            }
            for rule in rules
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def render_markdown(rules: Sequence[Rule]) -> str:
    """Return a reference: the overview table, then each page."""
    overview = table(
        ("Code", "Name", "Class", "What"), ((rule.code, code(rule.name), rule.ownership, rule.title) for rule in rules)
    )
    pages = "\n".join(f"## {rule.code} {rule.name}\n\n{rule.title}.\n\n{rule.page.strip()}\n" for rule in rules)
    return f"# Rules\n\n{overview}\n{pages}"


def _code(rule: Rule) -> str:
    return rule.code


def _name(rule: Rule) -> str:
    return rule.name


def _class(rule: Rule) -> str:
    return rule.ownership
