"""YAML without surprises: nodes in place of values, so that nothing is coerced, merged or dropped on the way in.

PyYAML is imported when the first file is read. Its C parser bounds nesting; aliases, anchors and explicit
tags are refused, so that a file can neither explode nor mean something that it does not show.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, Protocol

from capaudit.ordering.errors import BadNameError, CorruptRecordError, DuplicateKeyError, InvalidYamlError

LARGEST_FILE: Final = 16 * 1024 * 1024
_STR: Final = "tag:yaml.org,2002:str"
_MEANINGS: Final = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "timestamp": "a date",
}
_MERGE: Final = "tag:yaml.org,2002:merge"


class Node(Protocol):
    """A PyYAML node, as far as it is used here."""

    tag: str
    value: Any
    start_mark: Any
    id: str


def compose(data: bytes, place: str, *, allow_aliases: bool = False) -> Node:
    """Return the root node of the one document in ``data``.

    Errors: ``InvalidYamlError`` with line and column for what is no UTF-8, no YAML, empty, more than one
    document, or (unless allowed) uses anchors, aliases or explicit tags.
    """
    if len(data) > LARGEST_FILE:
        raise InvalidYamlError(f"{len(data)} bytes are more than any record needs", place=place)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidYamlError(
            f"invalid YAML: byte {error.start} is not UTF-8", place=f"{place}:{line}", details={"line": line}
        ) from error
    yaml: Any = import_module("yaml")
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if not allow_aliases and any(mark in text for mark in "&*!"):
            _refuse_indirection(yaml.parse(text, Loader=base), place)
        loader = base(text)
        try:
            root: Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise _invalid(error, place) from error
    except RecursionError as error:
        raise InvalidYamlError("invalid YAML: it nests too deeply", place=place) from error
    if root is None:
        raise InvalidYamlError("the file is empty", place=place, details={"line": 1})
    return root


def _refuse_indirection(events: Iterator[Any], place: str) -> None:
    for event in events:
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if anchor is not None or (tag is not None and tag != "!"):
            what = f"the tag {tag}" if anchor is None else f"the anchor or alias {anchor!r}"
            line = event.start_mark.line + 1
            raise InvalidYamlError(
                f"a record uses neither anchors nor tags, and here is {what}",
                place=f"{place}:{line}",
                details={"line": line},
            )


def _invalid(error: Any, place: str) -> InvalidYamlError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if mark is None:
        return InvalidYamlError(f"invalid YAML: {problem}", place=place)
    line = mark.line + 1
    return InvalidYamlError(
        f"invalid YAML: {problem}",
        place=f"{place}:{line}:{mark.column + 1}",
        details={"line": line, "column": mark.column + 1},
    )


def line_of(node: Node) -> int:
    """1-based line of the node."""
    return int(node.start_mark.line) + 1


def mapping(node: Node, place: str, what: str) -> dict[str, Node]:
    """Return a mapping's values by key. Errors: ``DuplicateKeyError``; ``CorruptRecordError`` for no mapping."""
    if node.id != "mapping":
        raise CorruptRecordError(f"corrupt record: {what} is no mapping", place=f"{place}:{line_of(node)}")
    found: dict[str, Node] = {}
    for key_node, value in node.value:
        if key_node.tag == _MERGE:
            raise CorruptRecordError(
                f"corrupt record: {what} uses the merge key '<<'", place=f"{place}:{line_of(key_node)}"
            )
        key = text(key_node, place, f"a key of {what}")
        if key in found:
            line = line_of(key_node)
            raise DuplicateKeyError(
                f"the key {key!r} of {what} stands there twice (first in line {line_of(found[key])})",
                place=f"{place}:{line}",
                remedy="keep one of the two",
                details={"key": key, "line": line},
            )
        found[key] = value
    return found


def text(node: Node, place: str, what: str, **details: Any) -> str:
    """Return a scalar that is text. Errors: ``BadNameError`` that says to quote what YAML took for something else."""
    if node.id == "scalar" and node.tag == _STR:
        return str(node.value)
    line = line_of(node)
    where = f"{place}:{line}"
    if node.id != "scalar":
        raise BadNameError(f"{what} is a {node.id}, not a name", place=where, details={"line": line, **details})
    kind = node.tag.rpartition(":")[2]
    meaning = _MEANINGS.get(kind, f"a {kind}")
    quoted = '"' + str(node.value).replace("\\", "\\\\").replace('"', '\\"') + '"'
    raise BadNameError(
        f"{what} is {node.value or 'nothing'!r}, which YAML takes for {meaning}: quote this name",
        place=where,
        remedy=f"quote this name: write {quoted}",
        details={"line": line, "value": str(node.value), "read_as": kind, **details},
    )


def is_text(node: Node) -> bool:
    """Whether the node is a scalar that YAML reads as text."""
    return node.tag == _STR and node.id == "scalar"


def is_null(node: Node) -> bool:
    """Whether the node is YAML's null."""
    return bool(node.id == "scalar" and node.tag.endswith(":null"))


def items(node: Node, place: str, what: str) -> list[Node]:
    """Return a sequence's nodes. Errors: ``CorruptRecordError`` for anything else."""
    if node.id != "sequence":
        raise CorruptRecordError(f"corrupt record: {what} is no list", place=f"{place}:{line_of(node)}")
    return list(node.value)


def plain(node: Node, place: str, what: str = "the document", depth: int = 0) -> Any:
    """Return a node as plain data, with the few kinds of scalar that JSON has; dates and the like stay texts.

    Errors: ``DuplicateKeyError``; ``CorruptRecordError`` for deeper nesting than anybody writes.
    """
    if depth > 100:
        raise CorruptRecordError(f"corrupt record: {what} nests too deeply", place=f"{place}:{line_of(node)}")
    if node.id == "sequence":
        return [plain(item, place, what, depth + 1) for item in node.value]
    if node.id == "mapping":
        found: dict[str, Any] = {}
        for key_node, value in node.value:
            key = str(key_node.value) if key_node.id == "scalar" else f"<{key_node.id}>"
            if key in found:
                raise DuplicateKeyError(
                    f"the key {key!r} of {what} stands there twice",
                    place=f"{place}:{line_of(key_node)}",
                    details={"key": key, "line": line_of(key_node)},
                )
            found[key] = plain(value, place, f"{what}.{key}", depth + 1)
        return found
    return _scalar(node)


def _scalar(node: Node) -> Any:
    kind, value = node.tag.rpartition(":")[2], str(node.value)
    if kind == "null":
        return None
    if kind == "bool":
        return value.lower() in ("true", "yes", "on")
    if kind in ("int", "float"):
        try:
            return int(value) if kind == "int" else float(value)
        except ValueError:  # YAML's base-60 and binary numbers: provenance, and never computed with
            return value
    return value
