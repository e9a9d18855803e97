"""An idiom as a small class for the audit: prelude and setup in the constructor, body in ``step``."""

from __future__ import annotations

import ast

from capaudit.knowledge.idioms import Idiom

_PRELUDE = """
x = torch.linspace(0.0, 1.0, 64, device="cuda")
y = torch.zeros(64, device="cuda")
Y = torch.zeros(64, 4, device="cuda")
V = torch.arange(4.0, device="cuda")
m = torch.arange(64, device="cuda") % 3 == 0
idx = torch.arange(63, -1, -1, device="cuda")
"""

_ARRAYS = "wx, wy = wp.from_torch(x), wp.from_torch(y)"

_KERNELS = """
import warp as wp

@wp.kernel
def k(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    b[i] = 2.0 * a[i]

@wp.kernel
def kr(seed: int, b: wp.array(dtype=float)):
    i = wp.tid()
    b[i] = wp.randf(wp.rand_init(seed, i))
"""

_STREAM = """
def ws():
    return wp.stream_from_torch(torch.cuda.current_stream())
"""


def sources(idiom: Idiom) -> dict[str, str]:
    """Return the files of the idiom's program, ``step.py`` and what it imports."""
    setup = ast.parse(idiom.setup).body
    body = ast.parse(idiom.body).body
    uses_warp = "wp." in idiom.setup + idiom.body or "ws()" in idiom.body
    lines = ["import torch"]
    if uses_warp:
        lines.append("import warp as wp")
    hoisted, kept = [], []
    for statement in setup:
        (hoisted if _belongs_to_module(statement) else kept).append(statement)
    lines += [ast.unparse(statement) for statement in hoisted]
    if uses_warp:
        lines.append(_STREAM)
    prelude = ast.parse(_PRELUDE + (_ARRAYS if uses_warp else "")).body
    functions = _functions(kept)
    rename = _Rename(_bound([*prelude, *kept]), functions)
    lines.append("class Program:")
    lines.append("    def __init__(self):")
    lines += [_indented(rename.visit(statement)) for statement in (*prelude, *kept)]
    lines += [f"        self.{name} = {name}" for name in sorted(functions)]
    rename.functions_are_attributes = True
    lines.append("    def step(self):  # capaudit: boundary")
    lines += [_indented(rename.visit(statement)) for statement in body]
    found = {"step.py": "\n".join(lines) + "\n"}
    if "kmod" in idiom.setup + idiom.body:
        found["kmod.py"] = _KERNELS
    return found


def _belongs_to_module(statement: ast.stmt) -> bool:
    """Imports, classes and Warp kernels stand at module level in real programs."""
    if isinstance(statement, ast.FunctionDef):
        return bool(statement.decorator_list)
    return isinstance(statement, (ast.Import, ast.ImportFrom, ast.ClassDef))


def _bound(statements: list[ast.stmt]) -> frozenset[str]:
    """Names that the statements bind outside of nested functions."""
    names: set[str] = set()
    queue: list[ast.AST] = list(statements)
    while queue:
        node = queue.pop()
        if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.GeneratorExp, ast.DictComp)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        queue.extend(ast.iter_child_nodes(node))
    return frozenset(names)


def _functions(statements: list[ast.stmt]) -> frozenset[str]:
    return frozenset(statement.name for statement in statements if isinstance(statement, ast.FunctionDef))


def _indented(statement: ast.stmt) -> str:
    return "\n".join("        " + line for line in ast.unparse(ast.fix_missing_locations(statement)).splitlines())


class _Rename(ast.NodeTransformer):
    """``x`` becomes ``self.x`` for the names that constructor and step share."""

    def __init__(self, shared: frozenset[str], functions: frozenset[str]) -> None:
        self._shared = shared
        self._functions = functions
        self.functions_are_attributes = False

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._shared and not (self.functions_are_attributes and node.id in self._functions):
            return node
        return ast.Attribute(value=ast.Name(id="self", ctx=ast.Load()), attr=node.id, ctx=node.ctx)
