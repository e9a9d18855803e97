"""Compare what an audit found with what a fixture's comments expect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .expectations import Expectation

ACCEPT_REACH = 12
"""Lines between an expectation and the other place where its finding may stand instead."""


@dataclass(frozen=True, slots=True)
class Found:
    """One rejected finding, reduced to what a comparison needs; lines are those of its statement."""

    code: str
    file: str
    line: int
    end_line: int
    path: tuple[str, ...]

    def covers(self, expectation: Expectation) -> bool:
        """Whether code and statement span fit; the call path is judged apart."""
        inside = self.file == expectation.file and self.line <= expectation.line <= self.end_line
        return inside and self.code in expectation.codes

    def follows(self, via: tuple[str, ...]) -> bool:
        """Whether the call path ends in the functions of ``via``, named by their last components."""
        tail = self.path[-len(via) :] if via else ()
        return len(tail) == len(via) and all(
            have == want or have.endswith(("." + want, ":" + want)) for have, want in zip(tail, via, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict on one program: lines for people, empty when all is as expected."""

    missing: tuple[str, ...]
    surplus: tuple[str, ...]
    settled_todos: tuple[str, ...]
    open_todos: int

    @property
    def problems(self) -> tuple[str, ...]:
        return self.missing + self.surplus + self.settled_todos


def compare(found: Iterable[Found], expectations: Iterable[Expectation]) -> Comparison:
    """Match findings with expectations by line.

    Every expectation needs a finding and every finding an expectation; a todo that has come right
    is a problem as well, so that it gets removed.
    """
    findings = tuple(found)
    wanted = tuple(expectations)
    by_kind = {kind: [e for e in wanted if e.kind == kind] for kind in ("expect", "accept", "todo-miss", "todo-false")}
    accepted_at = [e for e in by_kind["accept"] if any(f.covers(e) for f in findings)]

    missing = []
    for expectation in by_kind["expect"]:
        here = [f for f in findings if f.covers(expectation)]
        if here and not any(f.follows(expectation.via) for f in here):
            paths = sorted(" > ".join(f.path) for f in here)
            missing.append(f"other path at {expectation}: found {'; '.join(paths)}")
        if not here and not _stands_nearby(expectation, accepted_at):
            missing.append(f"missing {expectation}")

    explained = by_kind["expect"] + by_kind["accept"] + by_kind["todo-false"] + by_kind["todo-miss"]
    unexplained = [f for f in findings if not any(f.covers(e) for e in explained)]
    surplus = sorted({f"surplus {f.file}:{f.line}: {f.code}" for f in unexplained})

    settled = [f"todo-miss is found now, expect it: {e}" for e in by_kind["todo-miss"] if _any(findings, e)]
    settled += [f"todo-false is silent now, remove it: {e}" for e in by_kind["todo-false"] if not _any(findings, e)]
    todos = len(by_kind["todo-miss"]) + len(by_kind["todo-false"])
    return Comparison(tuple(missing), tuple(surplus), tuple(settled), todos - len(settled))


def _any(findings: tuple[Found, ...], expectation: Expectation) -> bool:
    return any(f.covers(expectation) for f in findings)


def _stands_nearby(expectation: Expectation, accepted: list[Expectation]) -> bool:
    return any(
        other.file == expectation.file
        and other.codes & expectation.codes
        and abs(other.line - expectation.line) <= ACCEPT_REACH
        for other in accepted
    )
