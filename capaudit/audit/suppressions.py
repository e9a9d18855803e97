"""``# capaudit: ignore[...] -- reason``: what it silences, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from capaudit.audit.verdicts import fingerprint
from capaudit.knowledge import Knowledge
from capaudit.model import Confidence, Finding, OwnershipClass, Place
from capaudit.program import Module, Program
from capaudit.program.comments import CapauditComment


@dataclass(slots=True)
class _Suppression:
    comment: CapauditComment
    module: Module
    codes: frozenset[str]
    first: int
    last: int
    used: bool = False


def apply_suppressions(
    program: Program, findings: list[Finding], knowledge: Knowledge, audited_lines: dict[str, list[tuple[int, int]]]
) -> list[Finding]:
    """Drop suppressed findings; add CAP902 for unused and CAP903 for reasonless comments.

    ``audited_lines`` holds, per file, the line spans of reachable functions: a comment elsewhere has
    nothing to suppress in this run and is not called unused.
    """
    suppressions: dict[str, list[_Suppression]] = {}
    result: list[Finding] = []
    for module in program.modules.values():
        for comment in program.comments(module):
            if comment.word == "ignore":
                made, problems = _read(comment, module, knowledge)
                result.extend(problems)
                if made is not None:
                    suppressions.setdefault(module.file, []).append(made)
    for finding in findings:
        silenced = False
        for suppression in suppressions.get(finding.place.file, ()):
            span = (finding.statement.line, finding.statement.end_line)
            if finding.code in suppression.codes and _covers(suppression, span):
                suppression.used = silenced = True
        if not silenced:
            result.append(finding)
    for file, group in suppressions.items():
        spans = audited_lines.get(file, [])
        for suppression in group:
            line = suppression.comment.line
            if not suppression.used and any(first <= line <= last for first, last in spans):
                result.append(
                    comment_finding(
                        "CAP902",
                        suppression.module,
                        suppression.comment,
                        "nothing on this statement is rejected for " + ", ".join(suppression.comment.rules),
                        knowledge,
                    )
                )
    return result


def _read(comment: CapauditComment, module: Module, knowledge: Knowledge) -> tuple[_Suppression | None, list[Finding]]:
    problems: list[Finding] = []
    codes: set[str] = set()
    for selector in comment.rules:
        rule = knowledge.rule(selector)
        if rule is None:
            problems.append(
                comment_finding(
                    "CAP902", module, comment, f"{selector!r} is no rule, so the comment suppresses nothing", knowledge
                )
            )
        else:
            codes.add(rule.code)
    if not comment.rules:
        problems.append(
            comment_finding(
                "CAP902", module, comment, "a suppression names its rules: ignore[rule-name] -- reason", knowledge
            )
        )
    if comment.reason is None:
        problems.append(
            comment_finding("CAP903", module, comment, "a suppression without a reason does not count", knowledge)
        )
        return None, problems
    first = last = comment.line
    if comment.own_line:
        last = _next_code_line(module, comment.line)
    return (_Suppression(comment, module, frozenset(codes), first, last) if codes else None), problems


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
    place = Place(module.file, comment.line, comment.column, comment.line, comment.column + 10)
    return meta_finding(code, rule.name, place, message, rule.remedy)


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
