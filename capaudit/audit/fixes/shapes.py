"""How many axes a tensor has, where that is proven: by forms whose result the engine is known to get right.

The engine's ranks serve to tell single values from arrays; beyond that many operations keep the rank of
their first operand in it although they reshape or broadcast. A fix needs more, so a value counts only if
every step of its making is a form of this list.
"""

from __future__ import annotations

import ast
import re
from typing import Final

from capaudit.audit.fixes.site import Site
from capaudit.audit.values import Bound, Library, Tensor

_FACTORIES: Final = re.compile(r"torch\.(zeros|ones|empty|rand|randn|randint|randperm|arange|linspace)")
_SAME_SHAPE: Final = re.compile(
    "abs|argsort|bool|clone|contiguous|cos|deg2rad|detach|double|exp|float|floor|half|int|isfinite|isnan|log|logical_not|long|"
    "neg|rad2deg|relu|round|sigmoid|sign|sin|sqrt|square|tanh|zero_|fill_|(ones|zeros|full|rand|randn|empty)_like|"
    "masked_fill_?|index_fill_?|requires_grad_"
)
_REDUCING: Final = re.compile("sum|mean|amax|amin|any|all|norm|argmax|argmin")
_SCALAR_BOUNDS: Final = re.compile("(clamp|clip)_?")
_DEEPEST: Final = 8


def proven(site: Site, node: ast.expr) -> Tensor | None:
    """Return what is known of a device tensor whose rank and elements are proven, else ``None``."""
    tensor = site.facts.tensor(node)
    return tensor if tensor is not None and _Making(site).is_known(node, _DEEPEST) else None


class _Making:
    """Walks back through the making of one value."""

    def __init__(self, site: Site) -> None:
        self.site = site
        # An attribute that is bound to something made from itself is as known as its other bindings.
        self.open: set[str] = set()

    def is_known(self, node: ast.expr, depth: int) -> bool:
        if depth == 0:
            return False
        match node:
            case ast.Constant():
                return True
            case ast.Name():
                made = self.site.assigned_once(node)
                return made is not None and self.is_known(made, depth - 1)
            case ast.Attribute(value=ast.Name(id="self")):
                return self.is_known_attribute(node, depth)
            case ast.BinOp():
                return self.are_known([node.left, node.right], depth)
            case ast.UnaryOp():
                return self.is_known(node.operand, depth - 1)
            case ast.Compare():
                return self.are_known([node.left, *node.comparators], depth)
            case ast.Subscript():
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                return self.are_known([node.value, *(p for p in parts if not isinstance(p, ast.Slice))], depth)
            case ast.Call():
                return self.is_known_call(node, depth)
            case _:
                return False

    def are_known(self, nodes: list[ast.expr], depth: int) -> bool:
        return all(self.site.facts.number(node) is not None or self.is_known(node, depth - 1) for node in nodes)

    def is_known_attribute(self, node: ast.Attribute, depth: int) -> bool:
        if node.attr in self.open:
            return True
        bindings = self.site.attribute_bindings(node)
        self.open.add(node.attr)
        known = bool(bindings) and all(self.is_known(made, depth - 1) for made in bindings)
        self.open.discard(node.attr)
        return known

    def is_known_call(self, node: ast.Call, depth: int) -> bool:
        facts = self.site.facts
        paths = {atom.path if isinstance(atom, (Library, Bound)) else "" for atom in facts.value(node.func)}
        path = paths.pop() if len(paths) == 1 else ""
        if _FACTORIES.fullmatch(path):
            return not any(isinstance(argument, ast.Starred) for argument in node.args)
        if path == "torch.tensor":
            return bool(node.args) and facts.number(node.args[0]) is not None
        name = path.rpartition(".")[2]
        given = list(node.args)
        if path == f"torch.Tensor.{name}" and isinstance(node.func, ast.Attribute):
            given.insert(0, node.func.value)
        elif path != f"torch.{name}":
            return False
        rest = [*given[1:], *(keyword.value for keyword in node.keywords)]
        if not given or not self.is_known(given[0], depth - 1):
            return False
        if name == "where":
            return len(given) == 3 and not node.keywords and self.have_one_rank(given, depth)
        plain = all(facts.tensor(argument) is None for argument in rest)
        if _REDUCING.fullmatch(name) or _SCALAR_BOUNDS.fullmatch(name):
            return plain
        return _SAME_SHAPE.fullmatch(name) is not None

    def have_one_rank(self, operands: list[ast.expr], depth: int) -> bool:
        """Whether all tensors have known and equal ranks (or none), so that nothing broadcasts to another one."""
        ranks = set()
        for operand in operands:
            if self.site.facts.number(operand) is not None:
                continue
            tensor = self.site.facts.tensor(operand)
            if tensor is None or tensor.rank is None or not self.is_known(operand, depth - 1):
                return False
            ranks.add(tensor.rank)
        return len(ranks - {0}) == 1 and operands[1:] != []
