"""What a probe runs: one step of something, and what is known about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capaudit.evidence import JsonObject
from capaudit.model import CaptureKind


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """How a target is built; plain values, so that they reach a child process as JSON.

    ``worlds`` is the number of parallel environments, ``device`` a torch device name. ``capture`` and
    ``warmup`` are ``None`` where the target's own default holds.
    """

    target: str
    worlds: int = 64
    seed: int = 0
    device: str = "cuda"
    segment: str | None = None
    capture: CaptureKind | None = None
    warmup: int | None = None
    roots: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The target as evidence names it: a file without the local folders above it."""
        scheme, _, factory = self.target.rpartition(":")
        if ".py" not in self.target:
            return self.target
        return f"{Path(scheme).name}:{factory}" if scheme.endswith(".py") else Path(self.target).name

    def to_json(self) -> JsonObject:
        """Return the options as JSON values."""
        return {
            "target": self.target,
            "worlds": self.worlds,
            "seed": self.seed,
            "device": self.device,
            "segment": self.segment,
            "capture": self.capture,
            "warmup": self.warmup,
            "roots": list(self.roots),
        }

    @classmethod
    def from_json(cls, document: JsonObject) -> TargetOptions:
        """Build the options from ``to_json``'s document."""
        values: dict[str, Any] = {**document, "roots": tuple(document.get("roots") or ())}  # type: ignore[arg-type]
        return cls(**values)


@dataclass(slots=True)
class Target:
    """A built target. ``step`` takes no argument and runs what is to be captured.

    ``owner`` is where carriers are looked for. ``roots`` are the folders of the user's own source with the
    name that evidence calls them. ``before_step`` changes inputs or host state before step ``i``, outside
    the capture; ``force_reset`` makes the next step take its reset path. ``inputs`` and ``outputs`` are
    carrier path patterns: what the replay differential may change and must compare; empty means what the
    walk finds. ``share_warp_stream`` puts Warp on the capture's stream in a Torch capture as well.
    ``repeatable`` says that building it again is cheap. ``generators`` are those that a Torch graph
    has to be told of. ``eager_on_default`` keeps eager steps on the default
    stream, for a target whose Warp work orders itself against that one alone.
    """

    name: str
    step: Callable[[], Any]
    owner: Any
    roots: tuple[tuple[Path, str], ...]
    capture: CaptureKind = "torch"
    before_step: Callable[[int], None] | None = None
    force_reset: Callable[[], None] | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    uses_warp: bool = False
    share_warp_stream: bool = False
    warmup: int = 3
    repeatable: bool = True
    eager_on_default: bool = False
    mutate: bool = True
    tolerance: float = 1e-5
    generators: tuple[Any, ...] = ()
    close: Callable[[], None] | None = None
    facts: JsonObject = field(default_factory=dict)
