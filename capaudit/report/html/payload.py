"""The data of the page: a report document with repeated texts named once, and the sources that it speaks of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from capaudit.evidence import Evidence
from capaudit.report.html.spans import FunctionSpans
from capaudit.report.source import SourceLines

_MOST_SOURCE: Final = 4_000_000
"""Characters of source; beyond it only functions with findings keep theirs, so that the page stays quick."""

_NO_OPERATIONS: Final = (
    "This report was written without --operations: it shows the functions on the way to findings, "
    "and no operation that was found safe."
)


def build_payload(
    document: Mapping[str, Any], folder: Path, evidence: Sequence[tuple[str, Evidence]] = ()
) -> dict[str, Any]:
    """Return the page's data as plain JSON values; texts that repeat stand in ``strings`` once."""
    texts = _Strings()
    sources = SourceLines(folder)
    findings = _findings(document)
    functions = _functions(document, findings, FunctionSpans(sources))
    names = {finding["code"]: finding["name"] for finding in findings}
    operations = document.get("operations") or []
    return {
        "version": str(document.get("tool", {}).get("version", "")),
        "note": "" if "operations" in document else _NO_OPERATIONS,
        "boundaries": list(document.get("boundaries", ())),
        "findings": findings,
        "evidence": document.get("evidence"),
        "unresolved": [{**call, "ownership": "unresolved"} for call in document.get("unresolved_calls", ())],
        "events": _events(evidence, {function["file"] for function in functions}),
        "operations": [_operation_row(operation, names, texts) for operation in operations],
        "functions": [_function_row(function, texts) for function in functions],
        "sources": _sources(functions, findings, sources, texts),
        "strings": texts.all,
    }


class _Strings:
    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.all)
            self.all.append(text)
        return self._numbers[text]


def _findings(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every finding with the function that holds it; silenced and accepted ones stay out: nobody has to act on them."""
    texts = {
        (operation["file"], operation["line"], operation["column"]): operation.get("text", "")
        for operation in document.get("operations") or ()
    }
    found = []
    for finding in document.get("findings", ()):
        path = finding.get("call_path") or ()
        owner = path[-1]["function"] if path else finding["file"]
        place = (finding["file"], finding["line"], finding["column"])
        found.append({**finding, "owner": owner, "text": texts.get(place, "")})
    return found


def _functions(
    document: Mapping[str, Any], findings: list[dict[str, Any]], spans: FunctionSpans
) -> list[dict[str, Any]]:
    """The reached functions of the document, and those that findings and operations name beyond them."""
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for function in document.get("functions", ()):
        known.setdefault((function["boundary"], function["function"]), function)
    items = [*findings, *(document.get("operations") or ())]
    for finding in findings:
        path = finding.get("call_path") or ()
        for index, hop in enumerate(path):
            key = (finding["boundary"], hop["function"])
            if key in known:
                continue
            # A hop's place is the call that enters it, in its caller; its own source is where the next call stands.
            file, line = (
                (path[index + 1]["file"], path[index + 1]["line"])
                if index + 1 < len(path)
                else (finding["file"], finding["line"])
            )
            callers = [{**hop, "function": path[index - 1]["function"]}] if index else []
            known[key] = _function(*key, file, *spans.around(file, line), callers)
    for item in items:
        key = (item["boundary"], item["owner"])
        if key not in known:
            known[key] = _function(*key, item["file"], *spans.around(item["file"], item["line"]), [])
    return list(known.values())


def _function(
    boundary: str, name: str, file: str, line: int, end: int, callers: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "function": name,
        "file": file,
        "line": line,
        "end_line": end,
        "boundary": boundary,
        "called_from": callers,
    }


def _operation_row(operation: Mapping[str, Any], names: Mapping[str, str], texts: _Strings) -> list[int]:
    hazard = operation["hazard"]
    return [
        texts(operation["class"]),
        -1 if hazard is None else texts(names.get(hazard, hazard)),
        texts(operation["file"]),
        operation["line"],
        operation["column"],
        operation.get("end_line", operation["line"]),
        operation.get("end_column", operation["column"] + 1),
        texts(operation["owner"]),
        texts(operation.get("boundary", "")),
        texts(operation.get("operation", "")),
        texts(operation.get("text", "")),
        texts(operation.get("reason", "")),
    ]


def _function_row(function: Mapping[str, Any], texts: _Strings) -> list[Any]:
    callers = [[texts(hop["function"]), texts(hop["file"]), hop["line"]] for hop in function["called_from"]]
    place = [texts(function["function"]), texts(function["file"]), function["line"], function["end_line"]]
    return [*place, texts(function["boundary"]), callers]


def _sources(
    functions: list[dict[str, Any]], findings: list[dict[str, Any]], sources: SourceLines, texts: _Strings
) -> list[Any]:
    """The lines of every function by file, overlapping spans as one."""
    size = sum(len(text) for function in functions for text in _lines(function, sources))
    if size > _MOST_SOURCE:
        wanted = {finding["owner"] for finding in findings}
        functions = [function for function in functions if function["function"] in wanted]
    spans: dict[str, list[tuple[int, int]]] = {}
    for function in functions:
        spans.setdefault(function["file"], []).append((function["line"], function["end_line"]))
    result: list[Any] = []
    for file, found in spans.items():
        merged: list[list[int]] = []
        for first, last in sorted(found):
            if merged and first <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], last)
            else:
                merged.append([first, last])
        segments = []
        for first, last in merged:
            lines = _lines({"file": file, "line": first, "end_line": last}, sources)
            if lines:
                segments.append([first, "\n".join(lines)])
        if segments:
            result.append([texts(file), segments])
    return result


def _lines(function: Mapping[str, Any], sources: SourceLines) -> list[str]:
    lines: list[str] = []
    if not function["file"].endswith(".py"):
        return lines  # a report may come from anywhere and must not pull other files into the page
    for number in range(max(function["line"], 1), function["end_line"] + 1):
        line = sources.line(function["file"], number)
        if line is None:
            break
        lines.append(line)
    return lines


def _events(evidence: Sequence[tuple[str, Evidence]], files: set[str]) -> list[dict[str, Any]]:
    """What probes saw at lines of the audited files; a run names its files by package, not by folder."""
    by_tail: dict[str, list[str]] = {}
    for file in sorted(files):
        by_tail.setdefault(file.rpartition("/")[2], []).append(file)
    found = []
    for name, document in evidence:
        for event in document.events:
            path = f"{event.root}/{event.file}" if event.root else event.file
            for file in by_tail.get(path.rpartition("/")[2], ()):
                if file == path or file.endswith(f"/{path}") or file == event.file:
                    found.append(
                        {
                            "document": name,
                            "mode": document.mode,
                            "file": file,
                            "line": event.line,
                            "function": event.function,
                            "kind": event.kind,
                            "hazard": event.hazard,
                            "count": event.count,
                            "nodes": dict(event.nodes),
                            "detail": event.detail,
                        }
                    )
    return found
