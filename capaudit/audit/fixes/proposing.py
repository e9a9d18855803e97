"""From the findings of one boundary to the same findings with their fixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from capaudit.audit.contexts import Context
from capaudit.audit.fixes import constant_operand, index_fill, log_item, masked_put, nonzero_put, scoped_stream
from capaudit.audit.fixes.facts import Facts
from capaudit.audit.fixes.site import Site, Tree
from capaudit.audit.machine import Machine
from capaudit.model import Finding, Fix
from capaudit.program import FunctionInfo, Module

# In order of preference: what removes the search for positions also removes the put through them.
_REWRITES: tuple[Callable[[Site], Fix | None], ...] = (
    nonzero_put.propose,
    index_fill.propose,
    constant_operand.propose,
    masked_put.propose,
    scoped_stream.propose,
    log_item.propose,
)
# The findings that a rewrite may speak of; for all others nothing is looked up.
_OPERATIONS = {
    "CAP101": ("torch.Tensor.item",),
    "CAP103": ("python.setitem", "torch.tensor", "torch.as_tensor", "torch.scalar_tensor"),
    "CAP201": ("python.setitem", "python.getitem", "torch.Tensor.nonzero", "torch.nonzero", "torch.where"),
    "CAP402": ("warp.ScopedStream",),
}


def propose_fixes(
    machine: Machine, findings: Iterable[Finding], others: Iterable[Context], trees: dict[str, Tree]
) -> list[Finding]:
    """Return the findings, each with the rewrite that removes it where there is one.

    ``others`` are contexts that the machine does not list by function (a captured region and its host);
    ``trees`` keeps the syntax of modules between boundaries.
    """
    findings = list(findings)
    wanted = [finding for finding in findings if _may_be_fixed(finding)]
    modules = {module.file: module for module in machine.program.modules.values()}
    holders = dict.fromkeys(h for finding in wanted for h in _holders(modules.get(finding.place.file), finding))
    facts = Facts(machine, others)
    for holder in holders:
        facts.cover(holder)
    result = []
    for finding in findings:
        module = modules.get(finding.place.file)
        fix = None
        if module is not None and _may_be_fixed(finding):
            if module.file not in trees:
                trees[module.file] = Tree(module)
            site = Site(finding, trees[module.file], facts, machine.program, machine.capture, machine.owned)
            found = (
                []
                if not trees[module.file].regular
                else [fix for rewrite in _REWRITES if (fix := rewrite(site)) is not None]
            )
            fix = next((fix for fix in found if fix.safe), found[0] if found else None)
        result.append(replace(finding, fix=fix) if fix is not None else finding)
    return result


def _may_be_fixed(finding: Finding) -> bool:
    return finding.operation in _OPERATIONS.get(finding.code, ())


def _holders(module: Module | None, finding: Finding) -> list[FunctionInfo]:
    """The functions around a finding, the outer ones too: a nested one reads their variables."""
    if module is None:
        return []
    line = finding.place.line
    return [f for f in module.all_functions if f.node.lineno <= line <= (f.node.end_lineno or 0)]


def agreed(findings: Iterable[Finding]) -> list[Finding]:
    """Drop a fix that another boundary, in which the same operation is rejected, does not have as well."""
    findings = list(findings)
    fixes: dict[tuple[object, ...], set[tuple[object, ...] | None]] = {}
    for finding in findings:
        edits = (finding.fix.name, finding.fix.edits) if finding.fix else None
        fixes.setdefault((finding.place, finding.code), set()).add(edits)
    unsafe = {finding.fix.edits for finding in findings if finding.fix and not finding.fix.safe}
    result = []
    for finding in findings:
        fix = finding.fix
        if fix is not None and len(fixes[(finding.place, finding.code)]) > 1:
            fix = None
        elif fix is not None and fix.safe and fix.edits in unsafe:
            fix = replace(fix, safe=False)
        result.append(replace(finding, fix=fix) if fix is not finding.fix else finding)
    return result
