"""One HTML file from a report: its data as JSON, its style and script inside, nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from capaudit.evidence import Evidence
from capaudit.report.html.payload import build_payload

_MARKUP: Final = re.compile("[<>&\u2028\u2029]")


def render_page(document: dict[str, Any], folder: Path, evidence: Sequence[tuple[str, Evidence]] = ()) -> str:
    """Return the page of a ``capaudit-report/1`` document, the same bytes for the same input.

    ``folder`` is what the document's file names are relative to; a source that is not there costs its
    frames alone. ``evidence`` adds probe documents by name.
    """
    here = files("capaudit.report.html")
    style = (here / "page.css").read_text(encoding="utf-8")
    parts = sorted((part for part in (here / "script").iterdir() if part.name.endswith(".js")), key=lambda p: p.name)
    script = "(() => {\n'use strict';\n" + "".join(part.read_text(encoding="utf-8") for part in parts) + "})();\n"
    payload = build_payload(document, folder, evidence)
    names = ", ".join(boundary["name"] for boundary in payload["boundaries"]) or "no boundary"
    values = {
        "policy": f"default-src 'none'; script-src {_hash(script)}; style-src 'unsafe-inline'; base-uri 'none'",
        "generator": html.escape(f"capaudit {payload['version']}"),
        "title": html.escape(f"{names} - capaudit"),
        "style": style,
        "data": _embedded(payload),
        "script": script,
    }
    template = (here / "page.html").read_text(encoding="utf-8")
    # One pass: what is put in is never searched for further places.
    return re.sub("@([a-z]+)@", lambda match: values[match[1]], template)


def _embedded(payload: dict[str, Any]) -> str:
    """JSON without a character that could end the script element that holds it, or that is not text."""
    text = json.dumps(payload, separators=(",", ":"))
    return _MARKUP.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _hash(script: str) -> str:
    """The policy's name of the one script that may run: anything smuggled into the page stays dead text."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
