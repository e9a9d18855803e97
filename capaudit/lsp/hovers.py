"""What an editor shows under the pointer: the finding in full, and the page of its rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from capaudit.knowledge import Knowledge, Rule
from capaudit.model import Finding
from capaudit.report.markdown import code
from capaudit.report.sentences import cause, path_line

_SELECTOR: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


def finding_hover(findings: Iterable[Finding], knowledge: Knowledge) -> str:
    """Return the findings at one place as Markdown, each with its rule's page."""
    blocks = []
    for finding in findings:
        lines = [f"**{finding.code} {finding.name}** ({finding.confidence.value})", "", cause(finding), ""]
        path = path_line(finding)
        if path:
            lines += [f"Reached by: {code(path)}", ""]
        lines += [f"- {text}" for text in finding.why]
        if finding.remedy:
            lines += ["", f"Instead: {finding.remedy}"]
        rule = knowledge.rule(finding.code)
        if rule is not None:
            lines += ["", "---", "", page(rule)]
        blocks.append("\n".join(lines))
    return "\n\n---\n\n".join(blocks)


def comment_hover(line: str, column: int, knowledge: Knowledge) -> str | None:
    """Return the page of the rule that a ``# capaudit:`` comment names at this column."""
    start = line.find("capaudit:")
    if start < 0 or column < start:
        return None
    for word in _SELECTOR.finditer(line, start):
        if word.start() <= column <= word.end() and (rule := knowledge.rule(word[0])) is not None:
            return page(rule)
    return None


def page(rule: Rule) -> str:
    """Return a rule's page as Markdown, with its title and remedy before the prose."""
    head: Sequence[str] = (
        f"### {rule.code} {rule.name}",
        f"{rule.title}: {rule.message}.",
        f"**Instead:** {rule.remedy}",
    )
    return "\n\n".join([*head, rule.page.strip()])
