"""The JSON schema of a run manifest, drawn from the same annotations that the loader obeys.

A JSON schema cannot say everything that the loader asks: that counters add up, and that identities are
measured in bytes. What passes the loader passes the schema, not always the other way round.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from capaudit.contract.manifest import SCHEMA, RunManifest
from capaudit.contract.strict import MAX_COUNTER, MAX_IDENTITY_BYTES, MAX_TEXT_BYTES

JsonSchema = dict[str, Any]

_NAMED: Final[dict[str, JsonSchema]] = {
    "identity": {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_IDENTITY_BYTES,
        "pattern": "^[^\\x00-\\x1f\\x7f]*$",
    },
    "text": {"type": "string", "maxLength": MAX_TEXT_BYTES},
    "counter": {"type": "integer", "minimum": 0, "maximum": MAX_COUNTER},
    "positive": {"type": "integer", "minimum": 1, "maximum": MAX_COUNTER},
    "finite": {"type": "number"},
    "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "git-head": {"type": "string", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$"},
}
_PLAIN: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}


def manifest_schema() -> JsonSchema:
    """Return the schema of ``capaudit-run-manifest/1``, draft 2020-12, with the rules of what enabled means."""
    body = _object(RunManifest)
    body["properties"] = {"schema": {"const": SCHEMA}, **body["properties"]}
    body["required"] = ["schema", *body["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Run manifest of a collector under the capture contract",
        **body,
        "if": {"properties": {"enabled": {"const": True}}},
        "then": {
            "properties": {
                "mode": {"const": "graph"},
                "requested": {"const": True},
                "state": {"const": "ready"},
                "capture_id": {"type": "string"},
                "disable_reasons": {"maxItems": 0},
                "invalidation_reasons": {"maxItems": 0},
            }
        },
        "else": {
            "properties": {"state": {"not": {"const": "ready"}}, "capture_id": {"type": "null"}},
            "anyOf": [
                {"properties": {"disable_reasons": {"minItems": 1}}},
                {"properties": {"invalidation_reasons": {"minItems": 1}}},
            ],
        },
    }


def _object(kind: Any) -> JsonSchema:
    hints = get_type_hints(kind, include_extras=True)
    properties = {field.name: _schema(hints[field.name]) for field in dataclasses.fields(kind)}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _schema(hint: Any) -> JsonSchema:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return dict(_NAMED[arguments[1]])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        members = [{"type": "null"} if part is types.NoneType else _schema(part) for part in arguments]
        return {"anyOf": members}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is Mapping:
        return {"type": "object", "propertyNames": _schema(arguments[0]), "additionalProperties": _schema(arguments[1])}
    if dataclasses.is_dataclass(hint):
        return _object(hint)
    return {"type": _PLAIN[hint]}
