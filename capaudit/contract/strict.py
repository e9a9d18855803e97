"""Field types of the contract's values, and the check that holds every value to them.

``Identity``, ``Counter`` and the others are annotations; ``check_fields`` reads them once per class.
Strict means: a ``bool`` is no integer, a ``list`` no tuple, and nothing is converted.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from capaudit.contract.errors import MalformedError

MAX_IDENTITY_BYTES: Final = 256
MAX_TEXT_BYTES: Final = 4096
MAX_COUNTER: Final = 2**63 - 1

Identity = Annotated[str, "identity"]
"""A non-empty name of at most 256 bytes in UTF-8, without control characters."""
Text = Annotated[str, "text"]
"""A text of at most 4096 bytes in UTF-8; may be empty."""
Counter = Annotated[int, "counter"]
"""An integer from 0 to 2**63 - 1."""
Positive = Annotated[int, "positive"]
"""An integer from 1 to 2**63 - 1."""
Finite = Annotated[float, "finite"]
"""A finite number."""
Sha256 = Annotated[str, "sha256"]
"""64 lower-case hexadecimal digits."""
GitHead = Annotated[str, "git-head"]
"""A full commit id: 40 or 64 lower-case hexadecimal digits."""

_K = TypeVar("_K")
_V = TypeVar("_V")
_Check = Callable[[object, str], None]


class FrozenDict(dict[_K, _V]):
    """A mapping that cannot be changed, so that a frozen value is frozen all the way down."""

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("a value of the contract is frozen")

    __setitem__ = __delitem__ = update = setdefault = pop = popitem = clear = _refuse
    __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return (FrozenDict, (dict(self),))


def check_fields(value: object) -> None:
    """Hold a frozen dataclass to its annotations, and freeze its mappings. Raises MalformedError with the field."""
    kind: Any = type(value)
    for name, check, is_mapping in _checks(kind):
        member = getattr(value, name)
        check(member, name)
        if is_mapping and not isinstance(member, FrozenDict):
            object.__setattr__(value, name, FrozenDict(member))


def malformed(field: str, message: str) -> MalformedError:
    """Return the error for one field."""
    return MalformedError(message, place=field)


@functools.cache
def require_kind(kind: type, value: object, field: str) -> None:
    """Raise MalformedError unless an argument is one of the contract's values."""
    if not isinstance(value, kind):
        raise malformed(field, f"expected a {kind.__name__}, found {shown(value)}")


def _checks(kind: Any) -> tuple[tuple[str, _Check, bool], ...]:
    hints = get_type_hints(kind, include_extras=True)
    names = [field.name for field in fields(kind)]
    return tuple((name, _check_for(hints[name]), get_origin(hints[name]) is Mapping) for name in names)


def _check_for(hint: Any) -> _Check:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _NAMED[arguments[1]]
    if origin is Literal:
        return functools.partial(_one_of, arguments)
    if origin in (Union, types.UnionType):
        inner = [_check_for(argument) for argument in arguments if argument is not types.NoneType]
        optional = types.NoneType in arguments
        return functools.partial(_union, tuple(inner), optional)
    if origin is tuple:
        return functools.partial(_tuple, _check_for(arguments[0]))
    if origin is Mapping:
        return functools.partial(_mapping, _check_for(arguments[0]), _check_for(arguments[1]))
    if hint is Any or hint is object:
        return lambda value, field: None
    return functools.partial(_instance, hint)


def _union(checks: tuple[_Check, ...], optional: bool, value: object, field: str) -> None:
    if value is None and optional:
        return
    for index, check in enumerate(checks):
        try:
            check(value, field)
        except MalformedError:
            if index == len(checks) - 1:
                raise
        else:
            return


def _one_of(allowed: tuple[object, ...], value: object, field: str) -> None:
    # type() as well: 1 == True, and neither may stand for the other.
    if not any(type(value) is type(item) and value == item for item in allowed):
        raise malformed(field, f"expected one of {', '.join(map(str, allowed))}, found {shown(value)}")


def _tuple(check: _Check, value: object, field: str) -> None:
    if type(value) is not tuple:
        raise malformed(field, f"expected a tuple, found {shown(value)}")
    for index, item in enumerate(value):
        check(item, f"{field}[{index}]")


def _mapping(key_check: _Check, check: _Check, value: object, field: str) -> None:
    if not isinstance(value, Mapping):
        raise malformed(field, f"expected a mapping, found {shown(value)}")
    for key, item in value.items():
        key_check(key, field)
        check(item, f"{field}.{key}")


def _instance(kind: type, value: object, field: str) -> None:
    # Exact for the JSON types, because bool is a subclass of int; subclasses of our own values are fine.
    fits = isinstance(value, kind) if is_dataclass(kind) else type(value) is kind
    if not fits:
        raise malformed(field, f"expected {_NAMES.get(kind, kind.__name__)}, found {shown(value)}")


def _identity(value: object, field: str) -> None:
    if type(value) is not str or not value.strip():
        raise malformed(field, f"expected a non-empty string, found {shown(value)}")
    _text(value, field, MAX_IDENTITY_BYTES)
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise malformed(field, f"the text {value[:40]!r} has control characters")


def _text(value: object, field: str, most: int = MAX_TEXT_BYTES) -> None:
    if type(value) is not str:
        raise malformed(field, f"expected a string, found {shown(value)}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise malformed(field, "the text has a lone surrogate and is no valid Unicode") from None
    if size > most:
        raise malformed(field, f"the text has {size} bytes; {most} are allowed")


def _counter(value: object, field: str, least: int = 0) -> None:
    if type(value) is not int:
        raise malformed(field, f"expected an integer, found {shown(value)}")
    if not least <= value <= MAX_COUNTER:
        raise malformed(field, f"expected an integer from {least} to 2**63 - 1, found {shown(value)}")


def _finite(value: object, field: str) -> None:
    if type(value) not in (int, float):
        raise malformed(field, f"expected a number, found {shown(value)}")
    try:
        finite = math.isfinite(value)  # type: ignore[arg-type]
    except OverflowError:
        finite = False
    if not finite:
        raise malformed(field, f"expected a finite number, found {shown(value)}")


def _hexadecimal(lengths: tuple[int, ...], value: object, field: str) -> None:
    if type(value) is not str or len(value) not in lengths or not set(value) <= set("0123456789abcdef"):
        wanted = " or ".join(map(str, lengths))
        raise malformed(field, f"expected {wanted} lower-case hexadecimal digits, found {shown(value)}")


def shown(value: object) -> str:
    """Return a short form of a value for a message; never fails and never prints a huge number."""
    if type(value) is int and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


_NAMES: Final[dict[object, str]] = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}

_NAMED: Final[dict[str, _Check]] = {
    "identity": _identity,
    "text": _text,
    "counter": _counter,
    "positive": functools.partial(_counter, least=1),
    "finite": _finite,
    "sha256": functools.partial(_hexadecimal, (64,)),
    "git-head": functools.partial(_hexadecimal, (40, 64)),
}
