"""``# capaudit: ignore[...] -- reason``: what it silences, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date

from capaudit.audit.verdicts import fingerprint
from capaudit.knowledge import Knowledge
from capaudit.model import Confidence, Finding, OwnershipClass, Place, Suppression
from capaudit.program import Module, Program
from capaudit.program.comments import CapauditComment


@dataclass(slots=True)
class _Suppression:
    comment: CapauditComment
    module: Module
    codes: dict[str, str]  # by the rule as it is written
    first: int
    last: int
    expires: str | None
    used: dict[str, None] = field(default_factory=dict)

    def record(self) -> Suppression:
        """The comment as a report names it."""
        place = _place(self.module, self.comment)
        return Suppression(place, self.comment.rules, self.comment.reason or "", self.expires)


def apply_suppressions(
    program: Program,
    findings: list[Finding],
    knowledge: Knowledge,
    audited_lines: dict[str, list[tuple[int, int]]],
    today: str,
) -> tuple[list[Finding], list[Finding]]:
    """Part findings into kept and suppressed ones; CAP902 for idle and expired, CAP903 for reasonless comments.

    ``audited_lines`` holds, per file, the line spans of reachable functions, decorators included: a comment on
    code elsewhere has nothing to suppress in this run and is not called unused. ``today`` is an ISO date.
    """
    suppressions: dict[str, list[_Suppression]] = {}
    kept: list[Finding] = []
    silenced: list[Finding] = []
    for module in program.modules.values():
        for comment in program.comments(module):
            if comment.word == "ignore":
                made, problems = _read(comment, module, knowledge, today)
                kept.extend(problems)
                if made is not None:
                    suppressions.setdefault(module.file, []).append(made)
    for finding in findings:
        record: Suppression | None = None
        for suppression in suppressions.get(finding.place.file, ()):
            span = (finding.statement.line, finding.statement.end_line)
            if finding.code in suppression.codes.values() and _covers(suppression, span):
                suppression.used[finding.code] = None
                record = record or suppression.record()
        if record is not None:
            silenced.append(replace(finding, suppression=record))
        else:
            kept.append(finding)
    for file, group in suppressions.items():
        spans = audited_lines.get(file, [])
        for suppression in group:
            line = suppression.last
            # Order rules look at whole files and partly on request, so that nothing says a comment of theirs is idle.
            unused = {rule: code for rule, code in suppression.codes.items() if code not in suppression.used}
            idle = [rule for rule, code in unused.items() if not code.startswith("ORD")]
            if idle and any(first <= line <= last for first, last in spans):
                message = f"nothing on this statement is rejected for {', '.join(idle)}"
                kept.append(comment_finding("CAP902", suppression.module, suppression.comment, message, knowledge))
    return kept, silenced


def _read(
    comment: CapauditComment, module: Module, knowledge: Knowledge, today: str
) -> tuple[_Suppression | None, list[Finding]]:
    problems: list[Finding] = []

    def idle(message: str) -> None:
        problems.append(comment_finding("CAP902", module, comment, message, knowledge))

    codes: dict[str, str] = {}
    for selector in comment.rules:
        rule = knowledge.rule(selector)
        if rule is None:
            idle(f"{selector!r} is no rule, so the comment suppresses nothing")
        else:
            codes[selector] = rule.code
    if not comment.rules:
        idle("a suppression names its rules: ignore[rule-name] -- reason")
    if comment.reason is None:
        problems.append(
            comment_finding("CAP903", module, comment, "a suppression without a reason does not count", knowledge)
        )
        return None, problems
    expires: str | None = None
    for option in comment.options:
        name, _, value = option.partition("=")
        if name != "until" or not _is_date(value):
            idle(f"{option!r} is no option, so the comment suppresses nothing; an end is written until=YYYY-MM-DD")
            return None, problems
        expires = value
    if expires is not None and expires < today:
        idle(f"the suppression ended with {expires}: settle what it was for, or give it a new end")
        return None, problems
    first = last = comment.line
    if comment.own_line:
        last = _next_code_line(module, comment.line)
    return (_Suppression(comment, module, codes, first, last, expires) if codes else None), problems


def _is_date(text: str) -> bool:
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _next_code_line(module: Module, line: int) -> int:
    lines = module.lines
    for number in range(line, len(lines)):
        text = lines[number].strip()
        if text and not text.startswith("#"):
            return number + 1
    return line


def _covers(suppression: _Suppression, span: tuple[int, int]) -> bool:
    return span[0] <= suppression.last and suppression.first <= span[1]


def comment_finding(code: str, module: Module, comment: CapauditComment, message: str, knowledge: Knowledge) -> Finding:
    """A meta finding about one comment."""
    rule = knowledge.rules[code]
    return meta_finding(code, rule.name, _place(module, comment), message, rule.remedy)


def _place(module: Module, comment: CapauditComment) -> Place:
    return Place(module.file, comment.line, comment.column, comment.line, comment.column + 10)


def meta_finding(code: str, name: str, place: Place, message: str, remedy: str) -> Finding:
    """A finding about the audit itself; it makes a run fail like a rejected operation."""
    mark = fingerprint(code, place.file.rpartition("/")[2], message)
    return Finding(
        code, name, OwnershipClass.REJECTED, None, place, place, message, Confidence.CERTAIN, "", (), (), remedy, mark
    )


def spans(items: Iterable[tuple[str, int, int]]) -> dict[str, list[tuple[int, int]]]:
    """Group line spans by file."""
    result: dict[str, list[tuple[int, int]]] = {}
    for file, first, last in items:
        result.setdefault(file, []).append((first, last))
    return result
