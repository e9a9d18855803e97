"""Reading the front matter of rule pages."""

from __future__ import annotations

import re
import tomllib

from capaudit.knowledge.rule import FRONT_MATTER, Rule
from capaudit.model import ConfigurationError

PlainPage = tuple[str, str, str, str, str, str, tuple[str, ...], tuple[str, ...]]

_CODE = re.compile(r"(?:CAP|ORD)\d{3}")
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_TEXTS = ("code", "name", "class", "title", "message", "remedy")
_LISTS = ("aliases", "evidence")
_CLASSES = ("rejected", "meta", "pattern", "opt-in pattern")


def parse_page(text: str, file: str) -> PlainPage:
    """Validate one page's front matter. Errors: ``ConfigurationError`` with the file and the key."""
    match = FRONT_MATTER.match(text)
    if match is None:
        raise ConfigurationError("a rule page starts with front matter between +++ lines", place=file)
    try:
        data = tomllib.loads(match.group(1))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"not valid TOML: {error}", place=file) from error
    for key in data:
        if key not in _TEXTS and key not in _LISTS:
            raise ConfigurationError(f"unknown key; known: {', '.join((*_TEXTS, *_LISTS))}", place=f"{file}: {key}")
    for key in _TEXTS:
        if not isinstance(data.get(key), str) or not data[key]:
            raise ConfigurationError("a text is expected", place=f"{file}: {key}")
    for key in _LISTS:
        values = data.setdefault(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise ConfigurationError("a list of texts is expected", place=f"{file}: {key}")
    if not _CODE.fullmatch(data["code"]):
        raise ConfigurationError("a code is CAP or ORD and three digits", place=f"{file}: code")
    if not _NAME.fullmatch(data["name"]):
        raise ConfigurationError("a name is in lower case with hyphens", place=f"{file}: name")
    if data["class"] not in _CLASSES:
        raise ConfigurationError(f"one of {', '.join(_CLASSES)} is expected", place=f"{file}: class")
    code, name, ownership, title, message, remedy = (data[key] for key in _TEXTS)
    return code, name, ownership, title, message, remedy, tuple(data["aliases"]), tuple(data["evidence"])


def build_rule(page: PlainPage, path: str) -> Rule:
    """Turn validated front matter into a ``Rule`` whose page lies at ``path``."""
    return Rule(*page, path)
