"""An idiom made runnable: its prelude, and its body as a function."""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

_PRELUDE = """
import torch
x = torch.linspace(0, 1, 64, device=DEVICE)
y = torch.zeros(64, device=DEVICE)
Y = torch.zeros(64, 4, device=DEVICE)
V = torch.arange(4., device=DEVICE)
m = torch.arange(64, device=DEVICE) % 3 == 0
idx = torch.arange(63, -1, -1, device=DEVICE)
"""

_WARP_PRELUDE = """
import numpy as np
import warp as wp
wp.config.quiet = True
wp.init()
import kmod
k, kr = kmod.k, kmod.kr
wx, wy = wp.from_torch(x), wp.from_torch(y)
A = wp.zeros(64, dtype=float, device=wx.device)
_streams = {}
def ws():
    current = torch.cuda.current_stream()
    if current.cuda_stream not in _streams:
        _streams[current.cuda_stream] = wp.stream_from_torch(current)
    return _streams[current.cuda_stream]
"""

_WARP_MARKS = ("warp", "wp.", "ws()", "kmod", "wx", "wy")

# In place, and within the domains that programs assume: x stays in (0, 1), idx a permutation. The mean of
# x, its sum and its extremes all move, so that a reduction that was frozen shows.
_MUTATION = """
with torch.no_grad():
    x.copy_(0.95 - 0.7 * x)
    y.add_(0.25)
    Y.add_(0.125)
    V.mul_(2.0).add_(1.0)
    m.logical_not_()
    idx.copy_(idx.roll(5))
"""

REGISTERED = "registered_generators"
"""A setup that draws from generators of its own lists them under this name; they are registered with the graph."""


class IdiomProgram:
    """Runs one idiom. ``folder`` receives its sources, which Warp and ``inspect`` read back."""

    comparable = True
    host_decides = True

    def __init__(self, setup: str, body: str, mutate: str, device: str, folder: Path) -> None:
        module = types.ModuleType("idiom")
        sys.modules["idiom"] = module
        self.namespace: dict[str, Any] = module.__dict__
        self._folder = folder
        self.namespace["DEVICE"] = device
        exec(_PRELUDE, self.namespace)
        if any(mark in part for part in (setup, body, mutate) for mark in _WARP_MARKS):
            from capaudit.probe import ops_kernels

            sys.modules["kmod"] = ops_kernels
            exec(_WARP_PRELUDE, self.namespace)
        exec(self._compile("setup", setup), self.namespace)
        self._step = self._function(body)
        self._mutation = self._compile("mutate", mutate or _MUTATION)

    def step(self) -> object:
        # Locals die inside the capture, as those of a real step do; results are seen in the namespace.
        self._step()
        return None

    def mutate(self) -> None:
        exec(self._mutation, self.namespace)

    def registered(self) -> Sequence[torch.Generator]:
        return tuple(self.namespace.get(REGISTERED, ()))

    def _compile(self, name: str, source: str) -> types.CodeType:
        return compile(source, self._write(name, source), "exec")

    def _write(self, name: str, source: str) -> str:
        path = self._folder / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        return str(path)

    def _function(self, body: str) -> Any:
        """Make the body a function in which names of the prelude and the setup stay the namespace's own."""
        statements = ast.parse(body).body
        shared = sorted(name for name in _assigned(statements) if name in self.namespace)
        module = ast.parse("def step():\n    pass")
        definition = module.body[0]
        assert isinstance(definition, ast.FunctionDef)
        declaration: list[ast.stmt] = [ast.Global(names=shared)] if shared else []
        definition.body = declaration + statements
        exec(compile(ast.fix_missing_locations(module), self._write("body", body), "exec"), self.namespace)
        return self.namespace.pop("step")


def _assigned(statements: Sequence[ast.stmt]) -> set[str]:
    """Names that the statements bind in their own scope."""
    names: set[str] = set()
    queue: list[ast.AST] = list(statements)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            continue
        elif isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            continue
        queue.extend(ast.iter_child_nodes(node))
    return names
