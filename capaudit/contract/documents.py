"""The contract's values as JSON documents: one loader, strict about every key at every level."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from capaudit.contract.errors import MalformedError, Refusal
from capaudit.evidence.decoding import MismatchError, decode, encode_whole
from capaudit.evidence.document import JsonObject
from capaudit.evidence.reading import parse_json, read_text

T = TypeVar("T")

_REMEDY: Final = "correct the document, or have its producer write it again"


def to_document(value: object, schema: str) -> JsonObject:
    """Return a contract value as JSON values, ``schema`` first and every field present."""
    return {"schema": schema, **cast("JsonObject", encode_whole(value))}


def from_document(kind: type[T], document: object, schema: str, source: str) -> T:
    """Build a contract value. Raises MalformedError with ``source`` and the JSON path of what is wrong."""
    return member(kind, _body(document, schema, source), source, "$")


def member(kind: type[T], value: object, source: str, path: str) -> T:
    """Build the value that stands at a JSON path of a document. Raises MalformedError."""
    try:
        return decode(kind, value, path)
    except MismatchError as error:
        raise _malformed(source, error.path, error.message) from None


def _body(document: object, schema: str, source: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise _malformed(source, "$", f"expected an object with the schema {schema!r}")
    found = document.get("schema")
    if found != schema:
        shown = "there is no schema field" if found is None else f"its schema is {str(found)[:60]!r}"
        raise _malformed(source, "$.schema", f"this is no {schema} document: {shown}")
    return {key: value for key, value in document.items() if key != "schema"}


def dumps(value: object, schema: str) -> str:
    """Return the document as indented text that loads again."""
    return json.dumps(to_document(value, schema), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def loads(kind: type[T], text: str, schema: str, source: str = "document") -> T:
    """Parse and validate. Raises InputError for what is no JSON, MalformedError for what is no such document."""
    return from_document(kind, parse_json(text, source, _REMEDY), schema, source)


def load(kind: type[T], path: Path, schema: str, what: str) -> T:
    """Read one file, which must be a regular one and no link. Raises InputError or MalformedError."""
    return loads(kind, read_text(path, what, _REMEDY, follow_links=False), schema, str(path))


def load_plain(path: Path, schema: str, what: str) -> dict[str, Any]:
    """Read one file of this schema as JSON values without the schema field. Raises InputError or MalformedError."""
    text = read_text(path, what, _REMEDY, follow_links=False)
    return _body(parse_json(text, str(path), _REMEDY), schema, str(path))


def canonical_sha256(value: object) -> str:
    """Return the digest of a contract value or of JSON values: sorted keys, no spaces, ASCII."""
    plain = value if isinstance(value, (dict, list, str, int, float)) else encode_whole(value)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _malformed(source: str, path: str, message: str) -> MalformedError:
    refusals = (Refusal("malformed", path, message),)
    return MalformedError(message, place=f"{source}: {path}", remedy=_REMEDY, refusals=refusals)
