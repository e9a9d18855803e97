"""Hazards that syntax alone triggers: truth tests, host state that reaches device work, host draws."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from capaudit.audit.contexts import Cell
from capaudit.audit.values import Atom, Box, Const, Host, Items, Mapping, Record, Sequence, Slice, Tensor, Value
from capaudit.model import Confidence

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame


def device_tensors(value: Value) -> list[Tensor]:
    return [atom for atom in value if isinstance(atom, Tensor) and atom.device == "cuda"]


def share(value: Value, matching: int) -> Confidence:
    """Certain when every alternative matches."""
    return Confidence.CERTAIN if matching == len(value) else Confidence.LIKELY


def host_read(
    frame: Frame, value: Value, node: ast.AST, how: str, subject: ast.expr | None, name: str = "python.bool"
) -> None:
    """Record that device values in ``value`` become host values (CAP101)."""
    found = device_tensors(value)
    if not found:
        return
    sure = all(t.sure for t in found) and len(found) == len(value)
    # Nobody asks a tensor and a dictionary for their truth in one breath: the tensor is another entry's.
    mixed = any(
        isinstance(atom, (Mapping, Record)) or (isinstance(atom, Box) and atom.kind == "dict") for atom in value
    )
    frame.reject(
        node,
        "CAP101",
        name,
        f"{how}: the host needs a value that the device has not computed yet while it is only being recorded",
        confidence=Confidence.CERTAIN if sure else Confidence.POSSIBLE if mixed else Confidence.LIKELY,
        subject=subject,
    )


def compared(frame: Frame, left: Value, right: Value, node: ast.AST, how: str) -> None:
    """Record an equality of host containers or their elements that asks for the truth of a tensor comparison."""
    sides = [tuple(device_tensors(side)) for side in (left, right)]
    numbers = [any(isinstance(a, (Const, Host)) and a.type_name in _NUMBERS for a in side) for side in (left, right)]
    for side, value, other, number in ((sides[0], left, sides[1], numbers[1]), (sides[1], right, sides[0], numbers[0])):
        if side and len(side) == len(value) and (other or number):  # nothing but tensors is known of this side
            host_read(frame, side, node, f"{how} and asks whether the answer is true", None, "python.contains")
            return


_NUMBERS = ("int", "float", "bool")


def tainted_test(frame: Frame, taint: tuple[Any, ...], node: ast.AST, how: str, subject: ast.expr | None) -> None:
    """Record a branch, loop bound or index that depends on a tainted host value."""
    kind = taint[0]
    if frame.checking and kind in ("device", "dynamic"):
        return  # a replay loses the check and computes the same; what the check reads is judged where it is read
    if kind == "device":
        frame.reject(
            node,
            "CAP202",
            "branch",
            f"{how} on a value read from the device: the path taken while capturing is replayed for every later tick",
            subject=subject,
        )
    elif kind == "dynamic":
        frame.reject(
            node,
            "CAP202",
            "branch",
            f"{how} on a data-dependent shape: the path taken while capturing is replayed for every later tick",
            subject=subject,
        )
    elif frame.held is not None:
        from capaudit.audit.branching import Steered

        if frame.recording:
            frame.held.append(Steered(taint, node, how, subject))
    else:
        frozen(frame, taint, node, how, subject)


SELDOM = "seldom"
"""Where the machine keeps the cells that a caller may change between ticks, but that no loop is seen to change."""


def frozen(
    frame: Frame,
    taint: tuple[Any, ...],
    node: ast.AST,
    how: str,
    subject: ast.expr | None = None,
    confidence: Confidence = Confidence.LIKELY,
) -> None:
    """Record host state, a clock or a host draw that captured work depends on."""
    kind, label, origin = taint
    joint = "on" if how.endswith("depends") else "with"
    if kind == "frozen":
        related: tuple[tuple[Any, ast.AST, str], ...] = ()
        if isinstance(origin, Cell) and origin.tick_write is not None:
            module, place = origin.tick_write
            related = ((module, place, f"{label} is changed here by Python, which a replay does not run"),)
        seldom = origin in frame.machine.memo.get(SELDOM, ())
        changes = "may change between ticks" if seldom else "changes from tick to tick"
        frame.reject(
            node,
            "CAP501",
            "host-state",
            f"{how} {joint} {label}, which Python {changes}: the value of the capture is replayed for ever",
            confidence=Confidence.POSSIBLE if seldom else confidence,
            subject=subject,
            related=related,
            cell=origin if isinstance(origin, Cell) else None,
        )
    elif kind == "clock":
        frame.reject(
            node,
            "CAP501",
            "host-clock",
            f"{how} {joint} {label}, a host clock read: the time of the capture is replayed for ever",
            subject=subject,
        )
    elif kind == "rng":
        module, place = origin
        frame.reject(
            place,
            "CAP502",
            "host-draw",
            f"{label} draws on the host and the result reaches captured work: the number drawn at capture is "
            "replayed for ever",
            related=((frame.module, node, "the drawn value reaches captured work here"),),
            module=module,
        )


def frozen_operand(frame: Frame, atom: Atom, node: ast.AST, how: str = "device work runs") -> None:
    """Record a tainted host operand of device work."""
    if not frame.recording:
        return
    taint: tuple[Any, ...] | None = None
    if isinstance(atom, (Host, Sequence)):
        taint = atom.taint
    elif isinstance(atom, Slice):
        for bound in atom.bounds:
            frozen_operand(frame, bound, node, "a slice is taken")
        return
    elif isinstance(atom, Items):
        for item in atom.items:
            for inner in item:
                frozen_operand(frame, inner, node, how)
        return
    elif isinstance(atom, Box) and atom.kind in ("list", "set"):
        for cell in frame.machine.owner_cells(atom).values():
            for inner in cell.value:
                if isinstance(inner, Host) and inner.taint and inner.taint[0] in ("frozen", "clock", "rng"):
                    frozen(frame, inner.taint, node, how)
        return
    if taint is not None and taint[0] in ("frozen", "clock", "rng"):
        vague = taint[0] == "frozen" and isinstance(atom, Host) and atom.type_name == "any"
        confidence = Confidence.POSSIBLE if vague else Confidence.LIKELY
        frozen(frame, taint, node, how, node if isinstance(node, ast.expr) else None, confidence)
