"""``probe ops``: measures idioms or PyTorch's operator database and compares with what was declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import cast

from capaudit.evidence import Environment, Evidence, JsonObject, JsonValue, Record, Verdict
from capaudit.knowledge import parse_range
from capaudit.knowledge.idioms import Idiom
from capaudit.model import InputError, NoDeviceError
from capaudit.probe.child import ChildFailureError, ChildResult, run_child
from capaudit.probe.ops_idioms import library, to_entry
from capaudit.probe.ops_record import idiom_record, operator_record, verdict_of
from capaudit.probe.ops_tasks import CUDA_BACKEND
from capaudit.probe.ops_update import declare_anew, is_comparable, join, plan

MODULE = "capaudit.probe.ops_server"
Progress = Callable[[int, int], None]
"""Called with the number of programs measured so far and the number of all."""

_DISTRIBUTIONS = {"warp": "warp-lang", "mujoco_warp": "mujoco-warp"}
# One thread each: forked children share the cores, and OpenMP's threads do not survive a fork.
_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_START_SECONDS = 180


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


def probe_idioms(
    idioms: Sequence[Idiom],
    options: OpsOptions,
    progress: Progress | None = None,
    *,
    earlier: Evidence | None = None,
) -> Evidence:
    """Measure every idiom and return the evidence, one record each.

    With ``earlier`` only those that it lacks, contradicts, or shows in another text are measured, and the
    result holds both; where that is none, no device is needed. Raises NoDeviceError, InputError where the
    earlier run was made on another device or with other versions, and ChildFailureError where measuring
    could not even begin.
    """
    kept: dict[str, Record] = {}
    remaining = tuple(idioms)

    def accept(environment: Environment) -> None:
        if earlier is not None and not is_comparable(earlier.environment, environment):
            raise InputError(
                "the earlier evidence comes from another device, driver or version",
                remedy="measure everything here, without the earlier evidence",
            )

    if earlier is not None:
        planned = plan(idioms, earlier)
        kept, remaining = planned.kept, planned.remaining
        if not remaining:
            return declare_anew(idioms, kept, earlier)
    fitting = {idiom.id for idiom in remaining if _fits(idiom)}
    entries: list[JsonValue] = [to_entry(idiom) for idiom in remaining if idiom.id in fitting]
    run = _Run({"kind": "ops", "tasks": entries, "share": options.share}, options, progress, accept)
    measured = {str(outcome["id"]): outcome for outcome in run.outcomes}
    records = tuple(idiom_record(idiom, measured.get(idiom.id), idiom.id in fitting) for idiom in remaining)
    found = run.evidence("ops", {"name": "idioms", "count": len(records)}, records, verdict_of(records))
    if earlier is None:
        return found
    return join(idioms, kept, earlier, found)


def probe_operators(select: Sequence[str], options: OpsOptions, progress: Progress | None = None) -> Evidence:
    """Measure the first samples of every selected operator of torch's database, one record per operator.

    Raises as ``probe_idioms`` does.
    """
    payload: JsonObject = {"kind": "opinfo", "tasks": [], "select": list(select), "samples": options.samples}
    run = _Run(payload, options, progress)
    groups: dict[str, list[JsonObject]] = {}
    for outcome in run.outcomes:
        groups.setdefault(str(outcome["id"]), []).append(outcome)
    records = tuple(operator_record(name, groups[name]) for name in sorted(groups))
    target: JsonObject = {"name": "torch.testing op_db", "count": len(records)}
    return run.evidence("opinfo", target, records, "measured")


class _Run:
    """One run of the measuring process and what it reported, in order."""

    def __init__(
        self,
        payload: JsonObject,
        options: OpsOptions,
        progress: Progress | None,
        accept: Callable[[Environment], None] | None = None,
    ) -> None:
        self.options = options
        self._accept = accept
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
            if self._accept is not None:
                self._accept(self.environment)
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
        version = metadata.version(_DISTRIBUTIONS.get(library(idiom), library(idiom)))
    except metadata.PackageNotFoundError:
        return True
    return parse_range(idiom.versions).contains(version)
