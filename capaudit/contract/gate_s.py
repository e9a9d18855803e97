"""Gate S: are captured trajectories the same as eager ones, and does every planted fault end as declared?

Pure: a verdict from an evidence document. What is missing is "not reached" and never a pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from capaudit.contract.documents import canonical_sha256
from capaudit.contract.gate_s_evidence import (
    ArmRun,
    AuditObservation,
    FaultObservation,
    GateSEvidence,
    Observation,
    OrderingObservation,
)
from capaudit.contract.gate_words import (
    ABSENT_FIELDS,
    ARMS,
    AUDITS,
    FAULTS,
    FIELDS,
    GROUPED_FIELDS,
    MASKS,
    TRAJECTORIES,
    Arm,
    Fault,
    Field,
    Mask,
    Outcome,
    Trajectory,
)
from capaudit.contract.manifest import RunManifest
from capaudit.contract.receipts import EAGER_CAPTURE
from capaudit.contract.verdicts import (
    EVIDENCE_ONLY,
    ArmVerdict,
    Check,
    GateVerdict,
    failed,
    not_reached,
    passed,
    worst,
)


def judge_gate_s(evidence: GateSEvidence) -> GateVerdict:
    """Return the verdict: per arm, and over both arms the worst of them.

    An arm that was not run is not reached, and then so is the gate; each arm's verdict stands by itself.
    """
    audits = tuple(_audits(evidence))
    arms = tuple(_arm(evidence, arm, audits) for arm in ARMS)
    return GateVerdict(
        gate="S",
        verdict=worst(arm.verdict for arm in arms),
        subject=evidence.workload.name,
        git_head=evidence.git_head,
        evidence_sha256=canonical_sha256(evidence),
        arms=arms,
        claim=EVIDENCE_ONLY,
    )


def _arm(evidence: GateSEvidence, arm: Arm, audits: tuple[Check, ...]) -> ArmVerdict:
    run = next((run for run in evidence.arms if run.arm == arm), None)
    if run is None:
        return ArmVerdict(arm, "not reached", (not_reached("arm", "arm-missing", "the evidence does not speak of it"),))
    if run.status == "not_run":
        return ArmVerdict(arm, "not reached", (not_reached("arm", "arm-not-run", run.reason),))
    if run.status == "no_go":
        detail = f"no-go: {run.reason} (evidence {', '.join(run.evidence)})"
        return ArmVerdict(arm, "not reached", (not_reached("arm", "no-go", detail),))
    checks = (
        *_masks(evidence),
        *_manifests(evidence, run),
        *_fields(evidence, arm),
        *_orderings(evidence, run),
        *_faults(evidence, arm),
        *audits,
    )
    return ArmVerdict(arm, worst(check.verdict for check in checks), checks)


def _masks(evidence: GateSEvidence) -> Iterator[Check]:
    rows, worlds = evidence.workload.mask_rows, evidence.workload.worlds
    missing = [mask for mask in MASKS if mask not in rows]
    if missing:
        yield not_reached("masks", "mask-missing", f"not run: {', '.join(missing)}")
    elif rows["empty"] != 0 or rows["full"] != worlds or not 0 < rows["partial"] < worlds:
        shown = ", ".join(f"{mask} resets {rows[mask]}" for mask in MASKS)
        yield not_reached("masks", "mask-rows", f"{shown} of {worlds} worlds, so not every case was met")
    else:
        yield passed("masks", f"empty, partial ({rows['partial']} of {worlds} worlds) and full")


# -- manifests ----------------------------------------------------------------------------------------------------


def _manifests(evidence: GateSEvidence, run: ArmRun) -> Iterator[Check]:
    first = next(iter(run.manifests.values()), None)
    for trajectory in TRAJECTORIES:
        subject = f"manifest {trajectory}"
        manifest = run.manifests.get(trajectory)
        if manifest is None:
            yield not_reached(subject, "manifest-missing", "the trajectory has no run manifest")
        else:
            assert first is not None
            yield _manifest(evidence, subject, trajectory, manifest, first)


def _manifest(
    evidence: GateSEvidence, subject: str, trajectory: Trajectory, found: RunManifest, first: RunManifest
) -> Check:
    if found.rehearsal:
        return not_reached(subject, "rehearsal", "the run was a rehearsal on the CPU, where nothing is captured")
    if found.git_head != evidence.git_head:
        return failed(subject, "other-head", f"it ran commit {found.git_head[:12]}, not {evidence.git_head[:12]}")
    if found.worlds != evidence.workload.worlds:
        return failed(subject, "other-worlds", f"it ran {found.worlds} worlds, not {evidence.workload.worlds}")
    for name in ("gpu_uuid", "seeds", "software", "shapes", "ingress", "rng"):
        if getattr(found, name) != getattr(first, name):
            return failed(
                subject, f"other-{name.replace('_', '-')}", f"its {name} differs from the other trajectories'"
            )
    if trajectory == "eager":
        if found.mode != "eager" or not found.eager_ticks:
            return failed(subject, "mode", f"the baseline has mode {found.mode} and {found.eager_ticks} eager ticks")
        return passed(subject, f"{found.eager_ticks} eager ticks")
    if not found.enabled:
        why = ", ".join((*found.disable_reasons, *found.invalidation_reasons))
        return failed(subject, "not-enabled", f"the graph was not enabled at the end: {why}")
    if not found.replays:
        return failed(subject, "no-replay", "nothing was replayed")
    if found.fallbacks:
        return failed(subject, "fallback", f"it fell back {found.fallbacks} times: {found.fallback_reasons[0]}")
    if trajectory == "warmup_replay" and not found.eager_ticks:
        return failed(subject, "no-warm-up", "the run has no eager warm-up ticks")
    return passed(subject, f"{found.eager_ticks} eager ticks, {found.replays} replays of {found.capture_id}")


# -- equality -----------------------------------------------------------------------------------------------------


def _fields(evidence: GateSEvidence, arm: Arm) -> Iterator[Check]:
    found = {item.key: item for item in evidence.observations if item.arm == arm}
    for field in FIELDS:
        groups: tuple[str | None, ...] = evidence.workload.groups if field in GROUPED_FIELDS else (None,)
        for group in groups:
            yield _field(evidence, arm, field, group, found)


def _field(
    evidence: GateSEvidence,
    arm: Arm,
    field: Field,
    group: str | None,
    found: Mapping[tuple[str, str, str, str, str], Observation],
) -> Check:
    """Judge one field over every mask and both captured trajectories; the worst comparison speaks."""
    subject = field if group is None else f"{field}[{group}]"
    tolerance = evidence.workload.tolerances.get(field, 0.0)
    largest = 0.0
    compared = elements = 0
    missing: list[str] = []
    for mask in MASKS:
        eager = found.get((arm, "eager", mask, field, group or ""))
        for trajectory in TRAJECTORIES[1:]:
            item = found.get((arm, trajectory, mask, field, group or ""))
            if eager is None or item is None:
                missing.append(f"{trajectory if item is None else 'eager'}/{mask}")
                continue
            verdict = _compare(subject, eager, item, tolerance)
            if verdict is not None:
                return verdict
            if not item.elements and not _may_be_empty(field, mask):
                missing.append(f"{trajectory}/{mask} (0 elements)")
            compared += 1
            elements += item.elements
            largest = max(largest, item.difference or 0.0)
    if missing:
        return not_reached(subject, "field-missing", f"not observed: {', '.join(dict.fromkeys(missing))}")
    if not elements:
        return passed(subject, "the workload has none, in eager and captured trajectories alike")
    equal = "equal bit for bit" if largest == 0 else f"within {tolerance:g} (largest difference {largest:g})"
    return passed(subject, f"{compared} comparisons, {equal}")


def _compare(subject: str, eager: Observation, item: Observation, tolerance: float) -> Check | None:
    where = f"{item.trajectory}, {item.mask} mask"
    if item.elements != eager.elements:
        return failed(subject, "elements", f"{where}: {item.elements} elements, eager has {eager.elements}")
    same = item.sha256 == eager.sha256
    if same and item.difference not in (0, None):
        return failed(subject, "contradiction", f"{where}: equal digests and a difference of {item.difference:g}")
    if same:
        return None
    if item.difference is None:
        return failed(subject, "differs", f"{where}: the values differ and cannot be subtracted")
    if tolerance and item.difference <= tolerance:
        return None
    return failed(
        subject, "differs", f"{where}: differs from eager by up to {item.difference:g} (allowed {tolerance:g})"
    )


def _may_be_empty(field: Field, mask: Mask) -> bool:
    # Under the empty mask no world ends, so nothing is terminal and nothing is reset.
    ends = field in ("terminal_observations", "reset_observations", "post_reset_observations")
    return field in ABSENT_FIELDS or (ends and mask == "empty")


# -- order --------------------------------------------------------------------------------------------------------


def _orderings(evidence: GateSEvidence, run: ArmRun) -> Iterator[Check]:
    found = {item.trajectory: item for item in evidence.orderings if item.arm == run.arm}
    for trajectory in TRAJECTORIES:
        item = found.get(trajectory)
        subject = f"ordering {trajectory}"
        if item is None:
            yield not_reached(subject, "ordering-missing", "the order of the transitions was not observed")
        else:
            yield _ordering(subject, item, run.manifests.get(trajectory))


def _ordering(subject: str, found: OrderingObservation, manifest: RunManifest | None) -> Check:
    ticks = found.last_tick - found.first_tick + 1
    problems = []
    if found.published != ticks:
        problems.append(f"{found.published} publications for {ticks} ticks, so they are not contiguous")
    if found.released != found.published:
        problems.append(f"{found.published} published and {found.released} released")
    if found.final_observations != found.published:
        problems.append(f"{found.published - found.final_observations} transitions without their final observation")
    if found.stale or found.reordered:
        problems.append(f"{found.stale} stale and {found.reordered} reordered transitions")
    if found.empty_mask_draws:
        problems.append(f"an empty mask consumed {found.empty_mask_draws} random draws")
    if manifest is not None:
        allowed = {EAGER_CAPTURE} if manifest.eager_ticks else set()
        if manifest.capture_id is not None:
            allowed.add(manifest.capture_id)
        if set(found.capture_identities) != allowed:
            problems.append(
                f"receipts of {', '.join(found.capture_identities) or 'no capture'}, "
                f"the manifest has {', '.join(sorted(allowed)) or 'none'}"
            )
        if manifest.ordering.published != found.published or manifest.ordering.released != found.released:
            problems.append("the manifest counts other publications or releases")
    if problems:
        return failed(subject, "order", "; ".join(problems))
    return passed(subject, f"{ticks} ticks, contiguous, published = released")


# -- faults -------------------------------------------------------------------------------------------------------


def _faults(evidence: GateSEvidence, arm: Arm) -> Iterator[Check]:
    found = {item.fault: item for item in evidence.faults if item.arm == arm}
    for fault, outcome in FAULTS.items():
        item = found.get(fault)
        subject = f"fault {fault}"
        if item is None:
            yield not_reached(subject, "fault-missing", "the fault was not planted")
            continue
        problem = _fault_problem(fault, outcome, item)
        yield failed(subject, "behaviour", problem) if problem else passed(subject, f"{item.outcome}: {item.reason}")


def _fault_problem(fault: Fault, wanted: Outcome, found: FaultObservation) -> str | None:
    if found.outcome != wanted:
        return f"{found.outcome} where the contract wants {wanted}"
    if not found.reason.strip():
        return f"{found.outcome} without a reason"
    if found.published and fault != "replay_failed_published":
        return f"the faulty tick published {found.published} transitions"
    if fault == "replay_failed_published" and not found.published:
        return "the replay was to fail after its publication, and nothing was published"
    if found.replays_after:
        return f"the capture was replayed {found.replays_after} times after the fault"
    if wanted == "fell_back":
        if found.fallbacks != 1:
            return f"{found.fallbacks} fallbacks were counted for one"
        if found.rng_restored is not True:
            return "it fell back without restoring the random state"
    elif found.fallbacks:
        return f"{found.fallbacks} fallbacks were counted where there was none"
    if wanted in ("restored", "fell_back") and found.draws_equal is not True:
        return "the draws after the rollback were not shown to equal eager ones"
    if wanted == "restored" and found.rng_restored is not True:
        return "the whole pre-boundary state was not restored"
    return None


# -- static audits ------------------------------------------------------------------------------------------------


def _audits(evidence: GateSEvidence) -> Iterator[Check]:
    found = {item.audit: item for item in evidence.audits}
    for name in AUDITS:
        item = found.get(name)
        subject = f"audit {name}"
        if item is None:
            yield not_reached(subject, "audit-missing", "the packages were not audited")
        else:
            yield _audit(subject, item)


def _audit(subject: str, found: AuditObservation) -> Check:
    if not found.packages or not found.functions:
        return not_reached(subject, "audit-empty", "no function of its packages was reached from the boundary")
    if found.findings:
        return failed(subject, "findings", f"{found.findings} findings in {', '.join(found.packages)}")
    note = f", {found.unresolved} unresolved calls" if found.unresolved else ""
    return passed(subject, f"zero findings in {found.functions} functions of {', '.join(found.packages)}{note}")
