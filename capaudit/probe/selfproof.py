"""Plants faults for the detectors in the process whose result they vouch for.

A detector that misses its plant makes the result inconclusive: "clean" is believed only where the same
detector, in the same process, has just seen a fault.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from capaudit.evidence import SelfProof
from capaudit.probe import selfproof_plants as plants
from capaudit.probe.escape import find_escapes
from capaudit.probe.escape_launches import LaunchHooks
from capaudit.probe.locator import LineLocator
from capaudit.probe.locator_cuda import CudaCaptureSource, capture_identity, load_runtime
from capaudit.probe.locator_roots import PROBE_FOLDER, SourceRoots
from capaudit.probe.sync_hooks import SynchronizationHooks
from capaudit.probe.trace_log import EventLog

_PLANTS = PROBE_FOLDER / "selfproof_plants.py"


def plant_roots() -> SourceRoots:
    """Return roots that contain the plants alone: every other file of the probe is left out of stacks."""
    return SourceRoots([(PROBE_FOLDER, "capaudit/probe")])


def planted_line(marker: str) -> int:
    """Return the line of the plants that carries the comment ``# planted: marker``."""
    lines = _PLANTS.read_text(encoding="utf-8").splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"# planted: {marker}"))


def prove_detectors(device: str = "cuda") -> tuple[SelfProof, ...]:
    """Plant one fault per detector on a CUDA device and say which were seen. Leaves no capture behind.

    Where the target left CUDA in a state in which nothing runs any more, that is the one thing said.
    """
    import torch

    try:
        torch.cuda.synchronize()
        x = torch.ones(8, device=device)
    except RuntimeError as error:
        return (SelfProof("device", "an addition", False, f"the device is unusable: {error}".split("\n", 1)[0]),)
    proofs = [
        *prove_hooks(x, "cuda"),
        _prove("locator", "host read of a scalar inside a capture", lambda: _locate(x)),
        _prove("escape", "launch on a stream that the capture does not own", lambda: _escape(x)),
    ]
    if "warp" in sys.modules:
        proofs.append(_prove("node-balance", "Warp array freed inside a capture", lambda: _balance(x)))
    return tuple(proofs)


def prove_hooks(x: Any, device_kind: str) -> Iterator[SelfProof]:
    """Prove the hooks of the trace on eager plants; runs on any device."""

    def hooked(kind: str, plant: Callable[[], Any]) -> str:
        log = EventLog(plant_roots())
        with SynchronizationHooks(log, device_kind).active():
            plant()
        return f"{log.count(kind)} seen" if log.count(kind) else ""

    yield _prove(
        "host-scalar-read",
        "host read of a scalar",
        lambda: hooked("host-scalar-read", lambda: plants.read_scalar(x)),
    )
    yield _prove("dynamic-shape", "data-dependent shape", lambda: hooked("dynamic-shape", lambda: plants.compact(x)))
    if "warp" in sys.modules:
        import warp as wp

        device = wp.device_from_torch(x.device)
        yield _prove(
            "warp-free",
            "Warp array that dies at once",
            lambda: hooked("warp-free", lambda: plants.allocate_and_free(device)),
        )


def is_proven(proofs: tuple[SelfProof, ...]) -> bool:
    """Whether every detector saw its plant."""
    return bool(proofs) and all(proof.seen for proof in proofs)


def _prove(detector: str, planted: str, look: Callable[[], str]) -> SelfProof:
    try:
        detail = look()
    except Exception as error:
        return SelfProof(detector, planted, False, f"{type(error).__name__}: {error}".split("\n", 1)[0])
    return SelfProof(detector, planted, bool(detail), detail)


@contextmanager
def _bare_capture(stream: Any) -> Iterator[None]:
    """Capture with CUDA's own calls: torch and Warp keep no state of a capture that is meant to fail."""
    import torch

    runtime = load_runtime()
    handle = runtime.cudaStream_t(int(stream.cuda_stream))
    torch.cuda.synchronize()
    mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
    (error,) = runtime.cudaStreamBeginCapture(handle, mode)
    if int(error) != 0:
        raise RuntimeError(f"the planted capture cannot begin: {error}")
    try:
        yield
    finally:
        error, graph = runtime.cudaStreamEndCapture(handle)
        if int(error) == 0:
            runtime.cudaGraphDestroy(graph)
        runtime.cudaGetLastError()


def _locate(x: Any) -> str:
    import torch

    stream = torch.cuda.Stream(device=x.device)
    locator = LineLocator(CudaCaptureSource(int(stream.cuda_stream)), plant_roots())
    with torch.cuda.stream(stream):
        plants.read_scalar(x)  # memory that the planted operations need comes from the cache below
        with _bare_capture(stream):
            try:
                with locator:
                    plants.read_scalar(x)
            except RuntimeError:
                pass  # the read is refused; whether the locator names its line is the question
    found = locator.fault.place[1] if locator.fault is not None and locator.fault.place is not None else 0
    return f"line {found}" if found == planted_line("synchronization") and locator.nodes() else ""


def _escape(x: Any) -> str:
    import torch

    stream, other = torch.cuda.Stream(device=x.device), torch.cuda.Stream(device=x.device)
    hooks = LaunchHooks()
    with torch.cuda.stream(stream), _bare_capture(stream), hooks.active():
        plants.launch_elsewhere(x, other)
        foreign = {launch.stream for launch in hooks.launches if capture_identity(launch.stream) is None}
    roots = plant_roots()

    def line_of(stack: Any) -> tuple[str, int]:
        frame = roots.innermost_user(stack)
        return (frame[0], frame[1]) if frame is not None else ("", 0)

    found = find_escapes([], hooks.launches, {}, foreign, line_of)
    wanted = planted_line("foreign stream")
    return f"line {wanted}" if any(line_of(item.stack)[1] == wanted for item in found) else ""


def _balance(x: Any) -> str:
    import warp as wp

    from capaudit.probe.capture_kinds import open_capture, open_streams

    streams = open_streams(str(x.device), with_warp=True)
    locator = LineLocator(CudaCaptureSource(streams.handle), plant_roots())
    log = EventLog(plant_roots())
    with (
        SynchronizationHooks(log).active(),
        open_capture("warp", streams, "thread_local", share_warp=True),
        locator,
    ):
        plants.allocate_and_free(wp.device_from_torch(x.device))
    nodes = locator.nodes()
    if not (nodes["alloc"] == nodes["free"] == 1 and log.count("warp-free")):
        return ""
    return "1 allocation and 1 free node"
