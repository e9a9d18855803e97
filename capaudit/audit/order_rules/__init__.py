"""ORD rules: code that loses a joint or body order. Patterns over whole files, which need no boundary.

A file is walked only when its text mentions what a wanted rule speaks of, so that a check of code without
robots costs a few substring searches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from capaudit.audit.configuration import Configuration
from capaudit.audit.order_rules import axes, entry_points, literals, lookups, presets
from capaudit.audit.order_rules.support import Hit, SourceFile
from capaudit.audit.verdicts import fingerprint
from capaudit.knowledge import Knowledge, Rule
from capaudit.model import Confidence, Finding, OwnershipClass, Place
from capaudit.program import Module, Program
from capaudit.program.index import portions
from capaudit.program.workers import Spread, one_by_one

Check = Callable[[SourceFile, Program], Iterator[Hit]]

# What a rule looks for in a file's text before anybody walks its tree: one of the words, and the pattern on the
# line of that word or just behind it. Searching for plain words is some fifty times faster than for a pattern.
_CHECKS: Final[tuple[tuple[str, tuple[str, ...], str, Check], ...]] = (
    ("ORD001", ("preserve_order",), "", lookups.dead_preserve_order),
    ("ORD002", ("slice(None",), r"=\s*slice\(None", lookups.slice_by_count),
    (
        "ORD003",
        ("find_joints(", "find_bodies("),
        r"find_(?:joints|bodies)\((?!\w*[\"']|self\.cfg|cfg)",
        lookups.unordered_literal_lookup,
    ),
    ("ORD004", ("5,", "5]", "5)", "5\n"), r"[\[(]\s*\d+\s*,(?:\s*\d+\s*,){4,}", literals.literal_permutation),
    ("ORD005", ("joint", "dof"), r"(?:joint|dof)\w*(?:\[.*\[\d|.*=\s*[\[(]\s*\d+\s*,)", literals.literal_joint_indices),
    ("ORD008", ("joint_ordering", "body_ordering"), "", presets.half_preset),
    ("ORD010", ("def ",), r"def \w*(?:joint|bod|link|dof)\w*", presets.traversal_emulation),
    ("ORD011", ("list(range(",), r"(?:to|perm|map|order)\w*(?:\[.*\])?\s*(?::.*)?=", literals.missing_as_identity),
    ("ORD011", ("arange(",), r"(?:to|perm|map|order)\w*\s*(?::.*)?=", literals.missing_as_identity),
    ("ORD011", (" else ",), r"\bif\s.*\sin\s.*(?:joint|dof|bod)", literals.missing_as_identity),
    (
        "ORD011",
        (".get(", " in "),
        r"(?:joint|dof|bod)\w*(?:\.get\(|\.index\(|\])",
        literals.missing_as_identity_possibly,
    ),
    ("ORD012", ("zip(",), r"(?:actuator|ctrl|motor)", axes.joint_axis_as_actuator_axis),
    ("ORD012", ("ctrl[:]",), r"ctrl\[:\]\s*=", axes.joint_axis_as_actuator_axis),
    ("ORD013", ("load(", "load_", "InferenceSession"), "", entry_points.replay_without_record),
    ("ORD016", ("savez(", "savez_compressed("), "", axes.nameless_joint_data),
    ("ORD019", ("checkpoints", "nn"), r"[\"'/](?:checkpoints|nn)[\"'/]", entry_points.sidecar),
)
_Wanted = tuple[Rule, tuple[str, ...], re.Pattern[str], Check, bool]
OPT_IN: Final = "opt-in pattern"


def order_findings(
    program: Program, knowledge: Knowledge, configuration: Configuration, share: Spread = one_by_one
) -> list[Finding]:
    """Return the findings of the wanted ORD rules in every module that is no test.

    A rule that is not on by default, and a hit that is only possible, has to be asked for by ``select`` or
    ``extend-select``. ``share`` does the parts of a large program.
    """
    wanted = [
        (rule, words, re.compile(pattern), check, configuration.asks_for(rule.code, rule.name))
        for code, words, pattern, check in _CHECKS
        if (rule := knowledge.rules.get(code)) is not None and _is_wanted(rule, configuration)
    ]
    if not wanted:
        return []

    def look(modules: list[Module]) -> list[Finding]:
        return [finding for module in modules for finding in _in_module(module, program, wanted)]

    modules = [module for module in program.productive if not module.name.endswith("_test")]
    return [finding for part in share(portions(modules), look) for finding in part]


def _in_module(module: Module, program: Program, wanted: list[_Wanted]) -> list[Finding]:
    findings: list[Finding] = []
    source = module.source
    file: SourceFile | None = None
    done: set[Check] = set()
    for rule, words, pattern, check, asked in wanted:
        if check in done or not source.near(words, pattern):
            continue
        done.add(check)
        file = file or SourceFile(module)
        hits = (hit for hit in check(file, program) if asked or hit.confidence is not Confidence.POSSIBLE)
        findings.extend(_finding(rule, module, hit) for hit in hits)
    return findings


def _is_wanted(rule: Rule, configuration: Configuration) -> bool:
    if configuration.asks_for(rule.code, rule.name):
        return True
    return rule.ownership != OPT_IN and not configuration.select


def _finding(rule: Rule, module: Module, hit: Hit) -> Finding:
    node = hit.node
    end_line = node.end_lineno or node.lineno
    place = Place(module.file, node.lineno, node.col_offset + 1, end_line, (node.end_col_offset or 0) + 1)
    line = module.lines[node.lineno - 1].strip() if node.lineno <= len(module.lines) else ""
    return Finding(
        rule.code,
        rule.name,
        OwnershipClass.REJECTED,
        None,
        place,
        place,
        hit.message,
        hit.confidence,
        "",
        (),
        hit.why,
        rule.remedy,
        fingerprint(rule.code, module.name, line, hit.message),
    )
