"""Read a JSON report back, so that it can be shown in another form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from capaudit.model import InputError
from capaudit.report.json import SCHEMA

_REMEDY: Final = "write one with `capaudit check --operations --output json:FILE`"

# Lists of the document and what each of their items has to hold for a reader to rely on.
_SPAN: Final = {"file": str, "line": int}
_ITEMS: Final[Mapping[str, Mapping[str, type]]] = {
    "boundaries": {"name": str, "entry": str, "capture": str, "origin": str},
    "findings": {**_SPAN, "code": str, "name": str, "class": str, "column": int, "message": str, "boundary": str},
    "operations": {**_SPAN, "class": str, "column": int, "owner": str},
    "functions": {**_SPAN, "function": str, "end_line": int, "boundary": str, "called_from": list},
    "unresolved_calls": {**_SPAN, "text": str, "settle": str, "owner": str, "boundary": str},
}
_REQUIRED: Final = ("boundaries", "findings")
_HOP: Final = {**_SPAN, "function": str}


def read_report(path: Path) -> dict[str, Any]:
    """Return the document of a JSON report. Errors: ``InputError`` with what is wrong with the file, and where."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"the report cannot be read: {error.strerror}", place=str(path), remedy=_REMEDY) from error
    except UnicodeDecodeError as error:
        raise InputError("the report is not UTF-8 text", place=str(path), remedy=_REMEDY) from error
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the report is not JSON: {error}", place=str(path), remedy=_REMEDY) from error
    problem = _problem(document)
    if problem:
        raise InputError(f"this is no {SCHEMA} report: {problem}", place=str(path), remedy=_REMEDY)
    assert isinstance(document, dict)
    return document


def _problem(document: Any) -> str:
    if not isinstance(document, dict):
        return "it is not an object"
    if document.get("schema") != SCHEMA:
        return f'its "schema" is {json.dumps(document.get("schema"))[:80]}'
    if not isinstance(document.get("tool", {}), dict):
        return '"tool" is not an object'
    for key, fields in _ITEMS.items():
        if key not in document:
            if key in _REQUIRED:
                return f'"{key}" is missing'
            continue
        if not isinstance(document[key], list):
            return f'"{key}" is not a list'
        for index, item in enumerate(document[key]):
            wrong = _wrong(item, fields) or _wrong_path(item)
            if wrong:
                return f"{key}[{index}]{wrong}"
    return ""


def _wrong(item: Any, fields: Mapping[str, type]) -> str:
    if not isinstance(item, dict):
        return " is not an object"
    for name, kind in fields.items():
        value = item.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            return f'."{name}" is {"missing" if name not in item else "of the wrong kind"}'
    return ""


def _wrong_path(item: Mapping[str, Any]) -> str:
    for key in ("call_path", "called_from"):
        hops = item.get(key, [])
        if not isinstance(hops, list):
            return f'."{key}" is not a list'
        for index, hop in enumerate(hops):
            wrong = _wrong(hop, _HOP)
            if wrong:
                return f".{key}[{index}]{wrong}"
    return ""
