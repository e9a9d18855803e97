"""Equal tests decide equally: what one ``if`` certainly wrote is written where a later one asks the same again.

Joining the ends of an ``if`` keeps what both branches wrote. A tick often writes under ``if self.particles:``
and reads under another ``if self.particles:``; the two go together as long as nothing that they ask
about changes in between.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capaudit.audit.values import Value
from capaudit.program import walk

if TYPE_CHECKING:
    from capaudit.audit.frame import Environment, Frame

_MARK = ".then "
_KEPT = (".w", _MARK)
_STEADY = (
    ast.Name,
    ast.Attribute,
    ast.Constant,
    ast.Compare,
    ast.UnaryOp,
    ast.BoolOp,
    ast.cmpop,
    ast.unaryop,
    ast.boolop,
    ast.expr_context,
)


@dataclass(frozen=True, slots=True)
class Branch:
    """What a branch certainly wrote (keys of the environment) and the facts under which it runs."""

    facts: frozenset[str]
    written: tuple[str, ...]
    roots: tuple[tuple[str, Value | None], ...]
    attributes: frozenset[str]
    host_writes: int


def remember(frame: Frame, node: ast.If, wanted: bool, before: Environment, ends: list[Environment]) -> None:
    """Keep what the first of two branches wrote and the other did not, under the facts that lead to it."""
    if frame.env is None or len(ends) != 2:
        return
    one, other = ends if wanted else ends[::-1]
    written = tuple(key for key in one if key.startswith(_KEPT) and key not in before and key not in other)
    facts = known(node.test, wanted)
    if not written or not facts:
        return
    names = {inner.id for inner in walk(node.test) if isinstance(inner, ast.Name)}
    mark = f"{_MARK}{id(node)} {wanted}"
    frame.branches[mark] = Branch(
        facts,
        written,
        tuple((name, before.get(name)) for name in sorted(names)),
        frozenset(inner.attr for inner in walk(node.test) if isinstance(inner, ast.Attribute)),
        len(frame.host_writes),
    )
    frame.env[mark] = ()


def recall(frame: Frame) -> None:
    """Write again what earlier branches wrote under facts that hold where the frame stands now."""
    env = frame.env
    if env is None or not frame.branches:
        return
    facts: frozenset[str] | None = None
    queue = [key for key in env if key.startswith(_MARK)]
    for mark in queue:
        branch = frame.branches.get(mark)
        if branch is None or all(key in env for key in branch.written):
            continue
        if facts is None:
            facts = frozenset(fact for test, wanted in frame.holding for fact in known(test, wanted))
        if not branch.facts <= facts or not _steady(frame, env, branch):
            continue
        for key in branch.written:
            if key not in env:
                env[key] = ()
                if key.startswith(_MARK):
                    queue.append(key)


def _steady(frame: Frame, env: Environment, branch: Branch) -> bool:
    if any(env.get(name) is not value for name, value in branch.roots):
        return False
    return not any(cell.name in branch.attributes for cell, _ in frame.host_writes[branch.host_writes :])


def known(test: ast.expr, wanted: bool) -> frozenset[str]:
    """The facts that hold where a test has a truth value, as text; none for a test that calls something."""
    key = "_facts_true" if wanted else "_facts_false"
    found: frozenset[str] | None = test.__dict__.get(f"capaudit{key}")
    if found is None:
        found = frozenset(_facts(test, wanted))
        setattr(test, f"capaudit{key}", found)
    return found


def _facts(test: ast.expr, wanted: bool) -> list[str]:
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return _facts(test.operand, not wanted)
        case ast.BoolOp() if isinstance(test.op, ast.And) == wanted:
            return [fact for operand in test.values for fact in _facts(operand, wanted)]
        case _:
            if not all(isinstance(inner, _STEADY) for inner in walk(test)):
                return []
            return [f"{ast.unparse(test)} is {wanted}"]
