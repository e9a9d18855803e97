"""Who wrote a line: launchers, containers and loggers put rank, time and level before it."""

from __future__ import annotations

import re
from typing import Final

# Whole prefixes that come before the text of a rank; each names the rank or process in a group.
_RANKS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"\[(?:default|rank|Rank )?(?P<who>\d{1,5})\]:? ?",  # torchrun --tee, torch's own "[rank0]:"
        r"\[(?P<who>\d+,\d+)\]<(?:stdout|stderr|stddiag)>: ?",  # mpirun --tag-output
        r"(?P<who>\d{1,5}): ",  # srun --label
        r"\((?P<who>[\w. :-]{1,60}pid=\d+(?:, ip=[\d.]+)?)\) ?",  # Ray
        r"(?P<who>[\w.-]{1,60}) +\| ",  # docker compose
        r"\[pod/(?P<who>[^\]\s]{1,100})\] ",  # kubectl logs --prefix
    )
)

# What may stand before or after the rank and says nothing about the message.
_NOISE: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?:? (?=\S|  )",
        r"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?:? ",
    )
)
_MOST: Final = 3
_BEGINNINGS: Final = frozenset("[(0123456789")


def split_prefix(line: str) -> tuple[str, str]:
    """Return who wrote the line (empty where nothing says so) and what was written.

    Times are taken off on both sides of the rank. Blanks before the text stay, because they are the
    structure of a traceback.
    """
    who = ""
    if line[:1] not in _BEGINNINGS and " | " not in line[:64]:
        return who, line  # most lines: no expression has to be tried
    for _ in range(_MOST):
        stripped = _without(line, _NOISE)
        found = next((match for pattern in _RANKS if not who and (match := pattern.match(stripped))), None)
        if found is not None:
            who, stripped = found["who"], stripped[found.end() :]
        if stripped == line:
            break
        line = stripped
    return who, line


def _without(line: str, patterns: tuple[re.Pattern[str], ...]) -> str:
    for pattern in patterns:
        match = pattern.match(line)
        if match is not None:
            return line[match.end() :]
    return line
