"""The run manifest, ``capaudit-run-manifest/1``: what one run was, in full or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from capaudit.contract.capabilities import StreamContract
from capaudit.contract.enablement import check_enablement
from capaudit.contract.ingress import IngressCounters, IngressShape
from capaudit.contract.reasons import CONTRACT_VERSION, InvalidationReason, Mode, State
from capaudit.contract.receipts import EAGER_CAPTURE
from capaudit.contract.rng import RngEvidence
from capaudit.contract.snapshot import LifecycleSnapshot
from capaudit.contract.strict import (
    Counter,
    GitHead,
    Identity,
    Positive,
    Sha256,
    check_fields,
    malformed,
    shown,
)

SCHEMA: Final = "capaudit-run-manifest/1"
CPU_REHEARSAL: Final = "CPU"
"""What stands for the GPU's UUID in a rehearsal on the CPU."""

_GPU_UUID: Final = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


@dataclass(frozen=True, slots=True)
class RngSummary:
    """A generator at the end of the run, without its state: where it draws, digest and versions."""

    device: Identity
    state_sha256: Sha256
    state_version: Counter
    draw_version: Counter

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def of(cls, evidence: RngEvidence) -> RngSummary:
        """Summarise evidence."""
        return cls(evidence.device, evidence.sha256, evidence.state_version, evidence.draw_version)


@dataclass(frozen=True, slots=True)
class Software:
    """Driver, CUDA and library versions, each as its library reports it; ``absent`` where there is none."""

    driver: Identity
    cuda: Identity
    torch: Identity
    warp: Identity
    mujoco: Identity
    mujoco_warp: Identity

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class RunManifest:
    """Everything about one run that a claim rests on; no field has a default. Raises MalformedError.

    ``replays``, ``eager_ticks``, ``fallbacks`` and ``ordering`` count the whole run. ``fallback_reasons`` has
    one entry per fallback. ``seeds`` maps each seed's name to the resolved value. ``gpu_uuid`` is the
    driver's (``GPU-...``), or ``CPU`` in a rehearsal. ``shapes`` maps carriers to their shapes, worlds
    first. ``git_head`` is the full commit id of the collector's code.
    """

    contract_version: Counter
    mode: Mode
    requested: bool
    enabled: bool
    state: State
    capture_id: Identity | None
    disable_reasons: tuple[Identity, ...]
    invalidation_reasons: tuple[InvalidationReason, ...]
    replays: Counter
    eager_ticks: Counter
    fallbacks: Counter
    fallback_reasons: tuple[Identity, ...]
    ordering: IngressCounters
    last_sequence: Counter | None
    stream: StreamContract
    rng: RngSummary
    seeds: Mapping[Identity, Counter]
    gpu_uuid: Identity
    software: Software
    worlds: Positive
    shapes: Mapping[Identity, tuple[Positive, ...]]
    ingress: IngressShape
    git_head: GitHead
    rehearsal: bool

    def __post_init__(self) -> None:
        check_fields(self)
        if self.contract_version != CONTRACT_VERSION:
            raise malformed("contract_version", f"is {self.contract_version}; this is version {CONTRACT_VERSION}")
        check_enablement(
            mode=self.mode,
            requested=self.requested,
            enabled=self.enabled,
            state=self.state,
            capture_id=self.capture_id,
            disable_reasons=self.disable_reasons,
            invalidation_reasons=self.invalidation_reasons,
        )
        self._check_counters()
        self._check_run()

    def _check_counters(self) -> None:
        if self.capture_id == EAGER_CAPTURE:
            raise malformed("capture_id", f"{EAGER_CAPTURE!r} names ticks that no capture ran")
        if self.fallbacks != len(self.fallback_reasons):
            raise malformed("fallbacks", f"{self.fallbacks} fallbacks and {len(self.fallback_reasons)} reasons")
        if self.mode != "graph" and (self.replays or self.fallbacks):
            raise malformed("replays", f"mode {self.mode} replays nothing and falls back from nothing")
        if self.replays + self.eager_ticks != self.ordering.ticks:
            raise malformed("ordering.ticks", "every tick is either a replay or eager")
        if self.ordering.ticks and self.last_sequence is None:
            raise malformed("last_sequence", "ticks were published, so there is a last sequence")
        if self.last_sequence is not None and self.last_sequence < self.ordering.published - 1:
            message = f"is {self.last_sequence}, and {self.ordering.published} ticks were published, each with its own"
            raise malformed("last_sequence", message)

    def _check_run(self) -> None:
        if not self.seeds:
            raise malformed("seeds", "no resolved seed is recorded")
        if not self.shapes:
            raise malformed("shapes", "no carrier's shape is recorded")
        if self.rehearsal is not (self.gpu_uuid == CPU_REHEARSAL):
            raise malformed("gpu_uuid", f"{CPU_REHEARSAL!r} stands for the GPU in a rehearsal and only there")
        if not self.rehearsal and not _GPU_UUID.match(self.gpu_uuid):
            raise malformed("gpu_uuid", f"{shown(self.gpu_uuid)} is no UUID of a GPU (GPU-xxxxxxxx-xxxx-...)")

    @classmethod
    def of(
        cls,
        snapshot: LifecycleSnapshot,
        *,
        ordering: IngressCounters,
        stream: StreamContract,
        rng: RngEvidence,
        seeds: Mapping[str, int],
        gpu_uuid: str,
        software: Software,
        worlds: int,
        shapes: Mapping[str, tuple[int, ...]],
        ingress: IngressShape,
        git_head: str,
    ) -> RunManifest:
        """Build the manifest from a lifecycle's snapshot and what surrounds it."""
        return cls(
            contract_version=snapshot.contract_version,
            mode=snapshot.mode,
            requested=snapshot.requested,
            enabled=snapshot.enabled,
            state=snapshot.state,
            capture_id=snapshot.capture_id,
            disable_reasons=snapshot.disable_reasons,
            invalidation_reasons=snapshot.invalidation_reasons,
            replays=snapshot.replays,
            eager_ticks=snapshot.eager_ticks,
            fallbacks=len(snapshot.fallback_reasons),
            fallback_reasons=snapshot.fallback_reasons,
            ordering=ordering,
            last_sequence=snapshot.last_sequence,
            stream=stream,
            rng=RngSummary.of(rng),
            seeds=seeds,
            gpu_uuid=gpu_uuid,
            software=software,
            worlds=worlds,
            shapes=shapes,
            ingress=ingress,
            git_head=git_head,
            rehearsal=snapshot.rehearsal or gpu_uuid == CPU_REHEARSAL,
        )
