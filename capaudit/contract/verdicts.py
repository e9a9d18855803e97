"""What a gate says: pass, fail or not reached, check by check and arm by arm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from capaudit.contract.gate_words import Arm

Verdict = Literal["pass", "fail", "not reached"]

EVIDENCE_ONLY: Final = "evidence only"
"""What is said of a collector unless both gates have passed for an arm."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a gate looked at. ``code`` is a stable word for the reason, empty where it passed."""

    subject: str
    verdict: Verdict
    detail: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """Throughput of the candidate against one baseline on one arm.

    Rates are environment steps per second, each the median over its repeats; ``gains`` has one entry per
    pair, ``gain`` is their median, as a share (0.1 is 10 %). ``decisive`` says whether the gate asks for it.
    """

    baseline: str
    baseline_rate: float
    candidate_rate: float
    gains: tuple[float, ...]
    gain: float
    decisive: bool


@dataclass(frozen=True, slots=True)
class ArmVerdict:
    """One arm; it speaks for itself alone."""

    arm: Arm
    verdict: Verdict
    checks: tuple[Check, ...]
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """A gate's receipt. ``evidence_sha256`` is the digest of the judged document, ``git_head`` the code's.

    ``claim`` is all that may be said of the collector on the strength of it.
    """

    gate: Literal["S", "P"]
    verdict: Verdict
    subject: str
    git_head: str
    evidence_sha256: str
    arms: tuple[ArmVerdict, ...]
    claim: str

    def arm(self, name: Arm) -> ArmVerdict | None:
        """Return the verdict of one arm, ``None`` where the gate does not speak of it."""
        return next((verdict for verdict in self.arms if verdict.arm == name), None)


def passed(subject: str, detail: str = "") -> Check:
    """Return a check that passed."""
    return Check(subject, "pass", detail)


def failed(subject: str, code: str, detail: str) -> Check:
    """Return a check that failed."""
    return Check(subject, "fail", detail, code)


def not_reached(subject: str, code: str, detail: str) -> Check:
    """Return a check that nothing was observed for, or that does not count."""
    return Check(subject, "not reached", detail, code)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return fail over not reached over pass; nothing at all is not reached."""
    found = set(verdicts)
    if "fail" in found:
        return "fail"
    return "pass" if found == {"pass"} else "not reached"
