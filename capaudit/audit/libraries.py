"""Calls into libraries, judged by the operation tables: verdict, effects and result."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from capaudit.audit import builtin_calls, conditions, hazards, regions, results, stores
from capaudit.audit.conditions import Match
from capaudit.audit.values import (
    NONE,
    UNKNOWN,
    Array,
    Atom,
    Const,
    Host,
    Instance,
    Object,
    Tensor,
    Value,
    WarpArray,
    const,
    host,
    items,
    library_object,
    like,
    tensor,
)
from capaudit.knowledge import Case, Operation
from capaudit.model import Confidence, OwnershipClass

if TYPE_CHECKING:
    from capaudit.audit.arguments import Arguments
    from capaudit.audit.frame import Frame

EXCEPTIONS = frozenset(name for name in dir(__import__("builtins")) if name.endswith(("Error", "Exception", "Warning")))

_DISTINCTIVE = {
    "item": ("CAP101", "turns a device value into a Python number"),
    "tolist": ("CAP101", "turns device values into Python numbers"),
    "cpu": ("CAP102", "copies to the host"),
    "nonzero": ("CAP201", "has a data-dependent size"),
    "masked_select": ("CAP201", "has a data-dependent size"),
    "synchronize": ("CAP104", "waits for the device"),
}


def distinctive(frame: Frame, method: str) -> tuple[str, str] | None:
    """Hazard of a method whose name alone says that the receiver is a device value."""
    return _DISTINCTIVE.get(method)


class Call:
    """One library call: the entry, its bound parameters and everything that was passed."""

    __slots__ = ("arguments", "bound", "everything", "node", "nodes", "operation", "path", "receiver")

    def __init__(
        self, operation: Operation, path: str, receiver: Atom | None, arguments: Arguments, node: ast.expr
    ) -> None:
        self.operation = operation
        self.path = path
        self.receiver = receiver
        self.arguments = arguments
        self.node = node
        self.bound: dict[str, Value] = {}
        self.nodes: dict[str, ast.expr] = {}
        names = list(operation.params)
        positional = list(arguments.positional)
        nodes: list[ast.expr | None] = list(arguments.nodes) + [None] * (len(positional) - len(arguments.nodes))
        takes_self = bool(names) and names[0] == "self"
        if receiver is not None and takes_self:
            positional.insert(0, (receiver,))
            nodes.insert(
                0, node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
            )
        elif receiver is None and not takes_self and names and names[0] == "self":
            names = names[1:]
        for i, name in enumerate(names):
            if name.startswith("*"):
                rest = positional[i:]
                if rest:
                    self.bound[name[1:]] = items(tuple(rest)) if len(rest) > 1 else rest[0]
                break
            if i >= len(positional):
                break
            self.bound[name] = positional[i]
            place = nodes[i]
            if place is not None:
                self.nodes[name] = place
        for name, value in arguments.keywords.items():
            key = "self" if name == "input" and takes_self and receiver is None else name
            self.bound.setdefault(key, value)
            if name in arguments.keyword_nodes:
                self.nodes[key] = arguments.keyword_nodes[name]
        self.everything = [*positional, *arguments.keywords.values()]

    def lookup(self, name: str) -> Value | None:
        return self.bound.get(name)

    @property
    def subject(self) -> ast.expr | None:
        if isinstance(self.node, ast.Call):
            if isinstance(self.node.func, ast.Attribute) and self.receiver is not None:
                return self.node.func.value
            if self.node.args:
                return self.node.args[0]
        return self.node


def canonical(frame: Frame, path: str, receiver: Atom | None) -> tuple[str, Operation | None]:
    """The table entry for a path; methods of library objects fall back to what their kind shares."""
    knowledge = frame.machine.knowledge
    operation = knowledge.operation(path)
    if operation is not None and (path in knowledge.operations or receiver is None):
        return path, operation
    if receiver is not None:
        name = path.rpartition(".")[2]
        for prefix in _shared_prefixes(path):
            found = knowledge.operations.get(f"{prefix}.{name}")
            if found is not None:
                return f"{prefix}.{name}", found
    return path, operation


def _shared_prefixes(path: str) -> tuple[str, ...]:
    if path.startswith("torch.nn."):
        return ("torch.nn.Module",)
    if path.startswith("torch.optim."):
        return ("torch.optim.Optimizer",)
    if path.startswith("torch.distributions."):
        return ("torch.distributions.Distribution",)
    if path.startswith(("torch.cuda.", "torch.")) and path.count(".") >= 2:
        parts = path.split(".")
        return (f"torch.{parts[-2]}", f"torch.cuda.{parts[-2]}")
    if path.startswith("numpy.ndarray"):
        return ("numpy.ndarray",)
    return ()


def call(frame: Frame, path: str, receiver: Atom | None, arguments: Arguments, node: ast.expr) -> Value | None:
    """Call a library function or method by its dotted path; ``None`` when nothing is known about it."""
    handled = builtin_calls.call(frame, path, receiver, arguments, node)
    if handled is not None:
        return handled
    region = regions.call(frame, path, receiver, arguments, node)
    if region is not None:
        return region
    path, operation = canonical(frame, path, receiver)
    if operation is None:
        return _undescribed(frame, path, receiver, arguments, node)
    made = Call(operation, path, receiver, arguments, node)
    if path.startswith("torch.distributions.") and frame.machine.memo.get("no-validation"):
        made.bound.setdefault("validate_args", const(False))
    return apply(frame, made)


def _undescribed(frame: Frame, path: str, receiver: Atom | None, arguments: Arguments, node: ast.expr) -> Value | None:
    name = path.rpartition(".")[2]
    if isinstance(receiver, Tensor):
        # A method that the tables do not describe: its verdict is open, but its result is a tensor.
        frame.record(node, path, ownership=OwnershipClass.UNRESOLVED, message=f"no knowledge entry describes {path}")
        return (
            (like(receiver, storage="fresh", rank=None, element=None),) if not name.startswith("is_") else host("bool")
        )
    if isinstance(receiver, Instance):
        return None
    if name[:1].isupper() and receiver is None:
        return (library_object(path, results.site(frame, node)),)
    if isinstance(receiver, Object) and receiver.path == "contextlib.manager":
        return host("any")
    if isinstance(receiver, (Const, Host, Array)):
        return host("any")
    return None


def call_object(frame: Frame, atom: Object, arguments: Arguments, node: ast.expr) -> Value | None:
    """Call a library object: a module, a compiled function, a recorded launch."""
    if atom.path == "torch.compile":
        if not frame.tick and not frame.context.items.get("speculative"):
            frame.machine.memo[("compiled", atom)] = True
        if not stores.is_warm(frame) and ("compiled", atom) not in frame.machine.memo:
            frame.reject(
                node,
                "CAP503",
                "torch.compile",
                "the first call of a compiled function compiles and tunes it, here for the first time inside "
                "the capture",
                confidence=Confidence.LIKELY,
            )
        return frame.call(atom.content, arguments, node)
    operation = frame.machine.knowledge.operations.get(f"{atom.path}.__call__")
    path = f"{atom.path}.__call__"
    if operation is None and (atom.path.startswith("torch.nn.") or "module" in atom.flags):
        path, operation = "torch.nn.Module.__call__", frame.machine.knowledge.operations.get("torch.nn.Module.__call__")
    if atom.content:
        for inner in atom.content:
            if isinstance(inner, Instance):
                frame.call((inner,), arguments, node)
    if operation is None:
        if atom.path.startswith("torch.nn."):
            return module_result(frame, arguments, node)
        if atom.site is None and not atom.content and "." in atom.path:
            # An annotation alone named it, and such an object cannot be called: the class itself was meant.
            return call(frame, atom.path, None, arguments, node)
        return None
    return apply(frame, Call(operation, path, atom, arguments, node))


def module_result(frame: Frame, arguments: Arguments, node: ast.expr) -> Value:
    tensors = results.gather(frame, arguments.values())
    frame.record(node, "torch.nn.Module.__call__")
    device = "cuda" if not tensors or any(t.device == "cuda" for t in tensors) else "cpu"
    return (tensor(device, sure=any(t.sure for t in tensors), element="float"),)


def apply(frame: Frame, made: Call) -> Value:
    """Judge one call by its entry, take its effects and return its result."""
    operation, node = made.operation, made.node
    spec = operation.result
    decided: Case | None = None
    for case in operation.cases:
        if not conditions.applies(frame, operation, case):
            continue
        match = conditions.holds(frame, case, made.lookup, made.everything, made.receiver)
        if match is Match.NO:
            continue
        if match is Match.ALL:
            decided = case
            break
        if case.hazard is not None and not _registered(frame, made, case.hazard):
            _reject(
                frame, made, case.hazard, case.why or operation.why, case.remedy or operation.remedy, Confidence.LIKELY
            )
    if decided is not None and decided.result is not None:
        spec = decided.result
    if decided is not None and decided.hazard is not None and _registered(frame, made, decided.hazard):
        _accept(frame, made, "the program registers its generators with its graphs")
    elif decided is not None and decided.hazard is not None:
        _reject(
            frame,
            made,
            decided.hazard,
            decided.why or operation.why,
            decided.remedy or operation.remedy,
            _confidence(made),
        )
    elif decided is not None:
        _accept(frame, made, decided.why)
    elif operation.hazard is not None and _concerns_device(frame, made):
        _reject(frame, made, operation.hazard, operation.why, operation.remedy, _weaker(_confidence(made), operation))
    elif operation.ownership is not None:
        frame.record(node, made.path, ownership=OwnershipClass(operation.ownership), message=operation.why)
    else:
        _accept(frame, made, operation.why)
    results.effects(frame, made)
    if spec.kind == "unknown" and operation.kind == "host" and made.path.rpartition(".")[2][:1].isupper():
        return (library_object(made.path, results.site(frame, node)),)
    return results.value(frame, spec, made)


def _registered(frame: Frame, made: Call, hazard: str) -> bool:
    """Whether the draw names a generator that the program may have registered; a host's can be registered nowhere."""
    if hazard != "CAP502" or not frame.machine.memo.get("registered-generator"):
        return False
    given = [atom for atom in made.bound.get("generator", ()) if not isinstance(atom, (Const, Host)) and atom != NONE]
    return bool(given) and all(not isinstance(atom, Object) or {"registered", "device"} <= atom.flags for atom in given)


def _confidence(made: Call) -> Confidence:
    for value in made.everything:
        for atom in value:
            if isinstance(atom, Tensor) and atom.device == "cuda" and not atom.sure:
                return Confidence.LIKELY
    if made.receiver is None and any(UNKNOWN in value for value in made.everything):
        return Confidence.LIKELY
    if isinstance(made.receiver, Object) and made.receiver.site is None and _asks_for_flags(made.operation):
        return Confidence.LIKELY  # how it was made is not known
    return Confidence.CERTAIN


def _asks_for_flags(operation: Operation) -> bool:
    return any(word.startswith("flag:") for case in operation.cases for _, words in case.when for word, _ in words)


def _weaker(found: Confidence, operation: Operation) -> Confidence:
    """Return what the call shows, but no more than the entry claims."""
    return max(found, operation.confidence, key=list(Confidence).index)


def _concerns_device(frame: Frame, made: Call) -> bool:
    """An unconditional hazard of a tensor operation speaks of device tensors, not of host ones."""
    tensors = results.gather(frame, made.everything)
    if made.operation.hazard in ("CAP101", "CAP102", "CAP103", "CAP105", "CAP201") and tensors:
        return any(t.device == "cuda" for t in tensors)
    return True


def _reject(frame: Frame, made: Call, hazard: str, why: str, remedy: str, confidence: Confidence) -> None:
    frame.reject(
        made.node,
        hazard,
        made.path,
        f"{_text(made)}: {why}",
        remedy=remedy,
        confidence=confidence,
        subject=made.subject,
    )


def _text(made: Call) -> str:
    if isinstance(made.node, ast.Call):
        text = " ".join(ast.unparse(made.node.func).split())
        return f"{text if len(text) <= 60 else '...' + text[-57:]}()"
    return made.path


def _accept(frame: Frame, made: Call, why: str) -> None:
    """Record device work as eligible; pure host work is no operation of the boundary."""
    if made.operation.kind == "host":
        return
    touches = (
        any(isinstance(atom, (Tensor, WarpArray)) for value in made.everything for atom in value)
        or made.operation.result.kind in ("factory", "warp", "tensor")
        or "launch" in made.operation.effects
    )
    if not touches:
        return
    frame.record(made.node, made.path, message=why)
    frame.device_work(made.node)
    if frame.recording:
        for value in made.everything:
            for atom in value:
                hazards.frozen_operand(frame, atom, made.node)
