"""The negative controls as a table: what the audit, the probe and the gate say of each hazard."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime

from capaudit.contract.gate_s import judge_gate_s
from capaudit.contract.verdicts import ArmVerdict
from capaudit.evidence import Environment, Evidence, JsonScalar, Record
from capaudit.probe.gates.audits import Audited, audit_tick
from capaudit.probe.gates.gate_s import GateOptions, gather_control
from capaudit.probe.run import ModeResult, RunOptions, combined_verdict, probe_target
from capaudit.probe.targets.base import TargetOptions
from capaudit.probe.targets.controls import CONTROLS, Control, control

CAUGHT = frozenset({"fails", "escapes", "wrong_on_replay"})
NOT_RUN = "not run"
_SHOWN = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One control. ``probe`` is ``not run`` without a CUDA device; ``gate`` is the null arm's verdict, or ``not run``
    where the tick with the hazard never got there."""

    control: Control
    audited: Audited
    probe: str
    probe_place: str
    probe_detail: str
    gate: str
    gate_detail: str
    environment: Environment | None = None

    @property
    def agreement(self) -> str:
        """``agree``: all three refuse. ``explained``: the probe cannot see it. ``disagree``, or ``not reached``."""
        flagged = bool(self.control.accepted & set(self.audited.codes))
        refused = self.gate in ("fail", "not reached", NOT_RUN)
        if not flagged or not refused:
            return "disagree"
        if NOT_RUN in (self.probe, self.gate):
            return "not reached"
        if self.probe in CAUGHT:
            return "agree"
        return "explained" if self.control.why and self.probe == self.control.probe else "disagree"


def probe_controls(
    options: GateOptions,
    jobs: int = 4,
    hazards: tuple[str, ...] = (),
    progress: Callable[[str], None] = lambda text: None,
    keep: Callable[[Evidence], None] = lambda found: None,
) -> Evidence:
    """Run every control, or those named, ``jobs`` at a time, and return the table as evidence.

    ``keep`` gets the table as it is after each row, so that an interrupted run loses no finished one. Raises InputError
    for a hazard that has no control.
    """
    named = {control(hazard).code for hazard in hazards}
    chosen = [item for item in CONTROLS if not named or item.code in named]
    rows: list[Row] = []
    # What captures takes longest, for it is replayed as well, so it goes first.
    ordered = sorted(chosen, key=lambda item: item.probe == "fails")
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        for done in as_completed([pool.submit(run_control, item, options) for item in ordered]):
            row = done.result()
            progress(f"{row.control.code} {row.control.hazard}: probe {row.probe}, gate {row.gate}: {row.agreement}")
            rows.append(row)
            rows.sort(key=lambda row: row.control.code)
            keep(table(rows, options))
    return table(rows, options)


def run_control(control: Control, options: GateOptions) -> Row:
    """Audit, probe and gate one control. What goes wrong with a child is in the row."""
    audited = audit_tick(control)
    probe, place, detail, environment = NOT_RUN, "", "there is no CUDA device", None
    if options.device.startswith("cuda"):
        probe, place, detail, environment = _probe(control, options)
    evidence, stopped = gather_control(control, options, audited)
    verdict = judge_gate_s(evidence).arm("null")
    assert verdict is not None
    # A candidate that preflight refused, or that ran out of time, met no hazard at the gate.
    unmet = "no tick may run" in stopped or "time limit" in stopped
    gate = NOT_RUN if unmet else verdict.verdict
    return Row(control, audited, probe, place, detail, gate, _reasons(verdict, stopped), environment)


def table(rows: list[Row], options: GateOptions) -> Evidence:
    """Return the rows as one evidence document: it agrees where every row agrees or says why not."""
    states = {row.agreement for row in rows}
    whole = bool(rows) and "not reached" not in states
    verdict = "disagrees" if "disagree" in states else "agrees" if whole else "inconclusive"
    environment = next((row.environment for row in rows if row.environment is not None), None)
    return Evidence(
        kind="controls",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=environment or Environment(python="unknown", platform="unknown"),
        target={"name": "mjwarp:collector", "robot": options.robot},
        mode="controls",
        parameters={"worlds": options.worlds, "device": options.device, "seed": options.seed},
        verdict=verdict,  # type: ignore[arg-type]
        records=tuple(_record(row) for row in rows),
    )


def render(found: Evidence) -> Iterator[str]:
    """Yield the table as Markdown lines."""
    yield "| hazard | audit | probe | gate | agreement |"
    yield "|---|---|---|---|---|"
    for record in found.records:
        values = record.values
        notes = [record.note] if record.note and record.outcome != "agree" else []
        if _by_audit_alone(values):
            notes.append("the trajectories of the gate agree; it refuses for the audit alone")
        agreement = ": ".join((record.outcome, "; ".join(notes))) if notes else record.outcome
        cells = (f"{record.hazard} {record.id}", values["audit"], values["probe"], _gate_cell(values), agreement)
        yield f"| {' | '.join(str(cell) for cell in cells)} |"


def _by_audit_alone(values: Mapping[str, JsonScalar]) -> bool:
    subjects = str(values["gate_detail"]).split(", ")
    return values["gate"] == "fail" and all(subject.startswith("audit ") for subject in subjects)


def _gate_cell(values: Mapping[str, JsonScalar]) -> str:
    """Return the gate's verdict with the first reasons, or the kind of error that kept it from one."""
    gate, detail = str(values["gate"]), str(values["gate_detail"])
    if gate != "fail":
        raised = re.search(r" raised (\w+)", detail)
        return f"{gate}: {raised[1]}" if raised else gate
    subjects = detail.split(", ")
    more = f" and {len(subjects) - _SHOWN} more" if len(subjects) > _SHOWN else ""
    return f"{gate}: {', '.join(subjects[:_SHOWN])}{more}"


def _probe(control: Control, options: GateOptions) -> tuple[str, str, str, Environment | None]:
    name = "collector" if options.robot == "humanoid" else f"collector-{options.robot}"
    target = TargetOptions(
        target=f"mjwarp:{name}",
        worlds=options.worlds,
        seed=options.seed,
        device=options.device,
        segment=control.hazard,
        capture=control.capture,
    )
    run = RunOptions(target, ("capture", "replay"), timeout=options.timeout)
    results: list[ModeResult] = list(probe_target(run))
    verdict = combined_verdict(results)
    place = detail = ""
    for result in results:
        for record in result.evidence.records:
            if record.outcome in ("fails", "empty", "unbalanced", "wrong_on_replay", "faults") or record.error:
                place = place or str(record.values.get("place", ""))
                detail = detail or record.error or record.note
    environment = next((item.evidence.environment for item in results if item.evidence.environment.gpu), None)
    return verdict, place, detail, environment


def _reasons(verdict: ArmVerdict, stopped: str) -> str:
    bad = [check for check in verdict.checks if check.verdict != "pass"]
    found = [f"{check.subject} ({check.code})" for check in bad if not check.subject.startswith("fault ")]
    text = ", ".join(dict.fromkeys(found[:6]))
    return f"{stopped}; {text}" if stopped and text else stopped or text


def _record(row: Row) -> Record:
    control = row.control
    values: dict[str, JsonScalar] = {
        "audit": ", ".join(row.audited.codes) or "none",
        "audit_places": "; ".join(row.audited.places),
        "probe": row.probe,
        "probe_expected": control.probe,
        "probe_place": row.probe_place,
        "probe_detail": row.probe_detail,
        "gate": row.gate,
        "gate_detail": row.gate_detail,
    }
    return Record(
        id=control.hazard,
        subject=control.name,
        outcome=row.agreement,
        expected="explained" if control.why else "agree",
        hazard=control.code,
        note=control.why if row.agreement == "explained" else "",
        values=values,
    )
