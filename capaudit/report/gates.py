"""Verdict tables of the contract: preflight, run manifests and the two gates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from capaudit import __version__
from capaudit.contract.candidates import Preflight
from capaudit.contract.manifest import RunManifest
from capaudit.contract.verdicts import EVIDENCE_ONLY, ArmVerdict, Figure, GateVerdict, Verdict
from capaudit.model import Boundary
from capaudit.report.source import printable

GATE_SCHEMA: Final = "capaudit-gate/1"
PREFLIGHT_SCHEMA: Final = "capaudit-preflight/1"
MANIFESTS_SCHEMA: Final = "capaudit-manifest-check/1"

_ORDER: Final[tuple[Verdict, ...]] = ("fail", "not reached", "pass")


def gate_text(verdict: GateVerdict) -> str:
    """Return one table per arm, what failed first, and the claim that may be made."""
    title = {"S": "semantics", "P": "performance"}[verdict.gate]
    lines = [f"Gate {verdict.gate} ({title}) of {verdict.subject}, commit {verdict.git_head[:12]}", ""]
    for arm in verdict.arms:
        lines += [*_arm(arm), ""]
    lines.append(f"Gate {verdict.gate}: {verdict.verdict}")
    lines.append(f"claim: {verdict.claim}")
    lines.append(f"evidence: sha256 {verdict.evidence_sha256}")
    return "\n".join(printable(line) for line in lines) + "\n"


def gate_json(verdict: GateVerdict) -> str:
    """Return the receipt as ``capaudit-gate/1``."""
    return _json(GATE_SCHEMA, asdict(verdict))


def preflight_text(boundary: Boundary, verdict: Preflight) -> str:
    """Return the verdict with every reason, one line each."""
    word = "supported" if verdict.supported else "unsupported"
    lines = [f"preflight of boundary {boundary.name} ({boundary.entry}): {word}"]
    lines += _columns([(reason.subject, reason.code, reason.message) for reason in verdict.reasons])
    if verdict.rehearsal:
        lines.append("rehearsal: the CPU stood for the CUDA device")
    lines.append(f"claim: {EVIDENCE_ONLY}")
    return "\n".join(printable(line) for line in lines) + "\n"


def preflight_json(boundary: Boundary, verdict: Preflight) -> str:
    """Return the verdict as ``capaudit-preflight/1``."""
    body = {"boundary": {"name": boundary.name, "entry": boundary.entry, "k": boundary.k}, **asdict(verdict)}
    return _json(PREFLIGHT_SCHEMA, {**body, "claim": EVIDENCE_ONLY})


def manifests_text(found: Sequence[tuple[str, RunManifest]]) -> str:
    """Return one line per valid manifest and its reasons below it."""
    lines = []
    for source, manifest in found:
        enabled = f"enabled, capture {manifest.capture_id}" if manifest.enabled else "not enabled"
        lines.append(f"{source}: valid; mode {manifest.mode}, state {manifest.state}, {enabled}")
        ordering = manifest.ordering
        lines.append(
            f"  {manifest.replays} replays, {manifest.eager_ticks} eager ticks, {manifest.fallbacks} fallbacks; "
            f"{ordering.published} published, {ordering.released} released; "
            f"{manifest.worlds} worlds on {manifest.gpu_uuid}"
        )
        lines += [f"  disabled: {reason}" for reason in manifest.disable_reasons]
        lines += [f"  invalidated: {reason}" for reason in manifest.invalidation_reasons]
        lines += [f"  fell back: {reason}" for reason in manifest.fallback_reasons]
    lines.append(f"claim: {EVIDENCE_ONLY}")
    return "\n".join(printable(line) for line in lines) + "\n"


def manifests_json(found: Sequence[tuple[str, RunManifest]]) -> str:
    """Return the valid manifests as ``capaudit-manifest-check/1``."""
    rows = [{"file": source, "valid": True, "manifest": asdict(manifest)} for source, manifest in found]
    return _json(MANIFESTS_SCHEMA, {"manifests": rows, "claim": EVIDENCE_ONLY})


def _arm(arm: ArmVerdict) -> Iterator[str]:
    yield f"{arm.arm} arm: {arm.verdict}"
    ranked = sorted(arm.checks, key=lambda check: _ORDER.index(check.verdict))
    yield from _columns([(check.verdict, check.subject, check.detail) for check in ranked])
    if arm.figures:
        yield "  env steps per second, median of the last iterations"
        yield from _columns([_figure(figure) for figure in arm.figures])


def _figure(figure: Figure) -> tuple[str, str, str]:
    decisive = "" if figure.decisive else " (reported, not decisive)"
    rates = f"{figure.candidate_rate:,.0f} against {figure.baseline_rate:,.0f}"
    return figure.baseline, f"{figure.gain:+.1%}", f"{rates}{decisive}"


def _columns(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return [f"  {first:<{widths[0]}}  {second:<{widths[1]}}  {third}".rstrip() for first, second, third in rows]


def _json(schema: str, body: dict[str, Any]) -> str:
    document = {"schema": schema, "tool": {"name": "capaudit", "version": __version__}, **body}
    return json.dumps(document, indent=2) + "\n"
