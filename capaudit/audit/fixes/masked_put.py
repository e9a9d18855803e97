"""``x[mask] = y[mask]`` -> ``x.copy_(torch.where(mask, y, x))``: full width, so no positions are searched for.

Needs: a boolean mask and ranks that are known, ``y`` with as many axes as ``x`` (or a 0-dim tensor put
whole), and elements of one kind. A value of any other shape is not proposed: its rows would have to be
counted. Unsafe where a part comes from a parameter: only callers know what they pass.
"""

from __future__ import annotations

import ast

from capaudit.audit.fixes.shapes import proven
from capaudit.audit.fixes.site import Site, is_pure, same
from capaudit.model import Edit, Fix

NAME = "masked-put"
_MESSAGE = "torch.where chooses per element at full width, so the number of rows does not matter"
_FROM_CALLER = "; {} comes from a caller: certain only if every caller passes a boolean mask and equal shapes"


def propose(site: Site) -> Fix | None:
    if site.finding.code != "CAP201" or site.finding.operation not in ("python.setitem", "python.getitem"):
        return None
    node: ast.AST | None = site.node(ast.Assign)
    if node is None:
        inner = site.node(ast.Subscript)
        node = site.statement(inner) if inner is not None else None
    torch = site.torch_name()
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or torch is None:
        return None
    target = node.targets[0]
    if not isinstance(target, ast.Subscript) or not is_pure(target.value) or not is_pure(target.slice):
        return None
    mask, tensor = proven(site, target.slice), proven(site, target.value)
    if mask is None or tensor is None or mask.element != "bool" or not mask.rank or not tensor.rank:
        return None
    source = _source(site, node.value, target.slice, tensor.rank)
    if source is None or tensor.rank < mask.rank:
        return None
    value = proven(site, source)
    if value is None or value.element is None or value.element != tensor.element:
        return None
    parameters = {name for part in (target.value, target.slice, source) for name in site.parameters(part)}
    doubt = _FROM_CALLER.format(", ".join(sorted(parameters))) if parameters else ""
    text = site.text(target.value)
    chosen = f"{torch}.where({widened(site, target.slice, tensor.rank - mask.rank)}, {site.text(source)}, {text})"
    edit = Edit(site.place(node), f"{text}.copy_({chosen})")
    safe = not doubt and mask.sure and tensor.sure and value.sure
    return Fix(NAME, _MESSAGE + doubt, safe, (edit,))


def widened(site: Site, mask: ast.expr, axes: int) -> str:
    """A mask's source with so many axes more, so that it chooses whole rows."""
    if axes == 0:
        return site.text(mask)
    return (
        f"{site.operand(mask)}.unsqueeze(-1)"
        if axes == 1
        else f"{site.operand(mask)}[..., {', '.join(['None'] * axes)}]"
    )


def _source(site: Site, value: ast.expr, mask: ast.expr, rank: int) -> ast.expr | None:
    """The full-width tensor that a value's rows are taken from, or a 0-dim tensor."""
    if isinstance(value, ast.Subscript) and same(value.slice, mask) and is_pure(value.value):
        tensor = proven(site, value.value)
        return value.value if tensor is not None and tensor.rank == rank else None
    tensor = proven(site, value)
    return value if tensor is not None and tensor.rank == 0 and is_pure(value) else None
