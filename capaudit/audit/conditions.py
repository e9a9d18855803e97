"""Deciding the conditions of operation tables over abstract values.

A condition on one parameter holds for an alternative when all its words hold; it is certain when
it holds for every alternative of the value, possible when it holds for some. Words about a value
that is not known never hold: ignorance is not evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING

from capaudit.audit.values import (
    NONE,
    UNKNOWN,
    Array,
    Atom,
    Box,
    Const,
    Host,
    Items,
    Library,
    Mapping,
    Object,
    Record,
    Sequence,
    Slice,
    Tensor,
    Value,
    WarpArray,
)
from capaudit.knowledge import Case, Operation, Word

if TYPE_CHECKING:
    from capaudit.audit.frame import Frame

Lookup = Callable[[str], "Value | None"]


class Match(IntEnum):
    """Whether a condition holds: for no alternative, for some, for all."""

    NO = 0
    SOME = 1
    ALL = 2


_DEFAULT_VERSIONS = {"torch": "2.11", "warp": "1.19", "mujoco_warp": "4.0", "mujoco": "3.17", "numpy": "2.0"}


def applies(frame: Frame, operation: Operation, case: Case) -> bool:
    """Whether a case speaks about the capture kind and the library version at hand."""
    if case.capture and capture_kind(frame) not in case.capture:
        return False
    if case.versions is not None:
        version = frame.machine.versions.get(operation.library) or _DEFAULT_VERSIONS.get(operation.library)
        if version is not None and not case.versions.contains(version):
            return False
    return True


def capture_kind(frame: Frame) -> str:
    """The capture kind in force here: a Torch capture that was registered with Warp is shared."""
    if frame.machine.capture == "torch" and frame.flag("registered"):
        return "shared"
    return frame.machine.capture


def holds(frame: Frame, case: Case, lookup: Lookup, everything: list[Value], receiver: Atom | None) -> Match:
    """Whether all conditions of a case hold for a call's arguments."""
    result = Match.ALL
    for parameter, words in case.when:
        if parameter == "*":
            found = max((_any_atom(frame, value, words) for value in everything), default=Match.NO)
        elif parameter == "receiver":
            found = _atom_match(frame, receiver, words) if receiver is not None else Match.NO
        else:
            found = value_match(frame, lookup(parameter), words)
        result = min(result, found)
        if result is Match.NO:
            return result
    return result


def _atom_match(frame: Frame, atom: Atom, words: tuple[Word, ...]) -> Match:
    verdict = _all_words(frame, atom, words)
    return Match.SOME if verdict is None else (Match.ALL if verdict else Match.NO)


def _any_atom(frame: Frame, value: Value, words: tuple[Word, ...]) -> Match:
    return value_match(frame, value, words)


def value_match(frame: Frame, value: Value | None, words: tuple[Word, ...]) -> Match:
    """Match a value (``None``: the argument is absent) against predicate words."""
    if value is None:
        return Match.ALL if all(_absent(word) != negated for word, negated in words) else Match.NO
    if not value:
        return Match.NO
    if words == (("given", False),):
        return Match.ALL
    yes = some = 0
    for atom in value:
        verdict = _all_words(frame, atom, words)
        if verdict:
            yes += 1
        elif verdict is None:
            some += 1
    if yes == len(value):
        return Match.ALL
    return Match.SOME if yes or some else Match.NO


def _absent(word: str) -> bool:
    return word in ("absent", "not-true", "not-false")


def _all_words(frame: Frame, atom: Atom, words: tuple[Word, ...]) -> bool | None:
    result: bool | None = True
    for word, negated in words:
        verdict = _word(frame, atom, word)
        if verdict is None:
            result = None if result else result
            if atom is UNKNOWN:
                return False
            continue
        if verdict == negated:
            return False
    return result


def _word(frame: Frame, atom: Atom, word: str) -> bool | None:
    """One word on one alternative; ``None`` where that cannot be told."""
    if word in ("given", "absent"):
        return word == "given"
    if word in ("true", "false", "not-true", "not-false"):
        return _boolean(atom, word)
    if atom is UNKNOWN:
        return None
    if word.startswith("flag:"):
        return isinstance(atom, Object) and word[5:] in atom.flags
    if word.startswith("=") and isinstance(atom, Library):
        return atom.path == word[1:]
    if word.startswith("="):
        return isinstance(atom, Const) and str(atom.value) == word[1:]
    handler = _WORDS.get(word)
    return handler(frame, atom) if handler is not None else False


def _boolean(atom: Atom, word: str) -> bool | None:
    known: bool | None = None
    if isinstance(atom, Const):
        known = bool(atom.value)
    elif not isinstance(atom, Host) and atom is not UNKNOWN:
        known = True
    if known is None:
        return True if word == "not-false" and atom is not UNKNOWN else None
    return (
        {"true": known, "false": not known, "not-true": not known, "not-false": known}[word]
        if atom is not NONE
        else word.startswith("not-")
    )


def _tensor(test: Callable[[Tensor], bool | None]) -> Callable[[Frame, Atom], bool | None]:
    return lambda frame, atom: test(atom) if isinstance(atom, Tensor) else False


def _element(kind: str) -> Callable[[Frame, Atom], bool | None]:
    def check(frame: Frame, atom: Atom) -> bool | None:
        if isinstance(atom, Tensor):
            return None if atom.element is None else atom.element == kind
        if isinstance(atom, Array):
            return None if atom.element is None else atom.element == kind
        if isinstance(atom, (Const, Host)):
            return atom.type_name == kind
        return False

    return check


def _is_sequence(frame: Frame, atom: Atom) -> bool | None:
    if isinstance(atom, (Items, Sequence)):
        return True
    return isinstance(atom, Box) and atom.kind in ("list", "set")


def contains_device(frame: Frame, atom: Atom, depth: int = 3) -> bool:
    """True when a container holds a device tensor or Warp array somewhere."""
    return any(holds_device(frame, value, depth) for value in content(frame, atom))


def holds_device(frame: Frame, value: Value, depth: int = 3) -> bool:
    for atom in value:
        if isinstance(atom, Tensor) and atom.device == "cuda":
            return True
        if depth and contains_device(frame, atom, depth - 1):
            return True
    return False


def content(frame: Frame, atom: Atom) -> list[Value]:
    """The values that a container holds."""
    match atom:
        case Items():
            return list(atom.items)
        case Sequence():
            return [atom.item]
        case Mapping():
            return [atom.item]
        case Record():
            return [value for _, value in atom.entries]
        case Box():
            machine = frame.machine
            return [
                machine.read_cell(cell, frame.context)
                for name, cell in list(machine.owner_cells(atom).items())
                if name != "#keys"
            ]
        case _:
            return []


def _scalar(frame: Frame, atom: Atom) -> bool | None:
    if isinstance(atom, (Const, Host)):
        if atom.type_name in ("int", "float", "bool", "complex"):
            return True
        return None if atom.type_name == "any" else False
    return False


def _no_size(frame: Frame, atom: Atom) -> bool:
    """Whether a shape has an axis that is written as 0."""
    sizes = atom.items if isinstance(atom, Items) else ((atom,),)
    return any(isinstance(size, Const) and size.value == 0 for value in sizes for size in value if len(value) == 1)


def _device_name(wanted: str) -> Callable[[Frame, Atom], bool | None]:
    def check(frame: Frame, atom: Atom) -> bool | None:
        named = named_device(atom)
        return False if named is None else named == wanted

    return check


def named_device(atom: Atom) -> str | None:
    """The device that an argument names: in a CUDA boundary a device that is not spelled out is CUDA."""
    match atom:
        case Const() if isinstance(atom.value, str):
            if atom.value.startswith("cpu"):
                return "cpu"
            return "cuda" if atom.value.startswith(("cuda", "gpu")) or ":" in atom.value else None
        case Const() if atom.type_name == "int":
            return "cuda"
        case Object() if atom.path in ("torch.device", "warp.Device"):
            return "cpu" if "cpu" in atom.flags else "cuda"
        case Host() if atom.type_name in ("str", "any"):
            return "cuda"
        case _:
            return None


_WORDS: dict[str, Callable[[Frame, Atom], bool | None]] = {
    "device": lambda f, a: a.device == "cuda" if isinstance(a, (Tensor, WarpArray)) else False,
    "cpu": lambda f, a: a.device == "cpu" if isinstance(a, (Tensor, WarpArray)) else False,
    "cpu-tensor": _tensor(lambda t: t.device == "cpu"),
    "pinned": _tensor(lambda t: t.device == "cpu" and t.pinned),
    "pageable": _tensor(lambda t: t.device == "cpu" and not t.pinned),
    "tensor": _tensor(lambda t: True),
    "0d": _tensor(lambda t: t.rank == 0),
    "not-0d": _tensor(lambda t: t.rank != 0),
    "dynamic": _tensor(lambda t: t.dynamic),
    "bool": _element("bool"),
    "int": _element("int"),
    "float": _element("float"),
    "int-tensor": _tensor(lambda t: None if t.element is None else t.element == "int"),
    "0d-int": _tensor(lambda t: t.rank == 0 and t.element == "int" and t.device == "cuda"),
    "scalar": _scalar,
    "number": _scalar,
    "sequence": _is_sequence,
    "range": lambda f, a: isinstance(a, Sequence) and a.kind == "range",
    "slice": lambda f, a: isinstance(a, Slice),
    "ndarray": lambda f, a: isinstance(a, Array),
    "warp": lambda f, a: isinstance(a, WarpArray),
    "str": lambda f, a: isinstance(a, (Const, Host)) and a.type_name == "str",
    "none": lambda f, a: a is NONE,
    "cuda-name": _device_name("cuda"),
    "cpu-name": _device_name("cpu"),
    "no-size": _no_size,
    "contains-device": lambda f, a: contains_device(f, a),
}


def dtype_element(value: Value) -> str | None:
    """The element kind that a dtype argument names."""
    for atom in value:
        name = ""
        if isinstance(atom, Library):
            name = atom.path.rpartition(".")[2]
        elif isinstance(atom, Const) and isinstance(atom.value, str):
            name = atom.value
        if not name:
            continue
        if name in ("bool", "bool_"):
            return "bool"
        if name.startswith(("int", "uint", "long", "short", "i4", "i8")) or name in ("int", "byte"):
            return "int"
        if name.startswith(("float", "double", "half", "bfloat", "f4", "f8")):
            return "float"
    return None
