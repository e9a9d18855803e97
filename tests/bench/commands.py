"""The programs that are timed, each as a function from a corpus to a command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PARSE = """
import ast, gc, pathlib, sys, warnings
warnings.simplefilter("ignore")
gc.disable()
for root in sys.argv[1:]:
    for file in sorted(pathlib.Path(root).rglob("*.py")):
        try:
            ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):
            pass
"""
SEMGREP_RULE = """rules:
- {id: item, pattern: $X.item(), message: item, languages: [python], severity: WARNING}
"""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sources that are read: ``roots`` go on the command line, ``entries`` say where the audit begins."""

    name: str
    base: Path
    roots: tuple[Path, ...]
    entries: tuple[str, ...]

    @property
    def files(self) -> list[Path]:
        return [file for root in self.roots for file in sorted(root.rglob("*.py"))]

    @property
    def lines(self) -> int:
        return sum(file.read_bytes().count(b"\n") for file in self.files)


def check(corpus: Corpus, *more: str) -> list[str]:
    """An audit from the corpus's entries (discovery where it has none)."""
    entries = [word for entry in corpus.entries for word in ("--entry", entry)]
    return [sys.executable, "-m", "capaudit", "check", "--isolated", *_roots(corpus), *entries, *more]


def parse(corpus: Corpus) -> list[str]:
    """Nothing but ``ast.parse`` over the same files."""
    return [sys.executable, "-c", PARSE, *_roots(corpus)]


def peers(tools: Path, scratch: Path) -> dict[str, Callable[[Corpus], list[str]]]:
    """Other programs that are installed in the virtual environment ``tools``, by name."""
    rule = scratch / "rule.yaml"
    rule.write_text(SEMGREP_RULE, encoding="utf-8")
    bin_ = tools / "bin"
    table: dict[str, tuple[str, Callable[[Corpus], list[str]]]] = {
        "mypy, no third party": (
            "mypy",
            lambda c: [
                str(bin_ / "mypy"),
                *("--no-incremental", "--follow-imports=silent", "--ignore-missing-imports", "--no-site-packages"),
                *("--no-error-summary", f"--cache-dir={scratch / 'mypy'}"),
                *_roots(c),
            ],
        ),
        "flake8 F": ("flake8", lambda c: [str(bin_ / "flake8"), "-j1", "--isolated", "--select=F", *_roots(c)]),
        "semgrep, one rule": (
            "semgrep",
            lambda c: [
                str(bin_ / "semgrep"),
                *("scan", "--metrics=off", "--disable-version-check", "-j", "1", "-q", "--no-git-ignore"),
                *("--config", str(rule), *_roots(c)),
            ],
        ),
        "TorchFix": ("torchfix", lambda c: [str(bin_ / "torchfix"), "--select=ALL", *_roots(c)]),
        "Fixit, one rule": (
            "fixit",
            lambda c: [str(bin_ / "fixit"), "--rules=fixit.rules:NoRedundantFString", "lint", *_roots(c)],
        ),
    }
    return {name: command for name, (program, command) in table.items() if (bin_ / program).exists()}


def _roots(corpus: Corpus) -> list[str]:
    return [str(root) for root in corpus.roots]
