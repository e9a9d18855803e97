"""``probe ops``: measures idioms or PyTorch's operator database and compares with what was declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from typing import cast

from capaudit.evidence import Environment, Evidence, JsonObject, JsonScalar, Record, Verdict
from capaudit.knowledge import parse_range
from capaudit.model import NoDeviceError
from capaudit.probe.child import ChildFailureError, ChildResult, run_child
from capaudit.probe.ops_idioms import Idiom, to_entry
from capaudit.probe.ops_tasks import CUDA_BACKEND

MODULE = "capaudit.probe.ops_server"
Progress = Callable[[int, int], None]
"""Called with the number of programs measured so far and the number of all."""

_DISTRIBUTIONS = {"warp": "warp-lang", "mujoco_warp": "mujoco-warp"}
# One thread each: forked children share the cores, and OpenMP's threads do not survive a fork.
_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_START_SECONDS = 180
_NOTE_LENGTH = 400


@dataclass(frozen=True, slots=True)
class OpsOptions:
    """How to measure: ``jobs`` programs at a time, ``timeout`` seconds for each, ``samples`` of each operator.

    Up to ``share`` idioms that are expected to capture run in one process, one after the other; one that
    does not capture there is measured again alone.
    """

    device: str = "cuda"
    jobs: int = 4
    timeout: float = 120.0
    samples: int = 3
    share: int = 1
    backend: str = CUDA_BACKEND


def probe_idioms(idioms: Sequence[Idiom], options: OpsOptions, progress: Progress | None = None) -> Evidence:
    """Measure every idiom and return the evidence, one record each.

    Raises NoDeviceError, and ChildFailureError where measuring could not even begin.
    """
    fitting = [idiom for idiom in idioms if _fits(idiom)]
    payload: JsonObject = {"kind": "ops", "tasks": [to_entry(idiom) for idiom in fitting], "share": options.share}
    run = _Run(payload, options, progress)
    measured = {str(outcome["id"]): outcome for outcome in run.outcomes}
    records = tuple(_idiom_record(idiom, measured.get(idiom.id), idiom in fitting) for idiom in idioms)
    verdict: Verdict = "disagrees" if any(map(disagrees, records)) else "agrees"
    target: JsonObject = {"name": "idioms", "count": len(idioms)}
    return run.evidence("ops", target, records, verdict)


def probe_operators(select: Sequence[str], options: OpsOptions, progress: Progress | None = None) -> Evidence:
    """Measure the first samples of every selected operator of torch's database, one record per operator.

    Raises as ``probe_idioms`` does.
    """
    payload: JsonObject = {"kind": "opinfo", "tasks": [], "select": list(select), "samples": options.samples}
    run = _Run(payload, options, progress)
    groups: dict[str, list[JsonObject]] = {}
    for outcome in run.outcomes:
        groups.setdefault(str(outcome["id"]), []).append(outcome)
    records = tuple(_operator_record(name, groups[name]) for name in sorted(groups))
    target: JsonObject = {"name": "torch.testing op_db", "count": len(records)}
    return run.evidence("opinfo", target, records, "measured")


def disagrees(record: Record) -> bool:
    """Whether the run contradicts the declaration. What was not run contradicts nothing.

    ``ok`` and ``advances`` are one verdict here: both say that the capture holds, and whether state moves
    on between two replays depends on what the idiom keeps.
    """
    if record.expected is None or record.outcome == "not-run":
        return False
    return _captured(record.outcome) != _captured(record.expected)


def _captured(outcome: str) -> str:
    return "ok" if outcome == "advances" else outcome


class _Run:
    """One run of the measuring process and what it reported, in order."""

    def __init__(self, payload: JsonObject, options: OpsOptions, progress: Progress | None) -> None:
        self.options = options
        self.outcomes: list[JsonObject] = []
        self.environment: Environment | None = None
        self.finished = False
        self._total = 0
        self._progress = progress
        self._begin = datetime.now(UTC)
        tasks = cast("list[JsonObject]", payload["tasks"])
        # The operators' number is known only there; PyTorch has about 700.
        rounds = (len(tasks) or 700 * options.samples) // max(1, options.jobs) + 1
        payload |= {
            "device": options.device,
            "backend": options.backend,
            "jobs": options.jobs,
            "timeout": options.timeout,
        }
        limit = _START_SECONDS + rounds * options.timeout
        try:
            self._conclude(run_child(MODULE, payload, limit, environment=_THREADS, on_partial=self._hear))
        except KeyboardInterrupt:
            # What was measured stays worth having; without any of it there is nothing to conclude.
            if self.environment is None or not self.outcomes:
                raise

    def evidence(self, kind: str, target: JsonObject, records: tuple[Record, ...], verdict: Verdict) -> Evidence:
        assert self.environment is not None
        options = self.options
        parameters: JsonObject = {
            "device": options.device,
            "jobs": options.jobs,
            "timeout": options.timeout,
            "protocol": "3 eager warm-ups on the capture stream, synchronisation watch, capture, inputs changed in "
            "place, two replays compared with two eager steps from the same state",
        }
        parameters |= {"samples": options.samples} if kind == "opinfo" else {"share": options.share}
        return Evidence(
            kind="opinfo" if kind == "opinfo" else "ops",
            date=self._begin.isoformat(timespec="seconds"),
            environment=self.environment,
            target=target,
            mode="torch.cuda.graph, capture_error_mode=global",
            parameters=parameters,
            verdict=verdict if self.finished else "failed",
            records=records,
        )

    def _hear(self, line: JsonObject) -> None:
        if "environment" in line:
            self.environment = Environment(**cast("dict[str, str]", line["environment"]))
        elif "total" in line:
            self._total = cast("int", line["total"])
        else:
            self.outcomes.append(line)
            if self._progress is not None:
                self._progress(len({str(outcome["id"]) for outcome in self.outcomes}), self._total)

    def _conclude(self, ended: ChildResult) -> None:
        if ended.result is not None and "no_device" in ended.result:
            raise NoDeviceError(str(ended.result["no_device"]), remedy=cast("str | None", ended.result["remedy"]))
        self.finished = ended.result is not None
        if not self.finished and (self.environment is None or not self.outcomes):
            tail = ended.stderr_tail.strip().splitlines()[-5:]
            raise ChildFailureError("\n".join([ended.message, *(f"  | {line}" for line in tail)]))


def _fits(idiom: Idiom) -> bool:
    """Whether the installed version lies in the idiom's range; one that is not installed shows when it runs."""
    if not idiom.versions:
        return True
    try:
        version = metadata.version(_DISTRIBUTIONS.get(idiom.library, idiom.library))
    except metadata.PackageNotFoundError:
        return True
    return parse_range(idiom.versions).contains(version)


def _idiom_record(idiom: Idiom, outcome: JsonObject | None, fits: bool) -> Record:
    record = Record(idiom.id, idiom.op, "not-run", expected=idiom.capture, hazard=idiom.hazard)
    if outcome is None:
        reason = "the run ended before this idiom" if fits else f"declared for {idiom.library} {idiom.versions}"
        return replace(record, note=reason)
    return _measured(record, outcome)


def _measured(record: Record, outcome: JsonObject) -> Record:
    return replace(
        record,
        outcome=str(outcome["outcome"]),
        error=str(outcome.get("error", "")),
        sync=cast("bool | None", outcome.get("sync")),
        note=str(outcome.get("note", "")),
    )


def _operator_record(name: str, outcomes: Sequence[JsonObject]) -> Record:
    """Join the samples of one operator: their common outcome, or ``varies`` with the samples that failed."""
    ordered = sorted(outcomes, key=lambda outcome: cast("int", outcome["sample"]))
    # A sample that the device refuses eagerly says nothing about capture.
    refused = [outcome for outcome in ordered if outcome["outcome"] == "broken" and not outcome.get("note")]
    told = [outcome for outcome in ordered if outcome not in refused]
    if not told:
        record = _measured(Record(name, str(ordered[0]["subject"]), ""), ordered[0])
        return replace(record, outcome="not-run", note="the device refuses it eagerly")
    bad = [outcome for outcome in told if outcome["outcome"] not in ("ok", "advances")]
    advancing = [outcome for outcome in told if outcome["outcome"] == "advances"]
    shown = (bad or advancing or told)[0]
    record = _measured(Record(name, str(shown["subject"]), ""), shown)
    if len({_captured(str(outcome["outcome"])) for outcome in told}) > 1:
        failing = ", ".join(f"{outcome['outcome']} on {outcome['input']}" for outcome in bad)
        note = "; ".join(filter(None, (f"{len(bad)} of {len(told)} samples: {failing}", record.note)))
        record = replace(record, outcome="varies", note=note[:_NOTE_LENGTH])
    watched = [outcome.get("sync") for outcome in told]
    sync = True if True in watched else record.sync
    values: dict[str, JsonScalar] = {"samples": len(told), "input": str(shown["input"])}
    return replace(record, sync=sync, values=values)
