"""Score the audit on idioms whose outcome under capture was measured.

``python -m tests.score.idioms FILE.jsonl [--verbose]``: each line holds ``name``, ``setup``, ``body``
and ``capture`` (``ok`` means that nothing may be flagged); a first line with ``meta`` carries the prelude.
The idiom becomes a class: prelude and setup in the constructor, body in ``step``.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from capaudit.audit import AuditOptions, audit

_KERNELS = """import warp as wp


@wp.kernel
def k(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    b[i] = 2.0 * a[i]


@wp.kernel
def kr(seed: int, b: wp.array(dtype=float)):
    i = wp.tid()
    b[i] = wp.randf(wp.rand_init(seed, i))


"""


@dataclass(frozen=True, slots=True)
class Score:
    """One idiom's expectation and verdict; ``findings`` are ``code line-text`` strings."""

    name: str
    expected: str
    findings: tuple[str, ...]

    @property
    def right(self) -> bool:
        return bool(self.findings) == (self.expected != "ok")


def program_of(prelude: str, setup: str, body: str) -> str:
    """Turn an idiom into a module with a class ``Idiom``; names of the setup become attributes."""
    first = ast.parse(f"{prelude}\n{setup}\n")
    names = _bound_names(first)
    step = ast.parse(body)
    local = _bound_names(step) | {"self"}
    _Attributes(names - set(), keep=set()).visit(first)
    _Attributes(names - (_assigned_first(step) & local), keep=set()).visit(step)
    needs_kernel = "kmod" in setup
    constructor = "\n".join("        " + line for line in ast.unparse(first).splitlines())
    stepped = "\n".join("        " + line for line in ast.unparse(step).splitlines())
    if needs_kernel:
        constructor = constructor.replace("import kmod, numpy as np", "import numpy as np").replace(
            "import kmod", "pass"
        )
        constructor = constructor.replace("kmod.kr", "kr").replace("kmod.k", "k")
    return (
        "import torch\n"
        + (_KERNELS if needs_kernel else "")
        + "\n\nclass Idiom:\n    def __init__(self):\n"
        + (constructor or "        pass")
        + "\n\n    def step(self):\n"
        + stepped
        + "\n"
    )


def _bound_names(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
    return found


def _assigned_first(tree: ast.Module) -> set[str]:
    """Names that the body binds before it reads them: plain locals."""
    read: set[str] = set()
    local: set[str] = set()
    for statement in tree.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in local:
                read.add(node.id)
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in read:
                local.add(node.id)
    return local


class _Attributes(ast.NodeTransformer):
    """Rewrite top-level names into attributes of ``self``; function bodies see them as well."""

    def __init__(self, names: set[str], keep: set[str]) -> None:
        self.names = names - keep

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.names:
            return ast.copy_location(ast.Attribute(ast.Name("self", ast.Load()), node.id, node.ctx), node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt | list[ast.stmt]:
        local = {a.arg for a in node.args.args} | _bound_names(ast.Module(node.body, []))
        _Attributes(self.names - local, set()).generic_visit(node)
        if node.name not in self.names:
            return node
        store = ast.Attribute(ast.Name("self", ast.Load()), node.name, ast.Store())
        return [
            node,
            ast.fix_missing_locations(ast.Assign([store], ast.Name(node.name, ast.Load()), lineno=node.lineno)),
        ]

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        local = {a.arg for a in node.args.args}
        inner = _Attributes(self.names - local, set())
        node.body = inner.visit(node.body)
        return node


def score_file(file: Path) -> list[Score]:
    """Score every idiom of a JSON-lines file."""
    prelude = ""
    scores: list[Score] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, line in enumerate(file.read_text().splitlines()):
            if not line.strip():
                continue
            row = json.loads(line)
            if "meta" in row:
                prelude = row["meta"].get("prelude", "")
                continue
            target = Path(folder, f"idiom_{number}.py")
            target.write_text(program_of(prelude, row.get("setup", ""), row["body"]))
            options = AuditOptions(
                paths=(target,), entries=(f"{target}:Idiom.step",), capture="torch", working_directory=Path(folder)
            )
            found = audit(options).findings
            shown = tuple(f"{f.code} {f.confidence} {f.text}" for f in found if f.hazard is not None)
            scores.append(Score(row["name"], row["capture"], shown))
    return scores


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    scores = score_file(arguments.file)
    for score in scores:
        if not score.right or arguments.verbose:
            print(
                f"{'right' if score.right else 'WRONG'}  {score.name}: expected {score.expected}; found "
                f"{list(score.findings)}"
            )
    right = sum(score.right for score in scores)
    print(f"{right} of {len(scores)} right ({100 * right / max(len(scores), 1):.1f} %)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
