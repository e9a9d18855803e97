"""What the engine knows of every expression of a function, over all the ways in which the function runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from capaudit.audit import expressions
from capaudit.audit.contexts import Context
from capaudit.audit.machine import Machine
from capaudit.audit.values import NOTHING, Const, Host, Tensor, Value, join
from capaudit.program import FunctionInfo

_NUMBERS = ("bool", "int", "float")


class Facts:
    """Values of expressions, joined over every context of their function: inside the boundary and outside it."""

    def __init__(self, machine: Machine, others: Iterable[Context]) -> None:
        self._machine = machine
        self._others = tuple(others)
        self._values: dict[ast.expr, Value] = {}
        self._covered: set[FunctionInfo] = set()

    def cover(self, function: FunctionInfo) -> None:
        """Evaluate a function's contexts, which have come to rest, once more, and keep what its expressions are."""
        if function in self._covered:
            return
        self._covered.add(function)
        contexts = list(self._machine.by_function.get(function, ()))
        contexts += [context for context in self._others if context.function is function and context not in contexts]
        with expressions.observed(self._note):
            for context in contexts:
                self._machine.run(context)

    def _note(self, node: ast.expr, value: Value) -> None:
        self._values[node] = join(self._values.get(node, NOTHING), value)

    def value(self, node: ast.expr) -> Value:
        """Return the joined value; empty where nothing evaluated the expression."""
        return self._values.get(node, NOTHING)

    def tensor(self, node: ast.expr) -> Tensor | None:
        """Return what holds of an expression that is always a device tensor, else ``None``.

        Fields on which alternatives disagree are ``None``; ``sure`` holds where no alternative rests on an
        annotation alone.
        """
        found: Tensor | None = None
        for atom in self.value(node):
            if not isinstance(atom, Tensor) or atom.device != "cuda":
                return None
            found = atom if found is None else _common(found, atom)
        return found

    def number(self, node: ast.expr) -> str | None:
        """Return ``bool``, ``int`` or ``float`` for an expression that is always a Python number of that type."""
        kinds = {atom.type_name if isinstance(atom, (Const, Host)) else "" for atom in self.value(node)}
        return kinds.pop() if len(kinds) == 1 and kinds <= set(_NUMBERS) else None


def _common(left: Tensor, right: Tensor) -> Tensor:
    from capaudit.audit.values import like

    return like(
        left,
        sure=left.sure and right.sure,
        element=left.element if left.element == right.element else None,
        rank=left.rank if left.rank == right.rank else None,
        dynamic=left.dynamic or right.dynamic,
        storage=left.storage if left.storage == right.storage else "other",
    )
