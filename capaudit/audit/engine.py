"""One audit from options to result."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from capaudit.audit import calls, parameters
from capaudit.audit.arguments import Arguments
from capaudit.audit.between import note_changes
from capaudit.audit.boundaries import Entry, find_entries, owned_functions, stray_comments
from capaudit.audit.calltree import reached_functions
from capaudit.audit.contexts import Context, Rebind
from capaudit.audit.defaults import sets_default_device
from capaudit.audit.frame import Frame, run_context
from capaudit.audit.generators import Unregistered, registers_generators
from capaudit.audit.late import late_rebinds
from capaudit.audit.machine import Machine
from capaudit.audit.names import Names
from capaudit.audit.options import AuditOptions, program_roots
from capaudit.audit.order_rules import order_findings
from capaudit.audit.providers import refused
from capaudit.audit.regions import note_given_streams
from capaudit.audit.registrations import Registrations
from capaudit.audit.restarts import note_restarts
from capaudit.audit.static_audits import static_audits
from capaudit.audit.suppressions import apply_suppressions, comment_finding, meta_finding, spans
from capaudit.audit.values import Function, Value, instance, reset_pool
from capaudit.audit.verdicts import Verdicts, attach_fallbacks, collect, reachable
from capaudit.audit.warmup import capturing_functions, entry_is_warm
from capaudit.cache import ending
from capaudit.knowledge import Knowledge, load
from capaudit.model import Boundary, EvidenceSummary, Finding, OwnershipClass, Place, Result, Statistics
from capaudit.program import FunctionInfo, Program, Unparsable, build_program
from capaudit.program.index import BrokenFileError, Deferred
from capaudit.program.workers import processors

if TYPE_CHECKING:
    from capaudit.audit.fixes.site import Tree


def audit(options: AuditOptions) -> Result:
    """Audit the program under ``options.paths`` from its boundaries.

    Errors: ``InputError`` for paths, ``ConfigurationError`` for knowledge files,
    ``UnresolvedEntryError`` for an entry that names nothing. Files that cannot be parsed become
    CAP905 findings and the rest is audited.
    """
    return audit_program(options)[0]


def audit_program(options: AuditOptions) -> tuple[Result, Program, Deferred]:
    """Audit as ``audit`` does; return the program as well, and what was read and asked of it."""
    started = time.perf_counter()
    enabled = gc.isenabled()
    gc.disable()  # contexts and syntax trees live until the end; collecting meanwhile only costs time
    deferred = Deferred()
    try:
        while True:  # a second time where a file turned out to be broken that the first time took for a part
            try:
                result, program = _audit(options, started, deferred)
            except BrokenFileError as error:
                deferred.know(error.broken)
                continue
            if not deferred.unread_and_broken(program, _file_jobs(options, deferred)):
                return result, program, deferred
    finally:
        reset_pool()
        if enabled:
            gc.enable()


def find_boundaries(options: AuditOptions) -> tuple[Boundary, ...]:
    """Return the boundaries that an audit with these options would look at."""
    program = _program(options)
    return tuple(entry.boundary for entry in find_entries(program, Names(program), options))


def _program(options: AuditOptions, deferred: Deferred | None = None) -> Program:
    return build_program(
        program_roots(options), options.working_directory, options.configuration.excludes, options.unsaved, deferred
    )


def _audit(options: AuditOptions, started: float, deferred: Deferred) -> tuple[Result, Program]:
    reset_pool()
    ending.keep()
    knowledge = load(options.configuration.knowledge_files())
    program = _program(options, deferred)
    names = Names(program)
    entries = find_entries(program, names, options)
    deferred.check_early(program, _file_jobs(options, deferred))
    facts = _program_facts(program, names, entries)
    trees: dict[str, Tree] = {}

    def look(entry: Entry) -> tuple[Verdicts, list[tuple[str, int, int]]]:
        # A machine of its own: what one boundary reports must not depend on which others are audited.
        reset_pool()
        machine = Machine(program, names, knowledge, run_context, dict(options.configuration.versions))
        machine.owned, machine.capturing = facts.owned, facts.capturing
        machine.memo.update(facts.switches)
        ending.keep(program, machine)
        return _verdicts(machine, entry, options, trees)

    share = deferred.spreading(program, _jobs(options, deferred))
    over_files = deferred.spreading(program, _file_jobs(options, deferred))
    looked = share(entries, look)
    results = [(entry, verdicts) for entry, (verdicts, _) in zip(entries, looked, strict=True)]
    audited = [span for _, spans_of in looked for span in spans_of]
    attach_fallbacks(program, results, knowledge)
    findings = [finding for _, verdict in results for finding in verdict.findings]
    if options.collect_fixes:
        from capaudit.audit.fixes.proposing import agreed

        findings = agreed(findings)
    findings.extend(_unparsable(program, knowledge))
    findings.extend(
        comment_finding("CAP904", module, comment, message, knowledge)
        for module, comment, message in stray_comments(program)
    )
    summary: EvidenceSummary | None = None
    if options.evidence:
        from capaudit.audit.observed import observe

        observed = observe(options, program, knowledge, entries, facts.owned, findings)
        findings, summary = observed.findings, observed.summary
    findings = [*findings, *order_findings(program, knowledge, options.configuration, over_files)]
    kept, suppressed = apply_suppressions(program, findings, knowledge, spans(audited), options.today)
    if options.evidence:
        from capaudit.audit.observed import contradictions

        kept += contradictions([*kept, *suppressed], knowledge)
    result = _result(options, program, results, kept, started)
    silenced = sorted(suppressed, key=lambda finding: finding.sort_key)
    files = sorted([*program.by_file, *(broken.file for broken in program.unparsable)])
    return replace(result, suppressed=tuple(silenced), evidence=summary, files=tuple(files)), program


def _jobs(options: AuditOptions, deferred: Deferred) -> int:
    if options.jobs is not None:
        return options.jobs
    return processors() if deferred.size >= _WORTHWHILE else 1


def _file_jobs(options: AuditOptions, deferred: Deferred) -> int:
    """Processes for work on each file by itself: none but this one before there are very many."""
    return _jobs(options, deferred) if deferred.size >= _VERY_LARGE else 1


_WORTHWHILE = 1 << 20
"""Bytes of source from which on a second process, which reads some files again, ends sooner than one alone."""
_VERY_LARGE = 16 << 20


def _verdicts(
    machine: Machine, entry: Entry, options: AuditOptions, trees: dict[str, Tree]
) -> tuple[Verdicts, list[tuple[str, int, int]]]:
    """Return what one boundary amounts to, and file, first and last line of every function that it reaches."""
    machine.refused = refused(machine.names, entry.cls)
    if entry.cls is not None:
        machine.registrations = Registrations(machine, entry.cls, entry.function.name)
    root = evaluate_entry(machine, entry)
    if note_changes(machine, entry, {context.function for context in reachable(root)}):
        for _ in range(2 if entry.region is not None else 0):
            machine.run(root.items["host"])
        machine.settle_unknown()
    note_restarts(machine, root)
    late: list[Rebind] = late_rebinds(machine, root, entry)
    verdicts = collect(machine, entry, root, late)
    if options.collect_operations:
        verdicts.reached = tuple(reached_functions(entry, reachable(root)))
    if options.collect_fixes:
        from capaudit.audit.fixes.proposing import propose_fixes

        around = [root, *([root.items["host"]] if "host" in root.items else [])]
        verdicts.findings = propose_fixes(machine, verdicts.findings, around, trees)
    audited = []
    for context in reachable(root):
        node = context.function.node if context.function else None
        if node is not None:
            first = min(part.lineno for part in (node, *getattr(node, "decorator_list", ())))
            audited.append((context.module.file, first, node.end_lineno or node.lineno))
    return verdicts, audited


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the whole program says once for all boundaries."""

    owned: dict[FunctionInfo, tuple[str, str]]
    capturing: list[tuple[FunctionInfo, int]]
    switches: dict[str, object]


def _program_facts(program: Program, names: Names, entries: list[Entry]) -> _Facts:
    validates = "set_default_validate_args(False)"
    switches: dict[str, object] = {
        "no-validation": any(validates in module.source for module in program.modules.values()),
        "default-device": sets_default_device(program),
    }
    if registers_generators(program):
        switches |= {"registered-generator": True, "unregistered-generators": Unregistered(program)}
    return _Facts(owned_functions(program, names, entries), capturing_functions(program), switches)


def evaluate_entry(machine: Machine, entry: Entry) -> Context:
    """Bring a boundary's contexts to rest and return the one it starts with."""
    machine.capture = entry.boundary.capture
    machine.warm = entry_is_warm(machine.capturing, entry)
    if entry.region is not None:
        return _evaluate_region(machine, entry)
    receiver = (
        instance(entry.cls) if entry.cls is not None and not entry.function.has_decorator("staticmethod") else None
    )
    arguments = calls.promised_arguments(machine, entry.function, receiver, entry=True)
    value = (
        calls.bind_decorated(machine, entry.function, receiver)
        if receiver is not None
        else calls.decorated(machine, entry.function)
    )
    root = Context(None, entry.function.module, None, {}, frozenset([("boundary", entry.boundary.capture)]), "tick")
    root.items["entry"] = (value, arguments)
    direct = _direct(machine, entry, value, arguments, root)
    machine.settle_unknown()
    note_given_streams(machine, direct)
    return direct


def _direct(machine: Machine, entry: Entry, value: Value, arguments: dict[str, Value], root: Context) -> Context:
    """Enter the function that the entry's name is bound to: itself, or the wrapper of a decorator."""
    mode = frozenset([("boundary", entry.boundary.capture)])
    wrappers = [atom for atom in value if isinstance(atom, Function)]
    target = wrappers[0] if wrappers else None
    if target is None or target.function is entry.function:
        receiver = target.receiver if target is not None else None
        context = machine.enter(entry.function, receiver, arguments, mode, "tick", None, None)
        assert context is not None
        return context
    frame = Frame(machine, root, entry.function, entry.function.module)
    promised = list(arguments.values())
    given = Arguments(promised if target.receiver is None else promised[1:])
    bound = parameters.bind(frame, target.function, target.receiver, given) or {}
    context = machine.enter(target.function, target.receiver, bound, mode, "tick", None, None, target.closure)
    assert context is not None
    return context


def _evaluate_region(machine: Machine, entry: Entry) -> Context:
    """Evaluate the function around a discovered capture; its body up to there is cold and may warm things up."""
    function = entry.function
    root = Context(function, function.module, None, {}, frozenset([("boundary", entry.boundary.capture)]), "tick")
    receiver = instance(entry.cls) if entry.cls is not None and not function.has_decorator("staticmethod") else None
    arguments = calls.promised_arguments(machine, function, receiver)
    host = Context(function, function.module, receiver, arguments, frozenset(), "cold")
    root.receiver = receiver
    root.arguments = arguments
    host.items["region"] = entry.region
    host.items["root"] = root
    root.items["host"] = host
    root.runs = 1_000_000
    machine.run(host)
    machine.settle_unknown()
    machine.warmed = dict.fromkeys(_warmed(host))
    for _ in range(3):
        before = root.records
        machine.run(host)
        machine.settle_unknown()
        if before.keys() == root.records.keys():
            break
    return root


def _warmed(host: Context) -> list[FunctionInfo]:
    seen: dict[Context, None] = {host: None}
    queue = [host]
    for context in queue:
        for callee in context.callees:
            if callee.phase == "cold" and callee not in seen:
                seen[callee] = None
                queue.append(callee)
    return [context.function for context in queue if context is not host and context.function is not None]


def _unparsable(program: Program, knowledge: Knowledge) -> list[Finding]:
    ending = "the rest of the program was audited without it"
    return [broken_file(broken, knowledge, ending) for broken in program.unparsable]


def broken_file(broken: Unparsable, knowledge: Knowledge, ending: str) -> Finding:
    """The finding about a file that cannot be parsed, which says in the end what that means for the rest."""
    rule = knowledge.rules["CAP905"]
    place = Place(broken.file, broken.line, broken.column, broken.line, broken.column)
    return meta_finding("CAP905", rule.name, place, f"the file {broken.cause}; {ending}", rule.remedy)


def _result(
    options: AuditOptions,
    program: Program,
    results: list[tuple[Entry, Verdicts]],
    findings: list[Finding],
    started: float,
) -> Result:
    operations = [operation for _, verdict in results for operation in verdict.operations]
    unresolved = [call for _, verdict in results for call in verdict.unresolved]
    pruned = dict.fromkeys(branch for _, verdict in results for branch in verdict.pruned)
    by_class = {ownership.value: 0 for ownership in OwnershipClass}
    for operation in operations:
        by_class[operation.ownership.value] += 1
    functions: set[str] = set()
    for _, verdict in results:
        functions |= verdict.functions
    statistics = Statistics(
        files=program.file_count,
        functions_reachable=len(functions),
        operations=len(operations),
        calls=sum(verdict.calls for _, verdict in results),
        by_class=by_class,
        unresolved=len(unresolved),
        seconds=time.perf_counter() - started,
    )
    operations.sort(key=lambda o: (o.boundary, o.place, o.hazard or "", o.name))
    return Result(
        boundaries=tuple(entry.boundary for entry, _ in results),
        findings=tuple(sorted(findings, key=lambda f: f.sort_key)),
        operations=tuple(operations) if options.collect_operations else (),
        unresolved=tuple(sorted(unresolved, key=lambda u: (u.boundary, u.place))),
        pruned=tuple(sorted(pruned, key=lambda p: (p.place, p.reason))),
        statistics=statistics,
        functions=tuple(function for _, verdict in results for function in verdict.reached),
        audits=static_audits(options.configuration.audits, program, (verdict for _, verdict in results), findings),
    )
