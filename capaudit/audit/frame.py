"""One evaluation of one context: environment, flow and what it records.

The frame walks a function's statements in program order. Branches are evaluated apart and joined,
loops until the environment rests, and code that can only end in a ``raise`` counts as failure path.
"""

from __future__ import annotations

import ast
from typing import Any

from capaudit.audit import (
    assignments,
    attributes,
    branching,
    calls,
    correlated,
    expressions,
    guards,
    handlers,
    hints,
    once,
    regions,
    stores,
)
from capaudit.audit.arguments import Arguments
from capaudit.audit.contexts import Cell, Context, OperationRecord, StreamEvent
from capaudit.audit.machine import Machine
from capaudit.audit.values import (
    NOTHING,
    UNKNOWN,
    Box,
    Const,
    Host,
    Instance,
    Object,
    Tensor,
    Value,
    join,
    none,
    unknown,
)
from capaudit.model import Confidence, OwnershipClass
from capaudit.program import FunctionInfo, Module, walk
from capaudit.program.exposed import exposed_names, target_names
from capaudit.program.symbols import dotted_text

Environment = dict[str, Value]
_LOOP_ROUNDS = 4


class Frame:
    """Evaluates one context. ``env`` is ``None`` where control cannot be."""

    def __init__(self, machine: Machine, context: Context, function_info: FunctionInfo | None, module: Module) -> None:
        self.machine = machine
        self.context = context
        self.function = function_info
        self.module = module
        self.env: Environment | None = {}
        self.mode: frozenset[Any] = context.mode
        self.failure = 0
        self.checking = False  # the test at hand only decides whether to raise
        self.quiet = 0
        self.place: ast.stmt | None = None  # the simple statement at hand
        self.stories: dict[str, ast.expr] = {}
        self.stale: list[ast.expr] = []  # tests under which a stamp is out of date
        self.left_by_device: set[ast.stmt] = set()  # tests of device values that end the function or the round
        self.breaks: list[list[Environment]] = []
        self.continues: list[list[Environment]] = []
        self.closure: Context | None = context.items.get("closure")
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.has_nested = False
        self.region: str | None = None
        self.loop_parity: list[Any] = []
        self.dotted_roots: set[str] = set()  # names with narrowed attributes somewhere in this frame
        self.absorbed: set[Context] = set()
        self.finals: list[list[ast.stmt]] = []  # the finally blocks around the statement at hand
        self.writes = 0  # lasting names bound so far, those of callees included
        self.holding: list[tuple[ast.expr, bool]] = []  # the tests around the statement at hand, each with its truth
        self.branches: dict[str, correlated.Branch] = {}
        # What branches on frozen host state need to know: what was done while one ran.
        self.work = 0  # device operations so far, those of callees included
        self.opaque = 0  # calls so far of which nothing is known
        self.host_writes: list[tuple[Cell, Any]] = []  # lasting host values written so far
        self.held: list[branching.Steered] | None = None
        self.leaving: list[tuple[list[branching.Steered], int]] = []
        self.exit_taint: tuple[Any, ...] | None = None

    # -- facts --------------------------------------------------------------------------------------

    @property
    def tick(self) -> bool:
        return self.context.phase == "tick"

    @property
    def recording(self) -> bool:
        return self.context.phase == "tick" and self.env is not None and not self.quiet

    def flag(self, name: str) -> bool:
        return name in self.mode

    # -- environment --------------------------------------------------------------------------------

    def read_name(self, name: str, node: ast.AST) -> Value:
        """Return a variable's value: local, closure, then global."""
        env = self.env
        if env is not None and name in env and name not in self.globals and name not in self.nonlocals:
            return env[name]
        closure = self._closure_of(name)
        if closure is not None:
            closure.local_readers[self.context] = None
            shared = self.machine.existing_cell(closure.token, name)
            if shared is not None:
                return join(closure.locals[name], stores.read_cell(self, shared, node))
            return closure.locals[name]
        return attributes.global_value(self, self.module, name)

    def _closure_of(self, name: str) -> Context | None:
        closure = self.closure
        while closure is not None and name not in closure.locals:
            closure = closure.items.get("closure")
        return closure

    def bind(self, name: str, value: Value, node: ast.expr | None = None) -> None:
        if self.env is None:
            return
        if name in self.globals:
            attributes.write_global(self, name, value, node)
            return
        if name in self.nonlocals and (closure := self._closure_of(name)) is not None:
            # What a closure changes outlives the call, like an attribute.
            cell = self.machine.cell(closure.token, name)
            place = node or ast.Pass()
            changes = node is None or any(isinstance(inner, ast.Name) and inner.id == name for inner in walk(node))
            stores.write_cell(self, cell, value, self.place or place, name, augmented=changes, source=node)
            return
        self.env[name] = value
        if name in self.dotted_roots:
            prefix = f"{name}."
            for key in [key for key in self.env if key.startswith((prefix, f"{stores.ABSENT}{prefix}"))]:
                del self.env[key]
        if node is not None:
            self.stories[name] = node
        if self.has_nested:
            self.machine.note_local(self.context, name, value)

    def narrow(self, branch: dict[str, Value]) -> None:
        """Bind what a test proved in the branch that it guards."""
        if self.env is not None:
            self.env = narrow(self, self.env, branch)

    # -- evaluation -----------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr) -> Value:
        """Return the abstract value of an expression, recording what it runs."""
        if self.env is None:
            return NOTHING
        handler = expressions.HANDLERS.get(type(node))
        return handler(self, node) if handler is not None else unknown

    def call(self, callee: Value, arguments: Arguments, node: ast.Call | ast.expr) -> Value:
        return calls.call_value(self, callee, arguments, node)

    def run_block(self, body: list[ast.stmt]) -> None:
        mode, failure = self.mode, self.failure
        failing = guards.failing_from(body)
        try:
            for place, statement in enumerate(body):
                if self.env is None:
                    return
                self.failure += place == failing
                self.run_statement(statement)
        finally:
            self.failure = failure
            if self.mode is not mode and once.ONCE in self.mode:
                self.mode = once.left(self.mode, mode)

    def run_statement(self, node: ast.stmt) -> None:
        handler = _STATEMENTS.get(type(node))
        self.place = node
        if handler is not None:
            handler(self, node)

    # -- records ----------------------------------------------------------------------------------------

    def record(
        self,
        node: ast.AST,
        name: str,
        *,
        ownership: OwnershipClass = OwnershipClass.GRAPH_ELIGIBLE,
        hazard: str | None = None,
        confidence: Confidence = Confidence.CERTAIN,
        message: str = "",
        remedy: str = "",
        why: tuple[str, ...] = (),
        related: tuple[tuple[Module, ast.AST, str], ...] = (),
        module: Module | None = None,
        cell: Cell | None = None,
    ) -> None:
        """Note one operation of the boundary. Outside a boundary nothing is kept; on a failure path it is cold."""
        if not self.recording:
            return
        if self.failure and ownership is not OwnershipClass.UNRESOLVED:
            ownership, hazard = OwnershipClass.COLD_PATH, None
            message = "failure path: this code only runs before a raise"
        if ownership is OwnershipClass.UNRESOLVED:
            self.opaque += 1
        elif not self.failure and ownership is not OwnershipClass.COMPLETION_OWNED and hazard != "CAP501":
            self.work += 1
        key = (
            getattr(node, "lineno", 0),
            getattr(node, "col_offset", 0),
            getattr(node, "end_lineno", 0),
            getattr(node, "end_col_offset", 0),
            hazard or "",
            name if hazard is None else "",
        )
        old = self.context.records.get(key)
        if old is not None and _strength(old.confidence) >= _strength(confidence):
            return
        self.context.records[key] = OperationRecord(
            module or self.module, node, name, ownership, hazard, confidence, message, remedy, why, related, cell
        )

    def reject(
        self,
        node: ast.AST,
        hazard: str,
        name: str,
        message: str,
        *,
        remedy: str = "",
        confidence: Confidence = Confidence.CERTAIN,
        subject: ast.expr | None = None,
        related: tuple[tuple[Module, ast.AST, str], ...] = (),
        module: Module | None = None,
        cell: Cell | None = None,
    ) -> None:
        """Record a hazard, with the story of the value that ``subject`` names."""
        if not self.recording:
            return
        why = self.story(subject) if subject is not None else ()
        if doubt := once.doubt(self.mode, hazard):
            confidence, message = Confidence.POSSIBLE, f"{message}; {doubt}"
        self.record(
            node,
            name,
            ownership=OwnershipClass.REJECTED,
            hazard=hazard,
            confidence=confidence,
            message=message,
            remedy=remedy,
            why=why,
            related=related,
            module=module,
            cell=cell,
        )

    def stream_event(self, kind: str, stream: Any, node: ast.AST, other: Any = None) -> None:
        if self.recording:
            self.context.streams.append(StreamEvent(kind, stream, other, self.module, node))

    def device_work(self, node: ast.AST) -> None:
        """Note that device work is enqueued on the current torch stream, when that is a side stream."""
        for flag in self.mode:
            if isinstance(flag, tuple) and flag[0] == "torch-stream":
                self.stream_event("work", flag[1], node)

    def story(self, node: ast.expr) -> tuple[str, ...]:
        """Say where the value of an expression comes from, oldest fact first."""
        lines: list[str] = []
        seen: set[str] = set()
        current: ast.expr | None = node
        while current is not None and len(lines) < 3:
            text = dotted_text(current)
            root = current
            while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call)):
                root = root.func if isinstance(root, ast.Call) else root.value
            if isinstance(root, ast.Name) and root.id in self.stories and root.id not in seen:
                seen.add(root.id)
                origin = self.stories[root.id]
                lines.append(f"{root.id} = {_short(origin)} ({self.module.file}:{origin.lineno})")
                current = origin
                continue
            if isinstance(root, ast.Name) and self.function is not None and root.id in self.context.arguments:
                value = self.context.arguments[root.id]
                if root.id not in ("self", "cls"):
                    lines.append(f"{root.id} is a parameter of {self.function.qualname}: {describe(value)}")
            if text.count(".") >= 1 and (fact := self._cell_story(current)):
                lines.append(fact)
            current = None
        return tuple(reversed(lines))

    def _cell_story(self, node: ast.expr) -> str | None:
        while isinstance(node, (ast.Call, ast.Subscript)):
            node = node.func if isinstance(node, ast.Call) else node.value
        probe: ast.expr | None = node
        while isinstance(probe, ast.Attribute):
            for atom in expressions.quietly(self, probe):
                storage = getattr(atom, "storage", None)
                if isinstance(storage, Cell) and storage.node is not None:
                    module, place = storage.node
                    text = _short(place) if isinstance(place, ast.expr) else ""
                    return f"{storage.label} = {text} ({module.file}:{getattr(place, 'lineno', 0)})"
            probe = probe.value
        return None


def _strength(confidence: Confidence) -> int:
    return {Confidence.POSSIBLE: 0, Confidence.LIKELY: 1, Confidence.CERTAIN: 2}[confidence]


def _short(node: ast.expr, limit: int = 60) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def describe(value: Value) -> str:
    """Name a value in a reader's words."""
    words: list[str] = []
    for atom in value:
        match atom:
            case Tensor():
                where = "a device tensor" if atom.device == "cuda" else "a host tensor"
                kind = {"bool": " (boolean mask)", "int": " (integers)", "float": ""}.get(atom.element or "", "")
                words.append(where + kind + (" of data-dependent shape" if atom.dynamic else ""))
            case Const() if atom.value is None:
                words.append("None")
            case Const() | Host():
                words.append(f"a host {atom.type_name}")
            case _ if atom is UNKNOWN:
                words.append("not known")
            case Instance():
                words.append(f"an object of {atom.cls.name}")
            case Object():
                words.append(f"an object of {atom.path}")
            case _:
                words.append(_PLAIN.get(type(atom).__name__, "a host value"))
    return " or ".join(dict.fromkeys(words)) or "nothing yet"


_PLAIN = {
    "WarpArray": "a Warp array",
    "Array": "a NumPy array",
    "Sequence": "a sequence",
    "Items": "a tuple",
    "Box": "a list, dictionary or set",
    "Mapping": "a dictionary",
    "Record": "keyword arguments",
    "Slice": "a slice",
    "Function": "a function",
    "ClassRef": "a class",
    "Partial": "a function with arguments bound",
}


# -- statements ------------------------------------------------------------------------------------------


def _run_expression(frame: Frame, node: ast.Expr) -> None:
    frame.evaluate(node.value)


def _run_assign(frame: Frame, node: ast.Assign) -> None:
    value = frame.evaluate(node.value)
    for target in node.targets:
        assignments.assign(frame, target, value, node.value)


def _run_annotated(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is None:
        return
    value = frame.evaluate(node.value)
    annotated = hints.annotation_value(frame.machine, frame.module, node.annotation, frame.function)
    if isinstance(node.target, ast.Attribute) and (value == none or all(isinstance(a, Box) for a in value)):
        for atom in frame.evaluate(node.target.value):
            frame.machine.memo.setdefault(("declared", atom, node.target.attr), annotated)
    assignments.assign(frame, node.target, hints.refine(value, annotated), node.value)


def _run_augmented(frame: Frame, node: ast.AugAssign) -> None:
    assignments.augment(frame, node)


def _run_return(frame: Frame, node: ast.Return) -> None:
    value = frame.evaluate(node.value) if node.value is not None else none
    if frame.env is not None:
        if node.value is not None:
            calls.check_first_use(frame, value, node.value)
        frame.context.result = join(frame.context.result, value)
        pending, frame.finals = frame.finals, []
        for body in reversed(pending):
            frame.run_block(body)
        frame.finals = pending
        stores.note_exit(frame)
    frame.env = None


def _run_raise(frame: Frame, node: ast.Raise) -> None:
    frame.failure += 1
    if node.exc is not None:
        frame.evaluate(node.exc)
    frame.failure -= 1
    frame.env = None


def narrow(frame: Frame, env: Environment, branch: dict[str, Value]) -> Environment:
    """Return ``env`` with the narrowed bindings of a branch."""
    for key in branch:
        if "." in key and not key.startswith("."):
            frame.dotted_roots.add(key.partition(".")[0])
    return {**env, **branch}


def merge(environments: list[Environment]) -> Environment | None:
    """Join environments; a name that one of them lacks keeps the value of the others."""
    if not environments:
        return None
    if len(environments) == 1:
        return environments[0]
    result = dict(environments[0])
    for other in environments[1:]:
        for name, value in other.items():
            old = result.get(name)
            if old is value:
                continue
            if old is not None:
                result[name] = join(old, value)
            elif "." not in name or name.startswith(stores.FINAL):
                result[name] = value
        if len(result) > len(other) or result.keys() != other.keys():
            gone = [n for n in result if "." in n and n not in other and not n.startswith(stores.FINAL)]
            for name in gone:
                del result[name]
    return result


def _loop(frame: Frame, node: ast.For | ast.AsyncFor | ast.While, bind: Any, endless: bool = False) -> None:
    """Evaluate a loop body until the environment rests; ``bind`` prepares each round and may end the loop."""
    body, orelse = node.body, node.orelse
    before = frame.env
    if before is None:
        return
    exits: list[Environment] = []
    ends: list[Environment] = []
    state: Environment = before
    frame.breaks.append(exits)
    for _ in range(_LOOP_ROUNDS):
        frame.env = dict(state)
        frame.continues.append([])
        bind()
        if frame.env is not None:
            frame.run_block(body)
        ends = frame.continues.pop()
        if frame.env is not None:
            ends.append(frame.env)
        merged = merge([state, *ends])
        if merged is None or merged == state:
            break
        before_round, state = state, merged
        if not endless and _rests(frame, node, before_round, merged):
            break
    frame.breaks.pop()
    # Loops over what construction filled run at least once: what the body certainly wrote counts as written.
    written = {key: () for env in ends for key in env if key.startswith(".w")} if body else {}
    frame.env = None if endless else {**state, **written}
    if orelse and frame.env is not None:
        frame.run_block(orelse)
    frame.env = merge([*([frame.env] if frame.env is not None else []), *exits])


def _rests(frame: Frame, node: ast.For | ast.AsyncFor | ast.While, before: Environment, after: Environment) -> bool:
    """Whether another round would see nothing new: it binds every name that changed before it reads it."""
    exposed: frozenset[str] | None = frame.machine.memo.get(("exposed", node))
    if exposed is None:
        if isinstance(node, ast.While):
            exposed = exposed_names(node.body, (), node.test)
        else:
            exposed = exposed_names(node.body, target_names(node.target))
        frame.machine.memo["exposed", node] = exposed
    for name, value in after.items():
        if before.get(name) is not value and ("." in name or name in exposed) and before.get(name) != value:
            return False
    return all(name in after for name in before)


def _run_for(frame: Frame, node: ast.For | ast.AsyncFor) -> None:
    iterated = frame.evaluate(node.iter)
    item = expressions.iterate(frame, iterated, node.iter)
    if frame.env is None:
        return
    frame.loop_parity.append(regions.loop_count(frame, node.iter, iterated))

    def bind() -> None:
        assignments.assign(frame, node.target, item, node.iter)

    if not item:
        frame.loop_parity.pop()
        return  # nothing to iterate over yet
    _loop(frame, node, bind)
    frame.loop_parity.pop()


def _run_while(frame: Frame, node: ast.While) -> None:
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
    frame.loop_parity.append(None)

    def bind() -> None:
        outcome = guards.test(frame, node.test, node)
        if frame.env is not None:
            frame.env = narrow(frame, frame.env, outcome.true) if outcome.true is not None else None

    _loop(frame, node, bind, endless)
    frame.loop_parity.pop()


def _run_break(frame: Frame, node: ast.Break) -> None:
    if frame.env is not None and frame.breaks:
        frame.breaks[-1].append(frame.env)
    frame.env = None


def _run_continue(frame: Frame, node: ast.Continue) -> None:
    if frame.env is not None and frame.continues:
        frame.continues[-1].append(frame.env)
    frame.env = None


def _run_try(frame: Frame, node: ast.Try | ast.TryStar) -> None:
    before = dict(frame.env or {})
    if node.finalbody:
        frame.finals.append(node.finalbody)
    frame.run_block(node.body)
    regions.check_fallback(frame, node)
    if frame.env is not None and node.orelse:
        frame.run_block(node.orelse)
    ends = [frame.env] if frame.env is not None else []
    middle = merge([before, *ends])
    for handler in node.handlers:
        frame.env = dict(middle or {})
        if handler.name:
            frame.bind(handler.name, expressions.exception_value())
        first = handlers.first_use(frame, node, handler)
        mode, frame.mode = frame.mode, frame.mode | first.modes
        frame.env.update(dict.fromkeys(first.marks, NOTHING))
        frame.failure += not first  # a handler runs after something failed, so nothing in it is a tick's work
        frame.run_block(handler.body)
        frame.failure -= not first
        frame.mode = mode
        if frame.env is not None:
            ends.append(frame.env)
    frame.env = merge(ends)
    if node.finalbody:
        frame.finals.pop()
        resume = frame.env
        frame.env = resume if resume is not None else dict(middle or {})
        frame.run_block(node.finalbody)
        if resume is None:
            frame.env = None


def _run_with(frame: Frame, node: ast.With | ast.AsyncWith) -> None:
    regions.run_with(frame, node)


def _run_assert(frame: Frame, node: ast.Assert) -> None:
    outer, frame.checking = frame.checking, True
    try:
        outcome = guards.test(frame, node.test, node)
    finally:
        frame.checking = outer
    if node.msg is not None:
        frame.failure += 1
        frame.evaluate(node.msg)
        frame.failure -= 1
    if frame.env is not None:
        frame.env = narrow(frame, frame.env, outcome.true) if outcome.true is not None else None


def _run_delete(frame: Frame, node: ast.Delete) -> None:
    for target in node.targets:
        assignments.delete(frame, target, node)


def _run_function(frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    frame.bind(node.name, calls.nested_function(frame, node))


def _run_class(frame: Frame, node: ast.ClassDef) -> None:
    frame.bind(node.name, calls.nested_class(frame, node))


def _run_import(frame: Frame, node: ast.Import | ast.ImportFrom) -> None:
    attributes.local_import(frame, node)


def _run_nonlocal(frame: Frame, node: ast.Nonlocal) -> None:
    frame.nonlocals.update(node.names)


def _run_global(frame: Frame, node: ast.Global) -> None:
    frame.globals.update(node.names)


def _run_match(frame: Frame, node: ast.Match) -> None:
    subject = frame.evaluate(node.subject)
    if any(_compares(case.pattern) for case in node.cases):
        guards.truth(frame, subject, node.subject, node, "a match statement compares it")
    before = frame.env
    if before is None:
        return
    ends: list[Environment] = []
    for case in node.cases:
        frame.env = dict(before)
        assignments.bind_pattern(frame, case.pattern, subject)
        if case.guard is not None:
            outcome = guards.test(frame, case.guard, node)
            frame.env = (
                narrow(frame, frame.env, outcome.true) if outcome.true is not None and frame.env is not None else None
            )
        if frame.env is not None:
            frame.run_block(case.body)
        if frame.env is not None:
            ends.append(frame.env)
    exhaustive = any(
        isinstance(c.pattern, ast.MatchAs) and c.pattern.pattern is None and c.guard is None for c in node.cases
    )
    frame.env = merge(ends if exhaustive else [*ends, before])


def _compares(pattern: ast.pattern) -> bool:
    return any(isinstance(inner, ast.MatchValue) for inner in ast.walk(pattern))


_STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Expr: _run_expression,
    ast.Assign: _run_assign,
    ast.AnnAssign: _run_annotated,
    ast.AugAssign: _run_augmented,
    ast.Return: _run_return,
    ast.Raise: _run_raise,
    ast.If: branching.run_if,
    ast.For: _run_for,
    ast.AsyncFor: _run_for,
    ast.While: _run_while,
    ast.Break: _run_break,
    ast.Continue: _run_continue,
    ast.Try: _run_try,
    ast.TryStar: _run_try,
    ast.With: _run_with,
    ast.AsyncWith: _run_with,
    ast.Assert: _run_assert,
    ast.Delete: _run_delete,
    ast.FunctionDef: _run_function,
    ast.AsyncFunctionDef: _run_function,
    ast.ClassDef: _run_class,
    ast.Import: _run_import,
    ast.ImportFrom: _run_import,
    ast.Global: _run_global,
    ast.Nonlocal: _run_nonlocal,
    ast.Match: _run_match,
}


def run_context(machine: Machine, context: Context) -> None:
    """Evaluate a context's function body under its arguments."""
    info = context.function
    if info is None:
        return
    frame = Frame(machine, context, info, context.module)
    frame.env = dict(context.arguments)
    node = info.node
    if isinstance(node, ast.Lambda):
        context.result = join(context.result, frame.evaluate(node.body))
        return
    frame.has_nested = calls.has_nested_functions(info)
    if frame.has_nested:
        for name, value in context.arguments.items():
            machine.note_local(context, name, value)
    generator = calls.is_generator(info)
    if generator:
        context.yields = join(context.yields, NOTHING)
    frame.run_block(node.body)
    branching.finish(frame)
    context.items["work"] = (frame.work, frame.opaque, frame.host_writes)
    if frame.env is not None:
        stores.note_exit(frame)
        if not generator:
            context.result = join(context.result, none)
    if calls.is_stub(node):
        annotated = attributes.return_annotation(machine, info)
        context.result = annotated or unknown
