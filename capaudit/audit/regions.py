"""Blocks and calls that change where work goes: streams, captures, registration, conditional bodies."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from capaudit.audit import calls, conditions, fallback, parameters, results
from capaudit.audit.values import (
    NONE,
    NOTHING,
    Atom,
    Const,
    Function,
    Host,
    Instance,
    Items,
    Object,
    Partial,
    Value,
    host,
    join,
    library_object,
    none,
    unknown,
)
from capaudit.model import Confidence
from capaudit.program import walk
from capaudit.program.symbols import dotted_text

if TYPE_CHECKING:
    from capaudit.audit.arguments import Arguments
    from capaudit.audit.contexts import Context
    from capaudit.audit.frame import Frame
    from capaudit.audit.machine import Machine


def loop_count(frame: Frame, node: ast.expr, iterated: Value) -> int | None:
    """How often a loop runs, where that is a constant of the program."""
    if len(iterated) == 1 and isinstance(iterated[0], Items):
        return len(iterated[0].items)
    if isinstance(node, ast.Call) and dotted_text(node.func) == "range" and len(node.args) == 1:
        from capaudit.audit import expressions

        count = expressions.quietly(frame, node.args[0])
        if len(count) == 1 and isinstance(count[0], Const) and isinstance(count[0].value, int):
            return count[0].value
    return None


# -- with ---------------------------------------------------------------------------------------------------


def run_with(frame: Frame, node: ast.With | ast.AsyncWith) -> None:
    """Evaluate a with statement; the modes it opens end with it."""
    if frame.context.items.get("region") is node:
        _run_region(frame, node)
        return
    mode = frame.mode
    managers: list[Value] = []
    for item in node.items:
        value = frame.evaluate(item.context_expr)
        if frame.env is None:
            return
        managers.append(value)
        entered = enter(frame, value, item.context_expr)
        if item.optional_vars is not None:
            from capaudit.audit import assignments

            assignments.assign(frame, item.optional_vars, entered, item.context_expr)
    frame.run_block(node.body)
    frame.mode = mode
    for value, item in zip(managers, node.items, strict=True):
        for atom in value:
            if isinstance(atom, Instance) and frame.env is not None:
                calls.call_dunder(frame, atom, "__exit__", [none, none, none], item.context_expr)


def enter(frame: Frame, value: Value, node: ast.expr) -> Value:
    """Enter a context manager and return what it gives."""
    result: Value = NOTHING
    for atom in value:
        match atom:
            case Object(path="contextlib.manager"):
                frame.mode = frame.mode | atom.flags
                result = join(result, atom.content or none)
            case Object():
                _enter_object(frame, atom)
                result = join(result, (atom,))
            case Instance():
                entered = calls.call_dunder(frame, atom, "__enter__", [], node)
                result = join(result, entered if entered is not None else (atom,))
            case Host():
                result = join(result, (atom,))
            case _:
                result = join(result, unknown if atom is not NONE else NOTHING)
    return result


def _enter_object(frame: Frame, atom: Object) -> None:
    if atom.path in ("torch.cuda.stream", "torch.cuda.StreamContext"):
        key = stream_key(frame, atom.content)
        kept = frozenset(flag for flag in frame.mode if not (isinstance(flag, tuple) and flag[0] == "torch-stream"))
        if key is not None:
            frame.mode = kept if key == "capture" else kept | {("torch-stream", key)}
    elif atom.path == "warp.ScopedStream":
        key = stream_key(frame, atom.content)
        kept = frozenset(flag for flag in frame.mode if not (isinstance(flag, tuple) and flag[0] == "warp-on"))
        frame.mode = kept | {"warp-stream"} | ({("warp-on", key)} if key not in (None, "capture") else set())
    elif atom.path == "warp.ScopedCapture" and "external" in atom.flags:
        frame.mode = frame.mode | {"registered", "warp-stream"}


OWN_STREAMS = "own-streams"
"""Where a root keeps the streams that its capture was given: work on them is captured."""

_STREAM_PLACES = {"graph": 2, "ScopedCapture": 1, "capture_begin": 1}


def given_stream(node: ast.expr) -> ast.expr | None:
    """The stream that the call which opens a capture is given."""
    if (
        not isinstance(node, ast.Call)
        or (place := _STREAM_PLACES.get(dotted_text(node.func).rpartition(".")[2])) is None
    ):
        return None
    named = next((keyword.value for keyword in node.keywords if keyword.arg == "stream"), None)
    return named or (node.args[place] if len(node.args) > place else None)


def note_given_streams(machine: Machine, root: Context) -> None:
    """Remember the streams that the program gives to captures, for an entry that some other function captures."""
    if not any(event.stream != "capture" for event in root.streams):
        return
    for function, _ in machine.capturing:
        for node in walk(function.node):
            given = given_stream(node) if isinstance(node, ast.Call) else _stream_around(node)
            value = parameters.detached(machine, function.module, function, given) if given is not None else NOTHING
            for atom in value:
                if isinstance(atom, Object) and atom.site is not None:
                    root.items.setdefault(OWN_STREAMS, {})[atom.site] = None


def _stream_around(node: ast.AST) -> ast.expr | None:
    """The stream of a block in which a capture begins: the capture is of whichever stream is current."""
    if not isinstance(node, ast.With) or not any(
        isinstance(inner, ast.Call) and dotted_text(inner.func).endswith("capture_begin") for inner in walk(node)
    ):
        return None
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and dotted_text(call.func).rpartition(".")[2] in ("stream", "ScopedStream"):
            return call.args[0] if call.args else None
    return None


def _run_region(frame: Frame, node: ast.With | ast.AsyncWith) -> None:
    """The body of a discovered capture: from here on everything is the tick of a boundary."""
    from capaudit.audit import expressions
    from capaudit.audit.frame import Frame as Made

    machine = frame.machine
    root = frame.context.items["root"]
    root.callers.clear()
    root.clear()
    root.runs += 1
    inner = Made(machine, root, frame.function, frame.module)
    inner.env = dict(frame.env or {})
    inner.stories = dict(frame.stories)
    inner.closure = frame.closure
    inner.has_nested = frame.has_nested
    for item in node.items:
        value = frame.evaluate(item.context_expr)
        given = given_stream(item.context_expr)
        if given is not None and (key := stream_key(frame, expressions.quietly(frame, given))) is not None:
            root.items.setdefault(OWN_STREAMS, {})[key] = None
        if item.optional_vars is not None:
            from capaudit.audit import assignments

            assignments.assign(frame, item.optional_vars, value, item.context_expr)
            inner.env = dict(frame.env or {})
    inner.run_block(node.body)
    if inner.env is not None:
        from capaudit.audit import stores

        stores.note_exit(inner)
        frame.env = {key: value for key, value in inner.env.items() if not key.startswith(".w")}


# -- calls ----------------------------------------------------------------------------------------------------


def stream_key(frame: Frame, value: Value) -> Any:
    """What identifies a stream: ``capture``, ``default``, or where it was made; ``None`` when not known."""
    for atom in value:
        if isinstance(atom, Object) and atom.path == "warp.Stream" and not atom.flags & {"made", "current"}:
            # Whichever stream Warp uses at the moment: the captured one where Warp captures and nothing moved it.
            if (scoped := scoped_stream(frame)) is not None:
                return scoped
            if conditions.capture_kind(frame) != "torch" and not frame.flag("warp-stream"):
                return current_stream(frame)
            continue
        if isinstance(atom, Object) and atom.path.rpartition(".")[2] in ("Stream", "ExternalStream"):
            if "current" in atom.flags:
                return current_stream(frame)
            if "default" in atom.flags:
                return "default"
            return atom.site
    return None


def scoped_stream(frame: Frame) -> Any:
    """The side stream that a ``wp.ScopedStream`` around the code at hand opened, where it is known."""
    return next((flag[1] for flag in frame.mode if isinstance(flag, tuple) and flag[0] == "warp-on"), None)


def current_stream(frame: Frame) -> Any:
    for flag in frame.mode:
        if isinstance(flag, tuple) and flag[0] == "torch-stream":
            return flag[1]
    return "capture"


def _event_key(value: Value) -> Any:
    for atom in value:
        if isinstance(atom, Object) and atom.path.rpartition(".")[2] == "Event":
            return atom.site
    return None


def call(frame: Frame, path: str, receiver: Atom | None, arguments: Arguments, node: ast.expr) -> Value | None:
    """Handle calls that move work between streams or captures; ``None`` leaves them to the tables alone."""
    first = arguments.positional[0] if arguments.positional else next(iter(arguments.keywords.values()), NOTHING)
    match path:
        case "torch.cuda.current_stream":
            return (library_object("torch.cuda.Stream", None, frozenset({"current"})),)
        case "torch.cuda.default_stream":
            return (library_object("torch.cuda.Stream", None, frozenset({"default"})),)
        case "torch.cuda.stream" | "torch.cuda.StreamContext":
            return (library_object("torch.cuda.stream", None, frozenset(), first),)
        case "warp.Stream":
            return (library_object("warp.Stream", results.site(frame, node), frozenset({"made"})),)
        case "warp.stream_from_torch":
            made = [atom for atom in first if isinstance(atom, Object)]
            if made and "default" in made[0].flags:
                return (library_object("warp.Stream", None, frozenset({"made", "default"})),)
            if made and "current" not in made[0].flags and made[0].path == "torch.cuda.Stream":
                return (library_object("warp.Stream", made[0].site, frozenset({"made"})),)
            return (library_object("warp.Stream", None, frozenset({"current"})),)
        case "warp.capture_begin":
            external = arguments.keywords.get("external", NOTHING)
            if any(not (isinstance(a, Const) and not a.value) for a in external):
                frame.mode = frame.mode | {"registered", "warp-stream"}
                frame.record(node, path, message="the capture is registered with Warp")
                return none
        case "warp.capture_end":
            if frame.flag("registered"):
                frame.mode = frame.mode - {"registered"}
                frame.record(node, path, message="the registration with Warp ends")
                return host("any")
        case "warp.set_stream":
            frame.mode = frame.mode | {"warp-stream"}
        case "warp.capture_while" | "warp.capture_if":
            _conditional_bodies(frame, arguments, node)
        case _ if receiver is not None and path.rpartition(".")[0] in _STREAMS:
            _stream_method(frame, path.rpartition(".")[2], receiver, first, node)
        case _ if receiver is not None and path.rpartition(".")[0] in _EVENTS and path.endswith(".record"):
            key = stream_key(frame, first) if first else current_stream(frame)
            frame.stream_event("record", key, node, _event_key((receiver,)))
        case _ if receiver is not None and path.rpartition(".")[0] in _EVENTS and path.endswith(".wait"):
            key = stream_key(frame, first) if first else current_stream(frame)
            frame.stream_event("await", key, node, _event_key((receiver,)))
    return None


_STREAMS = ("warp.Stream", "torch.cuda.Stream", "torch.cuda.ExternalStream", "torch.Stream")
_EVENTS = ("torch.cuda.Event", "torch.Event")


def _stream_method(frame: Frame, name: str, receiver: Atom, argument: Value, node: ast.expr) -> None:
    own = stream_key(frame, (receiver,))
    if own is None:
        return
    if name == "wait_stream":
        frame.stream_event("wait", own, node, stream_key(frame, argument))
    elif name == "wait_event":
        frame.stream_event("await", own, node, _event_key(argument))
    elif name == "record_event":
        # The call returns the event that it was given, or one of its own: both names mean this record.
        if argument:
            frame.stream_event("record", own, node, _event_key(argument))
        frame.stream_event("record", own, node, results.site(frame, node))


def _conditional_bodies(frame: Frame, arguments: Arguments, node: ast.expr) -> None:
    from capaudit.audit.arguments import Arguments as Made

    mode = frame.mode
    frame.mode = mode | {"conditional-body"}
    reserved = ("condition", "while_body", "on_true", "on_false", "stream", "body")
    passed = {name: value for name, value in arguments.keywords.items() if name not in reserved}
    for value in arguments.values():
        callables = tuple(a for a in value if isinstance(a, (Function, Partial)))
        if callables:
            frame.call(callables, Made([], passed, NOTHING, arguments.keyword_star), node)
    frame.mode = mode


# -- fallback ---------------------------------------------------------------------------------------------------


def check_fallback(frame: Frame, node: ast.Try | ast.TryStar) -> None:
    """A broad handler around a call that captures or replays further down (the direct form is found by text)."""
    if not frame.recording or not node.handlers:
        return
    last = node.body[-1].end_lineno or 0
    inside = [c for c, at in frame.context.callees.items() if node.lineno < getattr(at, "lineno", 0) <= last]
    if not inside or not _drives_graph(inside):
        return
    for handler in fallback.silent_handlers(node):
        frame.reject(handler, "CAP604", "except", fallback.MESSAGE, confidence=Confidence.LIKELY)


def _drives_graph(contexts: list[Context]) -> bool:
    seen = dict.fromkeys(contexts)
    queue = list(seen)
    for context in queue:
        if any(record.hazard == "CAP401" for record in context.records.values()):
            return True
        for callee in context.callees:
            if callee not in seen and len(seen) < 200:
                seen[callee] = None
                queue.append(callee)
    return False
