"""Classes whose set-up refuses CUDA: what it makes exists on the CPU alone, and no tick on CUDA uses an object of them.

``if self.device != "cpu": raise`` in a method refuses only that method, unless the method is what makes the
object usable: the constructor, or the only one (with what it calls) that binds some of the attributes.
"""

from __future__ import annotations

import ast

from capaudit.audit import guards
from capaudit.audit.names import Names, stored_attributes
from capaudit.program import ClassInfo, FunctionInfo, walk
from capaudit.program.symbols import dotted_text


def refuses_cuda(names: Names, cls: ClassInfo, function: FunctionInfo) -> bool:
    """Whether a class, or a base that it inherits from, cannot be set up on CUDA with what ``function`` uses."""
    seen: dict[str, None] = {}
    for owner in names.mro(cls):
        for name, method in owner.methods.items():
            if name not in seen and _raises_on_cuda(method):
                if name in ("__init__", "__post_init__"):
                    return True
                if not _only_bound_by(owner, method).isdisjoint(_used(names, cls, function)):
                    return True
        seen.update(dict.fromkeys(owner.methods))
    return False


def _raises_on_cuda(method: FunctionInfo) -> bool:
    body = method.node.body
    return isinstance(body, list) and any(
        isinstance(statement, ast.If) and guards.always_raises(statement.body) and _is_cuda(statement.test)
        for statement in body
    )


def _is_cuda(test: ast.expr) -> bool:
    """Whether a test of the object's own device is true on CUDA and false on the CPU."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _is_host(inner)
        case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[ast.Constant(value="cpu")]):
            return _is_device(left)
        case ast.Compare(
            left=ast.Attribute(attr="type") as left, ops=[ast.Eq()], comparators=[ast.Constant(value="cuda")]
        ):
            return _is_device(left)
        case ast.Compare(left=ast.Constant(value="cuda"), ops=[ast.In()], comparators=[right]):
            return _is_device(right)
        case ast.Call(func=ast.Attribute(value=inner, attr="startswith"), args=[ast.Constant(value="cuda")]):
            return _is_device(inner)
        case ast.Attribute(attr="is_cuda"):
            return _is_device(test.value)
        case _:
            return False


def _is_host(test: ast.expr) -> bool:
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value="cpu")]):
            return _is_device(left)
        case ast.Call(func=ast.Attribute(value=inner, attr="startswith"), args=[ast.Constant(value="cpu")]):
            return _is_device(inner)
        case ast.Attribute(attr="is_cpu"):
            return _is_device(test.value)
        case _:
            return False


def _is_device(node: ast.expr) -> bool:
    """``self.device``, ``self._device.type``, ``str(self.cfg.device)``: the device that the object is made for."""
    if isinstance(node, ast.Call) and dotted_text(node.func) in ("str", "torch.device") and len(node.args) == 1:
        node = node.args[0]
    parts = dotted_text(node).split(".")
    if parts[-1] == "type":
        parts.pop()
    return len(parts) > 1 and parts[0] == "self" and parts[-1].strip("_") == "device"


def _only_bound_by(owner: ClassInfo, method: FunctionInfo) -> set[str]:
    """The attributes that a method binds, with the methods that it calls, and no other method."""
    together = _with_called(owner, method)
    bound = {name for inner in together.values() for name in stored_attributes(inner)}
    apart = [inner for inner in owner.methods.values() if inner.name not in together]
    return bound - {name for inner in apart for name in stored_attributes(inner)}


def _with_called(owner: ClassInfo, method: FunctionInfo) -> dict[str, FunctionInfo]:
    together: dict[str, FunctionInfo] = {method.name: method}
    waiting = [method]
    while waiting:
        for node in walk(waiting.pop().node):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                    called = owner.methods.get(name)
                    if called is not None and name not in together:
                        together[name] = called
                        waiting.append(called)
    return together


def _used(names: Names, cls: ClassInfo, function: FunctionInfo) -> set[str]:
    """The names that a method, with the methods of the object that it calls, takes from the object."""
    used: set[str] = set()
    waiting, seen = [function], {function}
    while waiting:
        for node in walk(waiting.pop().node):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                used.add(node.attr)
                called = names.method(cls, node.attr)
                if called is not None and called not in seen:
                    seen.add(called)
                    waiting.append(called)
    return used
