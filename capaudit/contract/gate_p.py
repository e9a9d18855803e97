"""Gate P: is the captured tick faster, by figures that were asked for before they were known?

Pure: a verdict from an evidence document and Gate S's verdict. Speed never overrides semantics, and an
arm speaks for itself alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime

from capaudit.contract.documents import canonical_sha256
from capaudit.contract.gate_p_evidence import (
    ITERATIONS,
    METRIC,
    MINIMUM_GAIN,
    REPEATS,
    TAIL,
    GatePEvidence,
    PerformanceRun,
    Registration,
)
from capaudit.contract.gate_words import ARMS, FIELDS, Arm
from capaudit.contract.verdicts import (
    EVIDENCE_ONLY,
    ArmVerdict,
    Check,
    Figure,
    GateVerdict,
    Verdict,
    failed,
    not_reached,
    passed,
    worst,
)

_ROUNDING = 1e-12


def judge_gate_p(evidence: GatePEvidence, gate_s: GateVerdict | None) -> GateVerdict:
    """Return the verdict. The gate passes where at least one arm does and no arm that was run is unsafe.

    ``gate_s`` is Gate S's verdict on the same collector; an arm that it has not passed, or that it has
    passed for another commit, is not reached here, whatever its figures.
    """
    registration = evidence.registration
    shared = tuple(_registration(evidence))
    arms = tuple(_arm(evidence, arm, shared, gate_s) for arm in ARMS)
    verdict = _overall(arms)
    return GateVerdict(
        gate="P",
        verdict=verdict,
        subject=registration.collector,
        git_head=registration.git_head,
        evidence_sha256=canonical_sha256(evidence),
        arms=arms,
        claim=_claim(registration, arms, verdict),
    )


def _overall(arms: tuple[ArmVerdict, ...]) -> Verdict:
    unsafe = any(check.code == "unsafe" for arm in arms for check in arm.checks)
    if any(arm.verdict == "pass" for arm in arms):
        return "fail" if unsafe else "pass"
    return worst(arm.verdict for arm in arms)


def _claim(registration: Registration, arms: tuple[ArmVerdict, ...], verdict: Verdict) -> str:
    if verdict != "pass":
        return EVIDENCE_ONLY
    sentences = []
    for arm in arms:
        if arm.verdict == "pass":
            gains = " and ".join(
                f"{figure.gain:+.1%} over {figure.baseline}" for figure in arm.figures if figure.decisive
            )
            sentences.append(f"{registration.collector} is supported on the {arm.arm} arm: {gains}")
    return "; ".join(sentences)


def _registration(evidence: GatePEvidence) -> Iterator[Check]:
    """The registration is the one that was written down, it asks for what the contract asks, and nothing less."""
    registration = evidence.registration
    digest = registration.sha256
    if digest != evidence.registered_sha256:
        message = f"its digest is {digest[:12]}, registered was {evidence.registered_sha256[:12]}: the result is void"
        yield not_reached("registration", "void", message)
    others = sorted({run.registration_sha256[:12] for run in evidence.runs if run.registration_sha256 != digest})
    if others:
        yield not_reached("registration", "void", f"runs were started under {', '.join(others)}: the result is void")
    elif digest == evidence.registered_sha256:
        yield passed("registration", f"sha256 {digest[:12]}, the same before and after")
    weaker = [
        f"{name} is {found}, the contract has {wanted}"
        for name, found, wanted in (
            ("k", registration.k, 1),
            ("metric", registration.metric, METRIC),
            ("repeats", registration.repeats, REPEATS),
            ("iterations", registration.iterations, ITERATIONS),
            ("tail", registration.tail, TAIL),
        )
        if found != wanted
    ]
    if registration.minimum_gain < MINIMUM_GAIN:
        weaker.append(f"minimum_gain is {registration.minimum_gain:g}, the contract has {MINIMUM_GAIN:g}")
    missing = [field for field in FIELDS if field not in registration.semantic_surface]
    if missing:
        weaker.append(f"the semantic surface leaves out {', '.join(missing)}")
    if weaker:
        yield failed("thresholds", "thresholds", "; ".join(weaker))
    else:
        yield passed(
            "thresholds", f"{REPEATS} repeats of {ITERATIONS} iterations, at least {registration.minimum_gain:.0%}"
        )


def _arm(evidence: GatePEvidence, arm: Arm, shared: tuple[Check, ...], gate_s: GateVerdict | None) -> ArmVerdict:
    registration = evidence.registration
    status = next((item for item in evidence.arms if item.arm == arm), None)
    if arm not in registration.arms or status is None:
        return _unreached(
            arm, "arm-missing", "the arm was not registered" if status else "the evidence has no such arm"
        )
    runs = sorted((run for run in evidence.runs if run.arm == arm), key=lambda run: run.order)
    if status.status == "not_run":
        # What was run before it stopped is no result, but what it did unsafely has been seen.
        seen = [check for check in (_safe(registration, runs),) if check.verdict == "fail"]
        checks = [not_reached("arm", "arm-not-run", status.reason), *seen]
        return ArmVerdict(arm, worst(check.verdict for check in checks), tuple(checks))
    missing = [
        f"{mode} {repeat + 1}"
        for mode in registration.modes
        for repeat in range(registration.repeats)
        if not any(run.mode == mode and run.repeat == repeat for run in runs)
    ]
    checks = [*shared, _semantics(registration, arm, gate_s)]
    if missing:
        checks.append(not_reached("runs", "run-missing", f"not run: {', '.join(missing)}"))
        return ArmVerdict(arm, worst(check.verdict for check in checks), tuple(checks))
    checks += [
        _fresh(evidence.runs),
        _interleaved(registration, runs),
        _comparable(registration, runs),
        _safe(registration, runs),
    ]
    figures = tuple(_figures(registration, runs))
    checks += [_gain(registration, figure) for figure in figures if figure.decisive]
    return ArmVerdict(arm, worst(check.verdict for check in checks), tuple(checks), figures)


def _unreached(arm: Arm, code: str, detail: str) -> ArmVerdict:
    return ArmVerdict(arm, "not reached", (not_reached("arm", code, detail),))


def _semantics(registration: Registration, arm: Arm, gate_s: GateVerdict | None) -> Check:
    subject = "gate S"
    if gate_s is None or gate_s.gate != "S":
        return not_reached(subject, "gate-s-missing", "there is no Gate S evidence, and speed alone says nothing")
    verdict = gate_s.arm(arm)
    if verdict is None or verdict.verdict != "pass":
        found = "not reached" if verdict is None else verdict.verdict
        return not_reached(subject, "gate-s-not-passed", f"Gate S on this arm: {found}")
    if gate_s.git_head != registration.git_head:
        message = f"Gate S passed for commit {gate_s.git_head[:12]}, this is {registration.git_head[:12]}"
        return not_reached(subject, "other-head", message)
    # One commit holds several collectors; what passed for one says nothing of another.
    if gate_s.subject != registration.collector and not gate_s.subject.startswith(f"{registration.collector}/"):
        message = f"Gate S passed for {gate_s.subject}, this is {registration.collector}"
        return not_reached(subject, "other-collector", message)
    return passed(subject, f"passed for commit {gate_s.git_head[:12]} (evidence {gate_s.evidence_sha256[:12]})")


def _fresh(runs: Sequence[PerformanceRun]) -> Check:
    processes = [run.process for run in runs]
    if len(set(processes)) < len(processes):
        return failed("fresh processes", "shared-process", "two runs name the same process")
    return passed("fresh processes", f"{len(runs)} processes")


def _interleaved(registration: Registration, runs: list[PerformanceRun]) -> Check:
    subject = "interleaving"
    moments = [datetime.fromisoformat(run.started_at) for run in runs]
    if [run.order for run in runs] != list(range(len(runs))) or moments != sorted(moments):
        return failed(subject, "order", "the order of the runs has gaps or contradicts their starting times")
    if moments[0] < datetime.fromisoformat(registration.registered_at):
        return failed(subject, "registered-late", "a run was started before the thresholds were registered")
    width = len(registration.modes)
    for repeat in range(registration.repeats):
        block = runs[repeat * width : (repeat + 1) * width]
        if {run.mode for run in block} != set(registration.modes) or {run.repeat for run in block} != {repeat}:
            return failed(
                subject, "not-interleaved", f"repeat {repeat + 1} does not run every mode once before the next"
            )
    return passed(subject, f"{registration.repeats} rounds of {', '.join(run.mode for run in runs[:width])}")


def _comparable(registration: Registration, runs: list[PerformanceRun]) -> Check:
    """Every run measured the registered thing in the mode that it is counted under."""
    first = runs[0].manifest
    for run in runs:
        problem = _run_problem(registration, run) or next(
            (
                f"its {name} differs from the first run's"
                for name in ("gpu_uuid", "software", "ingress")
                if getattr(run.manifest, name) != getattr(first, name)
            ),
            None,
        )
        if problem:
            return failed("manifests", "not-comparable", f"{run.mode} {run.repeat + 1}: {problem}")
    if any(run.manifest.rehearsal for run in runs):
        return not_reached("manifests", "rehearsal", "the runs were rehearsals on the CPU, where nothing is captured")
    return passed("manifests", f"one head, GPU and software ({first.gpu_uuid}, driver {first.software.driver})")


def _run_problem(registration: Registration, run: PerformanceRun) -> str | None:
    manifest, summary = run.manifest, run.summary
    if summary.iterations != registration.iterations or summary.tail != registration.tail:
        return f"{summary.iterations} iterations with a tail of {summary.tail}"
    if manifest.git_head != registration.git_head:
        return f"it ran commit {manifest.git_head[:12]}, registered is {registration.git_head[:12]}"
    for name in ("worlds", "shapes", "seeds"):
        if getattr(manifest, name) != getattr(registration, name):
            return f"its {name} are not the registered ones"
    if run.mode == registration.candidate:
        # Eager and graph ticks must not be mixed within one distribution.
        if not manifest.enabled:
            return (
                f"the graph was not enabled: {', '.join((*manifest.disable_reasons, *manifest.invalidation_reasons))}"
            )
        if manifest.fallbacks:
            return f"it fell back {manifest.fallbacks} times: {manifest.fallback_reasons[0]}"
        if manifest.replays < summary.iterations:
            return f"{manifest.replays} replays for {summary.iterations} iterations"
    elif manifest.mode == "graph":
        return "a baseline ran in mode graph"
    return None


def _safe(registration: Registration, runs: list[PerformanceRun]) -> Check:
    for run in runs:
        safety, ordering = run.safety, run.manifest.ordering
        problems = [
            text
            for text, wrong in (
                ("outputs were not finite", not safety.finite_outputs),
                (f"{safety.validation_failures} validation failures", safety.validation_failures),
                (f"{safety.stale_receipts} stale receipts", safety.stale_receipts),
                (f"{safety.reordered} reordered transitions", safety.reordered),
                (
                    f"{ordering.published} published, {ordering.released} released",
                    ordering.published != ordering.released,
                ),
                (f"{ordering.ticks} ticks, {ordering.published} published", ordering.ticks != ordering.published),
            )
            if wrong
        ]
        if problems:
            return failed("safety", "unsafe", f"{run.mode} {run.repeat + 1}: {'; '.join(problems)}")
    return passed("safety", f"every observation holds in {len(runs)} runs")


def _figures(registration: Registration, runs: list[PerformanceRun]) -> Iterator[Figure]:
    rates = {(run.mode, run.repeat): run.summary.tail_env_steps_per_sec for run in runs}
    repeats = range(registration.repeats)
    candidate = [rates[registration.candidate, repeat] for repeat in repeats]
    for baseline in registration.baselines:
        against = [rates[baseline, repeat] for repeat in repeats]
        gains = tuple(mine / theirs - 1 for mine, theirs in zip(candidate, against, strict=True))
        yield Figure(
            baseline=baseline,
            baseline_rate=statistics.median(against),
            candidate_rate=statistics.median(candidate),
            gains=gains,
            gain=statistics.median(gains),
            decisive=baseline in registration.decisive,
        )


def _gain(registration: Registration, figure: Figure) -> Check:
    subject = f"gain over {figure.baseline}"
    pairs = ", ".join(f"{gain:+.1%}" for gain in figure.gains)
    if figure.gain >= registration.minimum_gain - _ROUNDING:
        return passed(subject, f"{figure.gain:+.1%} (pairs {pairs})")
    message = f"{figure.gain:+.1%} (pairs {pairs}), at least {registration.minimum_gain:+.0%} is asked for"
    return failed(subject, "gain", message)
