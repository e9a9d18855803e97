from __future__ import annotations

import json
from typing import Any

import jsonschema

from capaudit import __version__
from capaudit.report import RenderOptions, render
from tests.report.sample import full_sample, sample

TEXT = {"type": "string"}
NUMBER = {"type": "integer", "minimum": 0}


def closed(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [key for key in properties if key not in optional],
        "additionalProperties": False,
    }


CLASSES = {"enum": ["graph-eligible", "completion-owned", "cold-path", "rejected", "unresolved"]}
SPAN = {
    "file": TEXT,
    "line": NUMBER,
    "end_line": NUMBER,
    "column": {"type": "integer", "minimum": 1},
    "end_column": {"type": "integer", "minimum": 1},
}
HOPS = {"type": "array", "items": closed({"function": TEXT, "file": TEXT, "line": NUMBER})}
HAZARD = {"type": ["string", "null"]}
SUPPRESSION = closed(
    {
        "file": TEXT,
        "line": NUMBER,
        "rules": {"type": "array", "items": TEXT},
        "reason": TEXT,
        "expires": {"type": ["string", "null"]},
    }
)
OBSERVATION = closed({"document": TEXT, "mode": TEXT, "count": NUMBER, "detail": TEXT, "stale": {"type": "boolean"}})
FINDING = closed(
    {
        "code": {"type": "string", "pattern": "^(CAP|ORD)[0-9]{3}$"},
        "name": TEXT,
        "class": CLASSES,
        "hazard": HAZARD,
        **SPAN,
        "message": TEXT,
        "confidence": {"enum": ["certain", "likely", "possible"]},
        "boundary": TEXT,
        "call_path": HOPS,
        "why": {"type": "array", "items": TEXT},
        "remedy": TEXT,
        "related": {"type": "array", "items": closed({**SPAN, "message": TEXT})},
        "fingerprint": TEXT,
        "evidence": {"enum": ["confirmed", "refuted", "not-exercised", "not-probed"]},
        "observation": {"anyOf": [{"type": "null"}, OBSERVATION]},
        "severity": {"enum": ["error", "warning", "note"]},
        "suppression": {"anyOf": [{"type": "null"}, SUPPRESSION]},
        "fixes": {
            "type": "array",
            "items": closed(
                {
                    "name": TEXT,
                    "message": TEXT,
                    "safe": {"type": "boolean"},
                    "edits": {"type": "array", "minItems": 1, "items": closed({**SPAN, "text": TEXT})},
                }
            ),
        },
        "baseline_state": {"enum": ["new", "unchanged", "absent", None]},
    }
)
ABSENT = closed(
    {
        **dict.fromkeys(("fingerprint", "code", "file", "function", "text", "reason", "added", "boundary"), TEXT),
        "count": NUMBER,
    }
)
EVIDENCE = closed(
    {
        "documents": {"type": "array", "items": TEXT},
        "rows": {
            "type": "array",
            "items": closed(
                {
                    "code": TEXT,
                    "name": TEXT,
                    "confirmed": NUMBER,
                    "refuted": NUMBER,
                    "not_exercised": NUMBER,
                    "missed": NUMBER,
                }
            ),
        },
        "stale": NUMBER,
        "unexercised": {"type": "array", "items": TEXT},
        "foreign": {"type": "array", "items": TEXT},
    }
)
SCHEMA = closed(
    {
        "schema": {"const": "capaudit-report/1"},
        "tool": closed({"name": {"const": "capaudit"}, "version": {"const": __version__}}),
        "boundaries": {
            "type": "array",
            "items": closed(
                {
                    "name": TEXT,
                    "entry": TEXT,
                    "capture": {"enum": ["torch", "warp", "shared"]},
                    "origin": TEXT,
                    "file": TEXT,
                    "line": NUMBER,
                }
            ),
        },
        "findings": {"type": "array", "items": FINDING},
        "suppressed": {"type": "array", "items": FINDING},
        "baselined": {"type": "array", "items": FINDING},
        "absent": {"type": "array", "items": ABSENT},
        "evidence": {"anyOf": [{"type": "null"}, EVIDENCE]},
        "audits": {
            "type": "array",
            "items": closed(
                {
                    "audit": {"enum": ["environment", "backend", "collector"]},
                    "packages": {"type": "array", "items": TEXT},
                    "functions": NUMBER,
                    "findings": NUMBER,
                    "unresolved": NUMBER,
                }
            ),
        },
        "operations": {
            "type": "array",
            "items": closed(
                {
                    "class": CLASSES,
                    "hazard": HAZARD,
                    **SPAN,
                    "owner": TEXT,
                    "boundary": TEXT,
                    "operation": TEXT,
                    "text": TEXT,
                    "reason": TEXT,
                }
            ),
        },
        "functions": {
            "type": "array",
            "items": closed({"function": TEXT, **SPAN, "boundary": TEXT, "called_from": HOPS}),
        },
        "unresolved_calls": {
            "type": "array",
            "items": closed({**SPAN, "text": TEXT, "receiver": TEXT, "settle": TEXT, "owner": TEXT, "boundary": TEXT}),
        },
        "pruned": {"type": "array", "items": closed({**SPAN, "reason": TEXT})},
        "statistics": closed(
            {
                "files": NUMBER,
                "functions_reachable": NUMBER,
                "operations": NUMBER,
                "by_class": {"type": "object", "additionalProperties": NUMBER},
                "unresolved": NUMBER,
                "seconds": {"type": ["number", "null"]},
            }
        ),
    },
    optional=("operations", "functions", "unresolved_calls", "pruned"),
)


def test_the_report_has_exactly_the_documented_keys() -> None:
    for operations in (False, True):
        document = json.loads(render("json", sample(), RenderOptions(operations=operations)))
        jsonschema.validate(document, SCHEMA)
        for key in ("operations", "functions", "unresolved_calls", "pruned"):
            assert (key in document) is operations


def test_what_was_silenced_accepted_and_observed_stays_in_the_report() -> None:
    document = json.loads(render("json", full_sample(), RenderOptions()))
    jsonschema.validate(document, SCHEMA)
    silenced = document["suppressed"][0]
    assert (silenced["suppression"]["reason"], silenced["suppression"]["line"]) == ("debug build only", 3)
    assert silenced["observation"]["stale"] is True
    assert document["baselined"][0]["baseline_state"] == "unchanged"
    assert document["absent"][0]["fingerprint"] == "dead"
    assert document["evidence"]["rows"][0]["missed"] == 2


def test_a_finding_carries_its_place_path_and_story() -> None:
    finding = json.loads(render("json", sample(), RenderOptions()))["findings"][0]
    assert (finding["file"], finding["line"], finding["end_line"], finding["column"]) == ("timers.py", 3, 3, 9)
    assert [hop["function"] for hop in finding["call_path"]] == ["Timers.tick", "Timers.restart"]
    assert finding["why"] == ["left is a device tensor", "ids holds integers"]
    assert finding["evidence"] == "not-probed"


def test_wall_time_is_null_unless_statistics_are_asked_for() -> None:
    plain, timed = RenderOptions(), RenderOptions(statistics=True)
    assert json.loads(render("json", sample(), plain))["statistics"]["seconds"] is None
    assert json.loads(render("json", sample(), timed))["statistics"]["seconds"] == 1.5
    assert render("json", sample(seconds=1.0), plain) == render("json", sample(seconds=2.0), plain)


def test_the_bytes_are_ascii_so_that_no_locale_can_break_them() -> None:
    from dataclasses import replace

    from tests.report.sample import UPLOAD

    odd = replace(UPLOAD, message="naïve \udc80")
    assert render("json", sample(findings=(odd,)), RenderOptions()).isascii()
