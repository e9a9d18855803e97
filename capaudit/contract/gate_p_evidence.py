"""``capaudit-gate-p/1``: what was registered before the performance runs, and what each run measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from capaudit.contract.documents import canonical_sha256
from capaudit.contract.gate_s_evidence import require_moment, require_unique, require_version
from capaudit.contract.gate_words import Arm, Field
from capaudit.contract.manifest import RunManifest
from capaudit.contract.strict import Counter, Finite, GitHead, Identity, Positive, Sha256, Text, check_fields, malformed

GATE_P_SCHEMA: Final = "capaudit-gate-p/1"
REGISTRATION_SCHEMA: Final = "capaudit-gate-p-registration/1"

METRIC: Final = "tail_env_steps_per_sec"
REPEATS: Final = 3
ITERATIONS: Final = 300
TAIL: Final = 100
MINIMUM_GAIN: Final = 0.10

# Far beyond any collector, and near enough that no quotient of two rates overflows.
_LOWEST_RATE: Final = 1e-6
_HIGHEST_RATE: Final = 1e15


@dataclass(frozen=True, slots=True)
class Registration:
    """What is fixed before the first run; its digest is recorded then, and a changed digest voids the result.

    ``candidate`` and ``baselines`` name modes. The gain must reach ``minimum_gain`` over each of the
    ``decisive`` baselines; the others are reported. ``semantic_surface`` are the Gate S fields of the
    workload, ``mode_rules`` state what each mode may do (one text per mode). Raises MalformedError.
    """

    contract_version: Counter
    registered_at: Identity
    git_head: GitHead
    collector: Identity
    k: Positive
    worlds: Positive
    shapes: Mapping[Identity, tuple[Positive, ...]]
    metric: Identity
    repeats: Positive
    iterations: Positive
    tail: Positive
    minimum_gain: Finite
    arms: tuple[Arm, ...]
    candidate: Identity
    baselines: tuple[Identity, ...]
    decisive: tuple[Identity, ...]
    semantic_surface: tuple[Field, ...]
    mode_rules: Mapping[Identity, Identity]
    seeds: Mapping[Identity, Counter]

    def __post_init__(self) -> None:
        check_fields(self)
        require_version(self.contract_version)
        require_moment("registered_at", self.registered_at)
        modes = (self.candidate, *self.baselines)
        require_unique("baselines", list(modes))
        if not self.baselines:
            raise malformed("baselines", "expected at least one named baseline")
        if not self.decisive or not set(self.decisive) <= set(self.baselines):
            raise malformed("decisive", "expected at least one of the baselines")
        if set(self.mode_rules) != set(modes):
            raise malformed("mode_rules", f"expected one rule for each of {', '.join(modes)}")
        for name in ("shapes", "seeds", "arms", "semantic_surface"):
            if not getattr(self, name):
                raise malformed(name, "must not be empty")
        require_unique("arms", list(self.arms))

    @property
    def modes(self) -> tuple[str, ...]:
        """The candidate and every baseline."""
        return (self.candidate, *self.baselines)

    @property
    def sha256(self) -> str:
        """The digest that is recorded before the first run."""
        return canonical_sha256(self)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """``run_summary.json`` of one run: the rate of each iteration in environment steps per second, and the
    median of the last ``tail`` of them."""

    iterations: Positive
    tail: Positive
    env_steps_per_sec: tuple[Finite, ...]
    tail_env_steps_per_sec: Finite

    def __post_init__(self) -> None:
        check_fields(self)
        if len(self.env_steps_per_sec) != self.iterations:
            message = f"{self.iterations} iterations and {len(self.env_steps_per_sec)} rates"
            raise malformed("env_steps_per_sec", message)
        if not all(_LOWEST_RATE <= rate <= _HIGHEST_RATE for rate in self.env_steps_per_sec):
            raise malformed("env_steps_per_sec", f"a rate is a number from {_LOWEST_RATE:g} to {_HIGHEST_RATE:g}")
        if not 1 <= self.tail <= self.iterations:
            raise malformed("tail", "the tail is a part of the iterations")
        median = statistics.median(self.env_steps_per_sec[-self.tail :])
        if abs(self.tail_env_steps_per_sec - median) > 1e-9 * median:
            message = f"is {self.tail_env_steps_per_sec}; the median of the last {self.tail} rates is {median}"
            raise malformed("tail_env_steps_per_sec", message)

    @classmethod
    def of(cls, rates: tuple[float, ...], tail: int = TAIL) -> RunSummary:
        """Summarise the rates of one run."""
        return cls(len(rates), tail, rates, statistics.median(rates[-tail:]) if rates else 0.0)


@dataclass(frozen=True, slots=True)
class Safety:
    """What must hold in every run: counts of what must not happen, and whether all outputs were finite."""

    finite_outputs: bool
    validation_failures: Counter
    stale_receipts: Counter
    reordered: Counter

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class PerformanceRun:
    """One fresh process. ``order`` counts all runs of an arm as they were started, from 0; ``process`` is unique
    to the process (host, pid and start time); ``registration_sha256`` is what the process was started under."""

    arm: Arm
    mode: Identity
    repeat: Counter
    order: Counter
    process: Identity
    started_at: Identity
    registration_sha256: Sha256
    summary: RunSummary
    safety: Safety
    manifest: RunManifest

    def __post_init__(self) -> None:
        check_fields(self)
        require_moment("started_at", self.started_at)


@dataclass(frozen=True, slots=True)
class PerformanceArm:
    """Whether an arm was run; ``reason`` says why it was not."""

    arm: Arm
    status: Literal["run", "not_run"]
    reason: Text

    def __post_init__(self) -> None:
        check_fields(self)
        if self.status == "not_run" and not self.reason.strip():
            raise malformed("reason", "an arm that was not run has a reason")


@dataclass(frozen=True, slots=True)
class GatePEvidence:
    """Everything that Gate P judges. ``registered_sha256`` was written down before the first run."""

    registration: Registration
    registered_sha256: Sha256
    arms: tuple[PerformanceArm, ...]
    runs: tuple[PerformanceRun, ...]

    def __post_init__(self) -> None:
        check_fields(self)
        require_unique("arms", [arm.arm for arm in self.arms])
        require_unique("runs", [(run.arm, run.mode, run.repeat) for run in self.runs])
        for index, run in enumerate(self.runs):
            if run.mode not in self.registration.modes:
                raise malformed(f"runs[{index}].mode", f"{run.mode!r} is not registered")
            if run.repeat >= self.registration.repeats:
                # A fourth repeat would be a choice of three, made after the results were seen.
                message = f"repeat {run.repeat} (from 0) of {self.registration.repeats} that are registered"
                raise malformed(f"runs[{index}].repeat", message)
