"""Expectation comments of fixtures, read with ``tokenize`` so that strings never count as comments.

Grammar, one comment a line (``;`` or another ``#`` begins the next clause)::

    # expect: CAP103                      a rejected finding of this code stands on this line
    # expect: CAP101 | CAP202             either code will do (the hazards overlap on purpose)
    # expect: CAP101, CAP103              both codes stand here
    # expect: CAP103 via A.b > C.d        and its call path ends in these functions, in this order
    # accept: CAP501                      the finding expected nearby may stand here instead
    # todo-miss: CAP103 reason            known wrong: should be flagged here, is not
    # todo-false: CAP103 reason           known wrong: is flagged here, should not be
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path

_CLAUSE = re.compile(r"^(expect|accept|todo-miss|todo-false):\s*(.*)$")
_CODE = re.compile(r"(?:CAP|ORD)\d{3}\b")


class ExpectationError(ValueError):
    """A fixture comment does not follow the grammar; the message holds file and line."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One clause: ``codes`` are alternatives, ``via`` the dotted functions of the path's end."""

    kind: str
    file: str
    line: int
    codes: frozenset[str]
    via: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        path = f" via {' > '.join(self.via)}" if self.via else ""
        return f"{self.file}:{self.line}: {'|'.join(sorted(self.codes))}{path}"


def parse_source(source: str, file: str) -> tuple[Expectation, ...]:
    """Return the expectations of one file's text, in line order.

    Errors: ExpectationError for a clause without a code, with a broken ``via`` or a todo without a reason.
    """
    found: list[Expectation] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        for clause in re.split("[;#]", token.string):
            match = _CLAUSE.match(clause.strip())
            if match:
                found.extend(_parse_clause(match.group(1), match.group(2).strip(), file, token.start[0]))
    return tuple(found)


def parse_tree(root: Path, relative_to: Path) -> tuple[Expectation, ...]:
    """Return the expectations of a file, or of every Python file below a folder."""
    files = [root] if root.is_file() else sorted(root.rglob("*.py"))
    found: list[Expectation] = []
    for path in files:
        found.extend(parse_source(path.read_text(encoding="utf-8"), path.relative_to(relative_to).as_posix()))
    return tuple(found)


def _parse_clause(kind: str, body: str, file: str, line: int) -> list[Expectation]:
    where = f"{file}:{line}"
    if kind.startswith("todo-"):
        code, _, reason = body.partition(" ")
        if not _CODE.fullmatch(code) or not reason.strip():
            raise ExpectationError(f"{where}: write '# {kind}: CAPxxx reason', not '{body}'")
        return [Expectation(kind, file, line, frozenset({code}), reason=reason.strip())]
    codes, has_via, path = body.partition(" via ")
    via = tuple(part.strip() for part in path.split(">")) if has_via else ()
    if has_via and not all(via):
        raise ExpectationError(f"{where}: the call path after 'via' has an empty step")
    clauses = []
    for group in codes.split(","):
        names = [name.strip() for name in group.split("|")]
        if not all(_CODE.fullmatch(name) for name in names):
            raise ExpectationError(f"{where}: '{group.strip()}' is no hazard code")
        clauses.append(Expectation(kind, file, line, frozenset(names), via))
    return clauses
