"""``torch.where(m, x, torch.tensor(0.0, device=d))`` -> ``torch.where(m, x, 0.0)``, and clamp and maximum alike.

A 0-dim tensor and a Python number promote alike beside a tensor with axes of the same or a higher kind
(bool < int < float), so the result keeps its type. Unsafe where the number is not exact in every float
type (beside float64 the tensor would have been rounded to float32 first), and for maximum and minimum,
whose gradient is shared at ties and clamp's is not.
"""

from __future__ import annotations

import ast
import struct

from capaudit.audit.fixes.shapes import proven
from capaudit.audit.fixes.site import Site
from capaudit.audit.values import Bound, Library
from capaudit.model import Edit, Fix

NAME = "constant-operand"
_MESSAGE = "a Python number travels as a kernel argument, so nothing is uploaded"
_ROUNDED = "; {} is not exact in float32: certain unless the other operand is float64"
_TIES = "; certain where no gradient is taken: at ties maximum shares it and clamp does not"
_KINDS = ("bool", "int", "float")
_TENSOR = ("torch.tensor", "torch.as_tensor", "torch.scalar_tensor")
_CLAMPS = ("clamp", "clip", "clamp_", "clip_")
_EXTREMES = {"maximum": "min", "minimum": "max"}


def propose(site: Site) -> Fix | None:
    if site.finding.code != "CAP103" or site.finding.operation not in _TENSOR:
        return None
    node = site.node(ast.Call)
    if not isinstance(node, ast.Call):
        return None
    holder = site.parent(node)
    call = site.parent(holder) if isinstance(holder, ast.keyword) else holder
    if not isinstance(call, ast.Call) or node is call.func:
        return None
    callee = _callee(site, call)
    if callee in ("torch.where", "torch.Tensor.where"):
        return _where(site, call, node, method=callee == "torch.Tensor.where")
    name = callee.rpartition(".")[2]
    if callee in (f"torch.{name}", f"torch.Tensor.{name}"):
        method = callee.startswith("torch.Tensor.")
        if name in _CLAMPS:
            return _clamp(site, call, method)
        if name in _EXTREMES:
            return _extreme(site, call, node, name, method)
    return None


def _callee(site: Site, call: ast.Call) -> str:
    atoms = site.facts.value(call.func)
    paths = {atom.path if isinstance(atom, (Library, Bound)) else "" for atom in atoms}
    return paths.pop() if len(paths) == 1 else ""


def _where(site: Site, call: ast.Call, node: ast.Call, method: bool) -> Fix | None:
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    if method:
        operands = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        operands += [*call.args[1:], *(named[key] for key in ("other", "y") if key in named)]
    else:
        operands = [*call.args[1:], *(named[key] for key in ("input", "self", "other") if key in named)]
    if len(operands) != 2 or node not in operands:
        return None
    other = operands[1] if operands[0] is node else operands[0]
    if method and node is operands[0]:
        return None  # the receiver has to stay a tensor
    return _replace(site, [node], other)


def _clamp(site: Site, call: ast.Call, method: bool) -> Fix | None:
    """All bounds at once: clamp takes two numbers or two tensors, never one of each."""
    values = [*([call.func.value] if method and isinstance(call.func, ast.Attribute) else []), *call.args]
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    if "out" in named or None in named or not values or any(isinstance(value, ast.Starred) for value in values):
        return None
    bounds = [*values[1:], *(named[key] for key in ("min", "max") if key in named)]
    tensors = [bound for bound in bounds if isinstance(bound, ast.Call) and _callee(site, bound) in _TENSOR]
    rest = [bound for bound in bounds if bound not in tensors]
    if any(not (isinstance(bound, ast.Constant) and bound.value is None) for bound in rest):
        return None
    return _replace(site, tensors, values[0])


def _replace(site: Site, nodes: list[ast.Call], other: ast.expr) -> Fix | None:
    edits, doubts = [], []
    for node in nodes:
        found = _number(site, node, other)
        if found is None:
            return None
        text, doubt = found
        edits.append(Edit(site.place(node), text))
        doubts.append(doubt)
    doubt = next(filter(None, doubts), "")
    return Fix(NAME, _MESSAGE + doubt, not doubt, tuple(edits))


def _extreme(site: Site, call: ast.Call, node: ast.Call, name: str, method: bool) -> Fix | None:
    if not isinstance(call.func, ast.Attribute) or call.keywords:
        return None
    operands = [call.func.value, *call.args] if method else list(call.args)
    if len(operands) != 2 or node not in operands or (method and operands[0] is node):
        return None
    other = operands[1] if operands[0] is node else operands[0]
    found = _number(site, node, other)
    if found is None:
        return None
    text, doubt = found
    bound = f"{_EXTREMES[name]}={text}"
    head = site.text(call.func.value)
    new = f"{head}.clamp({bound})" if method else f"{head}.clamp({site.text(other)}, {bound})"
    return Fix(NAME, _MESSAGE + _TIES + doubt, False, (Edit(site.place(call), new),))


def _number(site: Site, node: ast.Call, other: ast.expr) -> tuple[str, str] | None:
    """Return the number's source and what remains in doubt, where it promotes as the 0-dim tensor did."""
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    data = node.args[0] if node.args else named.get("data", named.get("s"))
    if data is None or len(node.args) > 1 or not set(named) <= {"data", "s", "dtype", "device"}:
        return None
    kind = site.facts.number(data)
    beside = proven(site, other)
    if kind is None or beside is None or beside.element is None or not beside.rank:
        return None
    if _KINDS.index(kind) > _KINDS.index(beside.element):
        return None
    exact = kind != "float" or _is_exact(data)
    if "dtype" in named:
        # A type of its own rounds the number, or cuts it: only the other operand's own type does nothing.
        own = ast.unparse(named["dtype"]) == f"{ast.unparse(other)}.dtype"
        if not own and not (exact and kind == "float" and ast.unparse(named["dtype"]) in _WIDE):
            return None
        exact = exact or own
    text = site.text(data)
    if isinstance(data, (ast.Starred, ast.NamedExpr, ast.GeneratorExp, ast.Await, ast.Yield)):
        return None
    return text, "" if exact else _ROUNDED.format(" ".join(text.split()))


_WIDE = ("torch.float32", "torch.float", "torch.float64", "torch.double")


def _is_exact(node: ast.expr) -> bool:
    """Whether a float literal is the same number in bfloat16, the float type with the fewest digits."""
    try:
        value = float(ast.literal_eval(node))
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except (ValueError, TypeError, SyntaxError, OverflowError, MemoryError, RecursionError):
        return False
    small = abs(value) <= 65504 and (value == 0 or abs(value) >= 2**-14)  # what float16 holds as well
    return small and struct.unpack("<f", struct.pack("<I", bits))[0] == value and bits & 0xFFFF == 0
