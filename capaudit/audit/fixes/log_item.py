"""``self.log["loss"] = loss.item()`` -> keep the tensor, and read it where the completion side logs it.

Only where the program declares that side: a completion-owned method of the same class that reads the same
entry. Needs: the entry's dictionary is used nowhere else but to be made, filled by literal keys and read by
literal keys in completion-owned methods; and the value is a tensor of its own, not a view of a buffer that
captured work goes on writing. Always unsafe: who reads the entry before the replay has completed reads
the device value early.
"""

from __future__ import annotations

import ast

from capaudit.audit.fixes.site import Site
from capaudit.model import Edit, Fix
from capaudit.program import FunctionInfo

NAME = "log-item"
_MESSAGE = (
    "the tensor stays on the device and {} reads it, which is completion-owned; certain if it runs after the replay"
)


def propose(site: Site) -> Fix | None:
    if site.finding.code != "CAP101" or site.finding.operation != "torch.Tensor.item":
        return None
    node = site.node(ast.Call)
    statement = site.parent(node) if node is not None else None
    if not isinstance(node, ast.Call) or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    entry = _entry(statement.targets[0])
    if entry is None or statement.value is not node or not isinstance(node.func, ast.Attribute):
        return None
    value = node.func.value
    tensor = site.facts.tensor(value)
    holder = site.holder(statement)
    if tensor is None or tensor.storage != "fresh" or holder is None or holder.cls is None:
        return None
    reads = _reads(site, holder, *entry)
    if not reads:
        return None
    owners = sorted({function.name for function, _ in reads})
    edits = [Edit(site.place(node), site.text(value))]
    edits += [Edit(site.place(read), f"{site.text(read)}.item()") for _, read in reads]
    return Fix(NAME, _MESSAGE.format(", ".join(owners)), False, tuple(edits))


def _entry(node: ast.expr) -> tuple[str, str] | None:
    """``self.log["loss"]`` as its attribute and key."""
    match node:
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id="self"), attr=attribute), slice=ast.Constant(value=str(key))
        ):
            return attribute, key
        case _:
            return None


def _reads(
    site: Site, holder: FunctionInfo, attribute: str, key: str
) -> list[tuple[FunctionInfo, ast.Subscript]] | None:
    """The completion side's reads of an entry, or ``None`` where anything else touches its dictionary."""
    found: list[tuple[FunctionInfo, ast.Subscript]] = []
    for module in site.program.modules.values():
        if attribute not in module.source:
            continue
        if module is not site.module:
            return None
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and node.value == attribute:
                return None  # reached by name
            if not isinstance(node, ast.Attribute) or node.attr != attribute:
                continue
            use = site.parent(node)
            if isinstance(node.ctx, ast.Store):
                if isinstance(use, (ast.Assign, ast.AnnAssign)) and _is_empty(use.value):
                    continue
                return None
            if not isinstance(use, ast.Subscript) or _entry(use) is None:
                return None
            function = site.holder(use)
            if function is None or function.cls is not holder.cls:
                return None
            if isinstance(use.ctx, ast.Store):
                if isinstance(site.parent(use), ast.Assign) and (function is holder or _entry(use) != (attribute, key)):
                    continue
                return None
            if site.owned.get(function, ("", ""))[0] != "completion-owned":
                return None
            if _entry(use) == (attribute, key):
                found.append((function, use))
    return found


def _is_empty(node: ast.expr | None) -> bool:
    return (isinstance(node, ast.Dict) and not node.keys) or (node is not None and ast.unparse(node) == "dict()")
