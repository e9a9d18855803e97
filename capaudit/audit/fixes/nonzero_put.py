"""``ids = mask.nonzero().squeeze(-1)`` and ``x[ids] = 0.0`` -> ``x.masked_fill_(mask, 0.0)``: no positions at all.

Needs: a boolean mask with one axis, ids that serve only the assignments right below, and numbers that
the targets hold. Unsafe unless mask and target are seen to have one length: ``nonzero`` does not care.
"""

from __future__ import annotations

import ast

from capaudit.audit.fixes.index_fill import scalar_put
from capaudit.audit.fixes.masked_put import widened
from capaudit.audit.fixes.shapes import proven
from capaudit.audit.fixes.site import Site, is_pure, same
from capaudit.model import Edit, Fix, Place

NAME = "nonzero-put"
_MESSAGE = "masked_fill_ needs no positions, so nothing is counted or read back"
_LENGTH = "; certain if {} has one value per row of {}"
_SEARCHES = ("torch.Tensor.nonzero", "torch.nonzero", "torch.where", "python.setitem")


def propose(site: Site) -> Fix | None:
    if site.finding.code not in ("CAP201", "CAP103") or site.finding.operation not in _SEARCHES:
        return None
    search = _search(site)
    if search is None:
        return None
    block = _block(site, search)
    name, mask = search.targets[0], _mask(search.value)
    if block is None or not isinstance(name, ast.Name) or mask is None:
        return None
    known = proven(site, mask)
    puts = _puts(site, search, block, name.id)
    if known is None or known.element != "bool" or known.rank != 1 or not puts:
        return None
    if not (is_pure(mask) or len(puts) == 1):
        return None
    lines, doubts, sure = [], [], known.sure
    for put in puts:
        found = scalar_put(site, put)
        if found is None or not found[1].rank or not is_pure(found[0].value) or same(found[0].value, mask):
            return None
        target, tensor = found
        if proven(site, target.value) is None:
            return None
        sure = sure and tensor.sure
        text = site.text(target.value)
        wide = widened(site, mask, (tensor.rank or 1) - 1)
        lines.append(f"{text}.masked_fill_({wide}, {site.text(put.value)})")
        if not _one_length(site, mask, target.value):
            doubts.append(_LENGTH.format(site.text(mask), text))
    first, last = site.place(search), site.place(puts[-1])
    indent = site.module.lines[first.line - 1][: first.column - 1]
    if indent.strip():
        return None  # behind a semicolon or a colon
    place = Place(first.file, first.line, first.column, last.end_line, last.end_column)
    doubt = doubts[0] if doubts else ""
    return Fix(NAME, _MESSAGE + doubt, not doubt and sure, (Edit(place, f"\n{indent}".join(lines)),))


def _search(site: Site) -> ast.Assign | None:
    """The statement that makes the ids: the finding's own, or that of the ids that its assignment uses."""
    if site.finding.operation != "python.setitem":
        node = site.node(ast.Call)
        found = site.statement(node) if node is not None else None
        return found if isinstance(found, ast.Assign) and len(found.targets) == 1 else None
    put = site.node(ast.Assign)
    if not isinstance(put, ast.Assign) or not isinstance(put.targets[0], ast.Subscript):
        return None
    names = {name.id for name in ast.walk(put.targets[0].slice) if isinstance(name, ast.Name)}
    block = _block(site, put)
    if block is None or len(names) != 1:
        return None
    for statement in reversed(block[: block.index(put)]):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            return statement if statement.targets[0].id in names and len(statement.targets) == 1 else None
    return None


def _block(site: Site, statement: ast.stmt) -> list[ast.stmt] | None:
    parent = site.parent(statement)
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and statement in block:
            return block
    return None


def _mask(node: ast.expr) -> ast.expr | None:
    """The mask whose positions an expression lists as a vector."""
    match node:
        case ast.Call(func=ast.Attribute(attr="squeeze" | "flatten" | "view" | "reshape" as name, value=inner)):
            given = [ast.unparse(argument) for argument in node.args]
            ends = given in (["-1"], ["1"]) if name == "squeeze" else given == ([] if name == "flatten" else ["-1"])
            return _nonzero(inner, as_tuple=False) if ends and not node.keywords else None
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=0)):
            found = _nonzero(call, as_tuple=True)
            if found is None and isinstance(call.func, ast.Attribute) and call.func.attr == "where":
                alone = len(call.args) == 1 and not call.keywords and ast.unparse(call.func.value) == "torch"
                return call.args[0] if alone else None
            return found
        case _:
            return None


def _nonzero(node: ast.expr, *, as_tuple: bool) -> ast.expr | None:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "nonzero":
        return None
    named = {keyword.arg: getattr(keyword.value, "value", None) for keyword in node.keywords}
    if named.pop("as_tuple", False) is not as_tuple or named:
        return None
    if ast.unparse(node.func.value) == "torch":
        return node.args[0] if len(node.args) == 1 else None
    return node.func.value if not node.args else None


def _puts(site: Site, search: ast.Assign, block: list[ast.stmt], name: str) -> list[ast.Assign]:
    """The assignments right below that put through the ids, if they are all that uses them."""
    puts: list[ast.Assign] = []
    for statement in block[block.index(search) + 1 :]:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not isinstance(target, ast.Subscript) or not isinstance(statement, ast.Assign):
            break
        parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        rest_full = all(isinstance(p, ast.Slice) and p.lower is p.upper is p.step is None for p in parts[1:])
        if not (isinstance(parts[0], ast.Name) and parts[0].id == name and rest_full):
            break
        puts.append(statement)
    definition = site.definition(search)
    if definition is None:
        return []
    uses = sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(definition))
    return puts if uses == 1 + len(puts) else []


def _one_length(site: Site, mask: ast.expr, target: ast.expr) -> bool:
    """Whether a mask is computed element by element from the tensor that it selects from, without changing it."""
    if isinstance(mask, ast.Name):
        made = site.assigned_once(mask)
        return made is not None and _one_length(site, made, target)
    if isinstance(mask, ast.Compare) and len(mask.comparators) == 1:
        left, right = mask.left, mask.comparators[0]
        tensor = site.facts.tensor(target)
        flat = tensor is not None and tensor.rank == 1
        return flat and (
            (same_load(left, target) and _is_number(site, right))
            or (same_load(right, target) and _is_number(site, left))
        )
    return False


def same_load(left: ast.expr, right: ast.expr) -> bool:
    return is_pure(left) and same(left, right)


def _is_number(site: Site, node: ast.expr) -> bool:
    return site.facts.number(node) is not None
