"""Guides: pages about a whole subject, printed by ``capaudit explain SUBJECT``."""

from __future__ import annotations

from capaudit.knowledge.loader import rules_folder


def guide_names() -> tuple[str, ...]:
    """Names of the guides, sorted."""
    return tuple(sorted(path.stem for path in (rules_folder() / "guides").glob("*.md")))


def guide(name: str) -> str | None:
    """Return a guide's text, or ``None`` where there is none of that name. Errors: ``OSError``."""
    if name not in guide_names():
        return None
    return (rules_folder() / "guides" / f"{name}.md").read_text(encoding="utf-8")
