"""Plain JSON values to frozen dataclasses and back, driven by the field types.

Strict in both directions: an unknown key, a missing key or a value of the wrong JSON type is an
error that names the place as a JSON path (``$.events[3].line``).
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from capaudit.evidence.document import JsonValue
from capaudit.model import CapauditError

T = TypeVar("T")


class MismatchError(ValueError):
    """A value does not have the declared form; ``path`` is its JSON path."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


def decode(kind: type[T], value: object, path: str = "$") -> T:
    """Build the dataclass ``kind`` from a JSON object. Raises MismatchError."""
    if not isinstance(value, dict):
        raise MismatchError(path, f"expected an object, found {_json_name(value)}")
    hints = get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in value:
        if key not in fields:
            raise MismatchError(path, f"unknown key {_short(key)}; known keys: {', '.join(fields)}")
    arguments: dict[str, Any] = {}
    for name, declared in fields.items():
        if name in value:
            arguments[name] = _decode(hints[name], value[name], f"{path}.{name}")
        elif declared.default is dataclasses.MISSING and declared.default_factory is dataclasses.MISSING:
            raise MismatchError(path, f"the key {name!r} is missing")
    try:
        return kind(**arguments)
    except CapauditError as error:
        # A value that checks itself names its field; the document adds where that stands.
        raise MismatchError(f"{path}.{error.place}" if error.place else path, error.message) from None


def encode(value: object) -> JsonValue:
    """Turn a dataclass into JSON values, leaving out fields that hold their default."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = [f.name for f in dataclasses.fields(value) if not _holds_default(f, value)]
        return {name: encode(getattr(value, name)) for name in kept}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def encode_whole(value: object) -> JsonValue:
    """Turn a dataclass into JSON values with every field, also those that hold their default."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode_whole(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode_whole(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode_whole(item) for item in value]
    return encode(value)


def _holds_default(declared: dataclasses.Field[Any], owner: object) -> bool:
    value = getattr(owner, declared.name)
    if declared.default is not dataclasses.MISSING:
        return bool(value == declared.default)
    if declared.default_factory is not dataclasses.MISSING:
        return bool(value == declared.default_factory())
    return False


def _decode(hint: Any, value: object, path: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return decode(hint, value, path)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        if value not in arguments:
            raise MismatchError(path, f"expected one of {', '.join(map(str, arguments))}, found {_short(value)}")
        return value
    if origin in (Union, types.UnionType):
        return _decode_union(arguments, value, path)
    if origin is tuple:
        items = _require(list, value, path)
        return tuple(_decode(arguments[0], item, f"{path}[{index}]") for index, item in enumerate(items))
    if origin is Mapping:
        members = _require(dict, value, path)
        return {key: _decode(arguments[1], item, f"{path}.{key}") for key, item in members.items()}
    if origin is dict:
        # JsonObject (target, parameters) is free-form: what json.loads gave is already right.
        return _require(dict, value, path)
    return _require(hint, value, path)


def _decode_union(members: tuple[Any, ...], value: object, path: str) -> Any:
    if value is None and types.NoneType in members:
        return None
    others = [member for member in members if member is not types.NoneType]
    if len(others) == 1 and others[0] not in _TYPE_NAMES:
        return _decode(others[0], value, path)
    for member in members:
        if isinstance(member, type) and _is_json_type(value, member):
            return value
    names = " or ".join(_TYPE_NAMES.get(member, str(member)) for member in members)
    raise MismatchError(path, f"expected {names}, found {_json_name(value)}")


def _require(kind: type, value: object, path: str) -> Any:
    if not _is_json_type(value, kind):
        raise MismatchError(path, f"expected {_TYPE_NAMES.get(kind, kind.__name__)}, found {_json_name(value)}")
    return value


def _is_json_type(value: object, kind: type) -> bool:
    # bool is an int in Python and is not one in JSON; an int is a valid JSON number for a float field.
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, (int, float))
    return isinstance(value, kind)


_TYPE_NAMES: dict[Any, str] = {
    str: "a string", int: "an integer", float: "a number", bool: "true or false", dict: "an object", list: "an array",
    types.NoneType: "null",
}  # fmt: skip


def _short(value: object) -> str:
    # A hostile document must not fill the terminal.
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value) if isinstance(value, (str, int, float, bool, types.NoneType)) else _json_name(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _json_name(value: object) -> str:
    return _TYPE_NAMES.get(type(value), type(value).__name__)
