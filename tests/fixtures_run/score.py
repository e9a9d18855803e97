"""Print the score of the fixtures: ``python -m tests.fixtures_run.score``; status 1 when anything is wrong."""

from __future__ import annotations

import sys
from collections import Counter

from .test_fixtures import judge, name_of, programs


def main() -> int:
    """Judge every program and print problems, counts and open todos."""
    counts: Counter[str] = Counter()
    for program in programs():
        comparison = judge(program)
        counts["right" if not comparison.problems else "wrong"] += 1
        counts["missing"] += len(comparison.missing)
        counts["surplus"] += len(comparison.surplus)
        counts["todos open"] += comparison.open_todos
        counts["todos settled"] += len(comparison.settled_todos)
        for problem in comparison.problems:
            print(f"{name_of(program)}: {problem}")
    print(", ".join(f"{name} {counts[name]}" for name in ("right", "wrong", "missing", "surplus", "todos open")))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
