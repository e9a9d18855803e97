"""``x[ids] = 0.0`` -> ``x.index_fill_(0, ids, 0.0)``: the number travels as a kernel argument.

Needs: a device tensor and integer ids in every context of the function, and a number that the tensor's
element type holds. ``index_fill_`` takes a vector of 64-bit ids, so ids of which that is not seen are
brought to that form. Unsafe where the ids come from a parameter: a caller beyond the program may pass
a mask or 32-bit ids, which an assignment accepts.
"""

from __future__ import annotations

import ast

from capaudit.audit.fixes.shapes import proven
from capaudit.audit.fixes.site import Site, is_pure, is_tensor_annotation
from capaudit.audit.values import Tensor
from capaudit.model import Edit, Fix

NAME = "index-fill"
_MESSAGE = "index_fill_ writes the same number and takes it as a kernel argument"
_FROM_CALLER = "; {} comes from a caller: certain only if every caller passes 64-bit ids and no mask"
_HELD = {"float": ("float", "int", "bool"), "int": ("int", "bool"), "bool": ("bool",)}


def propose(site: Site) -> Fix | None:
    if site.finding.code != "CAP103" or site.finding.operation != "python.setitem":
        return None
    node = site.node(ast.Assign)
    if not isinstance(node, ast.Assign):
        return None
    put = scalar_put(site, node)
    if put is None:
        return None
    target, tensor = put
    parts = list(target.slice.elts) if isinstance(target.slice, ast.Tuple) else [target.slice]
    ids = [part for part in parts if not _is_basic(part)]
    if len(ids) != 1:
        return None
    form = _ids(site, ids[0])
    if form is None:
        return None
    text, doubt = form
    at = parts.index(ids[0])
    axis = sum(isinstance(part, ast.Slice) for part in parts[:at])
    view = ""
    if any(not _is_full(part) for part in parts if part is not ids[0]):
        view = f"[{', '.join(':' if part is ids[0] else site.text(part) for part in parts)}]"
    safe = not doubt and tensor.sure
    new = f"{site.operand(target.value)}{view}.index_fill_({axis}, {text}, {site.text(node.value)})"
    return Fix(NAME, _MESSAGE + doubt, safe, (Edit(site.place(node), new),))


def scalar_put(site: Site, node: ast.Assign) -> tuple[ast.Subscript, Tensor] | None:
    """Return the target of ``x[...] = number`` and its tensor, where the tensor's elements hold the number."""
    target = node.targets[0]
    if len(node.targets) != 1 or not isinstance(target, ast.Subscript) or not is_pure(node.value):
        return None
    tensor = site.facts.tensor(target.value)
    number = site.facts.number(node.value)
    if tensor is None or number is None or number not in _HELD.get(tensor.element or "", ()):
        return None
    # A parameter may be anything for callers beyond the program; its annotation has to say that it is a tensor.
    if not all(is_tensor_annotation(annotation) for annotation in _roots(site, target.value).values()):
        return None
    return target, tensor


def _roots(site: Site, node: ast.expr) -> dict[str, ast.expr | None]:
    """The parameters that a target itself is: what an attribute of a parameter holds is known where it is bound."""
    return site.parameters(node) if isinstance(node, ast.Name) else {}


def _is_basic(part: ast.expr) -> bool:
    """A slice with constant bounds or a constant position: it makes a view."""
    if isinstance(part, ast.Slice):
        return all(bound is None or _is_integer(bound) for bound in (part.lower, part.upper, part.step))
    return _is_integer(part)


def _is_full(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None


def _is_integer(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int


def _ids(site: Site, node: ast.expr) -> tuple[str, str] | None:
    """Return how ids are written as a 64-bit vector, and what remains in doubt about them."""
    atoms = site.facts.value(node)
    tensors = [atom for atom in atoms if isinstance(atom, Tensor) and atom.device == "cuda"]
    if not tensors or len(tensors) != len(atoms):
        return None
    parameters = site.parameters(node)
    if parameters:
        annotated = all(is_tensor_annotation(annotation) for annotation in parameters.values())
        integers = any(atom.element == "int" for atom in tensors)
        if not annotated or not integers or any(atom.element not in ("int", None) for atom in tensors):
            return None
        return site.text(node), _FROM_CALLER.format(", ".join(parameters))
    if any(atom.element != "int" for atom in tensors):
        return None
    vector, wide = _form(site, node, 4)
    known = proven(site, node)
    if not wide and known is None:
        return None
    vector = vector or (known is not None and known.rank in (0, 1))
    text = site.text(node)
    if vector and wide:
        return text, ""
    return f"{site.operand(node)}{'' if vector else '.flatten()'}{'' if wide else '.long()'}", ""


def _form(site: Site, node: ast.expr, depth: int) -> tuple[bool, bool]:
    """Whether an expression is seen to be a vector (or a single position), and of 64 bits, by how it is made."""
    if depth == 0:
        return False, False
    match node:
        case ast.Name():
            made = site.assigned_once(node)
            return _form(site, made, depth - 1) if made is not None else (False, False)
        case ast.Call(func=ast.Attribute(attr=name)):
            return _call_form(site, node, name, depth)
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr=name)) as call, slice=ast.Constant(value=0)):
            # nonzero(as_tuple=True)[0] and where(mask)[0]: one vector of 64-bit positions per axis
            tuple_ = any(k.arg == "as_tuple" and getattr(k.value, "value", None) is True for k in call.keywords)
            positions = (name == "nonzero" and tuple_) or (name == "where" and len(call.args) == 1)
            return positions, positions
        case ast.Subscript():
            vector, wide = _form(site, node.value, depth - 1)
            return vector and not isinstance(node.slice, (ast.Tuple, ast.Constant)), wide
        case _:
            return False, False


def _call_form(site: Site, node: ast.Call, name: str, depth: int) -> tuple[bool, bool]:
    assert isinstance(node.func, ast.Attribute)
    typed = any(keyword.arg in ("dtype", "out", None) for keyword in node.keywords)
    if name in ("flatten", "ravel") or (name in ("view", "reshape") and _is_minus_one(node.args)):
        return True, _form(site, node.func.value, depth - 1)[1]
    if name == "squeeze":
        return _is_column(site, node.func.value), _form(site, node.func.value, depth - 1)[1]
    if name == "long":
        return _form(site, node.func.value, depth - 1)[0], True
    if name in ("arange", "randperm") and not typed:
        return True, name == "randperm" or all(site.facts.number(argument) == "int" for argument in node.args)
    if name in ("nonzero", "argsort", "argmax", "argmin", "argwhere"):
        return False, True
    return False, False


def _is_column(site: Site, node: ast.expr) -> bool:
    """``nonzero`` of a vector: one position per row, so that dropping the axis leaves a vector."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "nonzero":
        mask = node.args[0] if node.args else node.func.value
        tensor = proven(site, mask)
        return tensor is not None and tensor.rank == 1
    return False


def _is_minus_one(arguments: list[ast.expr]) -> bool:
    return len(arguments) == 1 and ast.unparse(arguments[0]) == "-1"
