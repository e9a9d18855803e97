"""What each probe mode can see, and which event speaks of which finding.

Silence refutes a finding only where a detector of that mode would have spoken: a trace knows nothing of
frozen host state, and a capture that goes on says nothing of an array that is freed later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from capaudit.evidence.document import Event, Evidence
from capaudit.evidence.source import SourceOutline
from capaudit.model import CaptureKind, Finding, Place

_READS: Final = frozenset({"CAP101", "CAP102", "CAP104", "CAP105", "CAP201", "CAP202"})

# An event's code names the mechanism that the detector saw; a finding's names the cause in the source.
_ALSO: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(_READS - {"CAP105"}, _READS),
    "CAP105": _READS | {"CAP103"},
    "CAP103": frozenset({"CAP105"}),
    "CAP302": frozenset({"CAP301", "CAP303", "CAP305"}),
    "CAP401": frozenset({"CAP402"}),
    "CAP402": frozenset({"CAP401", "CAP403"}),
    "CAP501": frozenset({"CAP502", "CAP304"}),
    "CAP502": frozenset({"CAP501"}),
}
_BREAKS_A_CAPTURE: Final = _READS - {"CAP202"} | {"CAP103", "CAP302", "CAP303", "CAP305", "CAP401", "CAP402", "CAP503"}

# Legal in a capture that Warp has been told of.
_WARP_ONLY: Final = frozenset({"warp-allocation", "warp-free", "warp-condition-read"})

# Faults that hang on who started the capture, and so on who owns its stream and its memory.
_OF_THE_STARTER: Final = frozenset({"CAP302", "CAP303", "CAP305", "CAP401", "CAP402", "CAP403"})

_TRACE_SEES: Final = frozenset({"CAP101", "CAP102", "CAP103", "CAP201"})
_TRACE_SEES_OF_WARP: Final = ("numpy", "list")
# Replaced on their classes, so that no other name of theirs escapes the hooks.
_TRACE_SEES_CALLS: Final = (
    "Stream.synchronize",
    "Stream.query",
    "Event.synchronize",
    "Event.query",
    "CUDAGraph.replay",
)
_CAPTURE_SEES: Final = _READS - {"CAP202"} | {"CAP103", "CAP401"}

_DETECTORS: Final = {"CAP201": "dynamic-shape"}


def speaks_of(event: Event, code: str) -> int:
    """Return how well an event fits a finding's code: 2 exactly, 1 as its mechanism, 0 not at all."""
    if event.hazard == code:
        return 2
    if event.kind == "capture-fault":
        return int(code in _BREAKS_A_CAPTURE)
    return int(code in _ALSO.get(event.hazard or "", ()))


def is_fault(event: Event, document: Evidence, code: str, capture: CaptureKind) -> bool:
    """Return whether what the event saw is a fault ``code`` in a capture that is started this way.

    Warp's allocations, frees and conditions are legal in a capture that Warp knows, but for allocations in a
    conditional body; and a capture that one library started says nothing of who owns what in another's.
    """
    if document.mode != "trace" and code in _OF_THE_STARTER:
        return bool(document.parameters.get("capture", capture) == capture)
    if capture == "torch" or code == "CAP303":
        return True
    return event.kind not in _WARP_ONLY and not (event.kind == "warp-synchronization" and _reads_condition(event))


def is_release(event: Event) -> bool:
    """Return whether memory was given back: that happens where a function returns, not where it was taken."""
    inner = event.stack[0].function if event.stack else ""
    return event.kind == "warp-free" or inner.endswith(("__del__", "deallocate"))


def _reads_condition(event: Event) -> bool:
    return any(frame.function.endswith(("capture_while", "capture_if")) for frame in event.stack)


def on_device(document: Evidence) -> bool:
    """Return whether a CUDA device ran it; a trace on the CPU lets host tensors play the device."""
    return not str(document.parameters.get("device", "cuda")).startswith("cpu")


def is_usable(document: Evidence) -> bool:
    """Return whether the run came to an end with detectors that had proved themselves."""
    return document.verdict not in ("failed", "inconclusive")


def other_version(document: Evidence, versions: Mapping[str, str]) -> str | None:
    """Return which library the run had in another version than the audit judges by, or ``None``."""
    for library, wanted in sorted(versions.items()):
        ran = getattr(document.environment, library.replace("-", "_"), None)
        if isinstance(ran, str) and ran != wanted and not ran.startswith((f"{wanted}.", f"{wanted}+")):
            return f"the run had {library} {ran} and the audit judges by {wanted}"
    return None


def blind_spot(document: Evidence, finding: Finding, capture: CaptureKind) -> str | None:
    """Return why this document's silence about a line that ran says nothing of the finding, or ``None``."""
    if not on_device(document):
        return "a run on the CPU cannot show that nothing blocks"
    if not is_usable(document):
        return f"the run was {document.verdict}"
    if document.mode == "trace":
        reason = _trace_is_blind(document, finding)
    elif document.mode == "capture":
        reason = _capture_is_blind(document, finding, capture)
    else:
        reason = f"the mode {document.mode} does not look at single lines"
    return reason


def _trace_is_blind(document: Evidence, finding: Finding) -> str | None:
    unproven = {proof.detector for proof in document.self_proof if not proof.seen}
    if _DETECTORS.get(finding.code, "host-scalar-read") in unproven:
        return "the detector missed its planted fault"
    if finding.operation.endswith(_TRACE_SEES_CALLS):
        return None
    _, _, last = finding.operation.rpartition(".")
    of_warp = finding.operation.startswith(("warp.", "wp."))
    if finding.code not in _TRACE_SEES or (of_warp and last not in _TRACE_SEES_OF_WARP):
        return f"a trace does not see {finding.name}"
    return None


def _capture_is_blind(document: Evidence, finding: Finding, capture: CaptureKind) -> str | None:
    ran_as = document.parameters.get("capture", capture)
    if ran_as != capture:
        return f"the run's capture was started by {ran_as} and the boundary's is by {capture}"
    if document.parameters.get("error_mode") == "relaxed":
        return "a relaxed capture lets unsafe calls pass"
    return None if finding.code in _CAPTURE_SEES else f"a capture that goes on does not rule out {finding.name}"


def always_evaluated(outline: SourceOutline, place: Place) -> bool:
    """Return whether running the statement at a place means that the operation there ran.

    Not so behind ``and``, ``or`` and conditional expressions, in comprehensions and lambdas, and in the
    message of an ``assert``.
    """
    statement = outline.node_at(place.line)
    if statement is None:
        return False
    start = (place.line, _bytes(outline, place.line, place.column))
    end = (place.end_line, _bytes(outline, place.end_line, place.end_column))
    for node in _conditional_parts(statement):
        first = (node.lineno, node.col_offset)
        last = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        if first <= start and end <= last:
            return False
    return True


def _bytes(outline: SourceOutline, line: int, column: int) -> int:
    """The byte offset, as ``ast`` counts, of a 1-based character column."""
    text = outline.lines[line - 1] if 0 < line <= len(outline.lines) else ""
    return len(text[: column - 1].encode(errors="surrogatepass"))


def _conditional_parts(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement's header that may be skipped when it runs."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        match node:
            case ast.IfExp():
                yield from (node.body, node.orelse)
            case ast.BoolOp():
                yield from node.values[1:]
            case ast.Compare():
                yield from node.comparators[1:]
            case ast.Lambda():
                yield node.body
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                yield node.elt
                yield from _conditional_clauses(node.generators)
            case ast.DictComp():
                yield from (node.key, node.value)
                yield from _conditional_clauses(node.generators)
            case ast.Assert() if node.msg is not None:
                yield node.msg
        pending.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt))


def _conditional_clauses(clauses: list[ast.comprehension]) -> Iterator[ast.expr]:
    for index, clause in enumerate(clauses):
        if index:
            yield clause.iter
        yield from clause.ifs
