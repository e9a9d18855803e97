"""The life of one capture: a state machine that refuses every step that is not due.

    allocate -> eager warm-up -> preflight -> capture -> replay, completion, publication (per tick)
                                                 |-> invalidation -> preflight and capture again, fallback, or closed

The lifecycle captures and replays nothing itself; it is told what happens and says what may follow. A
refused step leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, NoReturn, get_args

from capaudit.contract.candidates import Preflight
from capaudit.contract.carriers import Carrier, CarrierManifest, Drift
from capaudit.contract.errors import FailClosedError, IllegalTransitionError, InvalidatedError, Refusal
from capaudit.contract.ownership import cold_path
from capaudit.contract.reasons import CONTRACT_VERSION, INVALIDATION_REASONS, InvalidationReason, Mode, State
from capaudit.contract.receipts import EAGER_CAPTURE, CompletionReceipt, ReceiptLedger
from capaudit.contract.rng import Rollback
from capaudit.contract.snapshot import LifecycleSnapshot
from capaudit.contract.strict import malformed, require_kind, shown

TickKind = Literal["eager", "graph"]
Fallback = Literal["forbidden", "eager"]
_Phase = Literal["begun", "completed", "published"]


class CaptureLifecycle:
    """One collector's capture under the contract. Not thread-safe: it belongs to the thread that steps.

    ``mode`` is the owner's choice on the cold path. ``fallback`` says whether eager ticks may take over
    when a capture is lost. ``operation`` and ``producer`` are the identities that receipts must carry.
    """

    def __init__(
        self,
        mode: Mode = "disabled",
        *,
        fallback: Fallback = "forbidden",
        operation: str = "collector.tick",
        producer: str = "collector",
    ) -> None:
        _require_word("mode", mode, get_args(Mode))
        _require_word("fallback", fallback, get_args(Fallback))
        self._mode: Mode = mode
        self._fallback = fallback
        self._ledger = ReceiptLedger(operation=operation, producer=producer, capture_id=EAGER_CAPTURE)
        self._carriers: CarrierManifest | None = None
        self._invalid_before = 0
        self._warm = False
        self._verdict: Preflight | None = None
        self._rehearsal = False
        self._capturing = False
        self._capture_id: str | None = None
        self._used_ids: set[str] = set()
        self._invalid: list[tuple[InvalidationReason, str]] = []
        self._fell_back: str | None = None
        self._closed: str | None = None
        self._phase: _Phase | None = None
        self._kind: TickKind = "eager"
        self._ticks = self._replays = self._eager_ticks = self._publications = 0
        self._captures = self._invalidations = 0
        self._fallback_reasons: list[str] = []

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """The mode that was chosen last."""
        return self._mode

    @property
    def state(self) -> State:
        """The state, derived from what happened so far."""
        if self._closed is not None or self._mode == "disabled" or self._carriers is None:
            return "unavailable"
        if self._invalid and self._fell_back is None and self._mode == "graph":
            return "invalidated"
        if self._capture_id is not None:
            return "ready"
        unsupported = self._verdict is not None and not self._verdict.supported
        return "unavailable" if unsupported and self._fell_back is None else "eager"

    @property
    def capture_id(self) -> str | None:
        """The valid capture, ``None`` where there is none."""
        return self._capture_id if self.state == "ready" else None

    @property
    def capture_identity(self) -> str:
        """What receipts carry now: the capture id, or ``eager``. Other ledgers are told with ``expect``."""
        return self._ledger.capture_id

    @property
    def in_tick(self) -> bool:
        """Whether a tick is open."""
        return self._phase is not None

    def snapshot(self) -> LifecycleSnapshot:
        """Return everything that a manifest says about the lifecycle."""
        state = self.state
        ready = state == "ready"
        return LifecycleSnapshot(
            contract_version=CONTRACT_VERSION,
            mode=self._mode,
            requested=self._mode == "graph",
            enabled=ready,
            state=state,
            capture_id=self._capture_id if ready else None,
            disable_reasons=() if ready else self._disable_reasons(),
            invalidation_reasons=() if ready else tuple(dict.fromkeys(reason for reason, _ in self._invalid)),
            captures=self._captures,
            replays=self._replays,
            eager_ticks=self._eager_ticks,
            ticks=self._ticks,
            publications=self._publications,
            invalidations=self._invalidations,
            fallback_reasons=tuple(self._fallback_reasons),
            last_sequence=self._ledger.last_sequence,
            rehearsal=self._rehearsal,
        )

    # -- the cold path -------------------------------------------------------------------------------------------

    @cold_path("the mode is chosen between ticks")
    def choose_mode(self, mode: Mode) -> None:
        """Take another mode; a capture that there is is given up. Raises IllegalTransitionError inside a tick."""
        _require_word("mode", mode, get_args(Mode))
        self._require_idle("choose a mode")
        if mode == self._mode:
            return
        self._drop_capture()
        self._mode = mode

    @cold_path("carriers are allocated before every capture")
    def allocate(self, carriers: CarrierManifest) -> None:
        """Take the carriers as they now are. New carriers need a new warm-up, preflight and capture.

        Raises IllegalTransitionError while there is a valid capture: invalidate it first.
        """
        self._require_idle("allocate carriers")
        self._require(self._mode != "disabled", "allocate carriers", "the mode is disabled")
        self._require(self.state != "ready", "allocate carriers", "a capture reads the present ones")
        require_kind(CarrierManifest, carriers, "carriers")
        self._drop_capture(keep_reasons=True)
        self._carriers, self._warm = carriers, False

    def warmed_up(self) -> None:
        """Note that eager warm-up has run on the present carriers. Raises IllegalTransitionError without carriers."""
        self._require_idle("finish the warm-up")
        self._require(self._carriers is not None, "finish the warm-up", "no carriers are allocated")
        self._require(self._mode != "disabled", "finish the warm-up", "the mode is disabled")
        self._warm = True

    def preflighted(self, verdict: Preflight) -> None:
        """Take the preflight's verdict. Unsupported fails closed: no tick may run in mode graph.

        Raises IllegalTransitionError before the warm-up, in another mode, and beside a valid capture.
        """
        self._require_idle("preflight")
        self._require(self._mode == "graph", "preflight", f"the mode is {self._mode}, so no graph was requested")
        self._require(self._warm, "preflight", "the eager warm-up has not run")
        self._require(self.state != "ready", "preflight", "there is a valid capture")
        require_kind(Preflight, verdict, "verdict")
        self._verdict = verdict

    def begin_capture(self) -> None:
        """Note that recording begins. Raises IllegalTransitionError unless a preflight has found it supported."""
        self._require_idle("capture")
        self._require(self._mode == "graph", "capture", f"the mode is {self._mode}")
        self._require(self.state in ("eager", "invalidated"), "capture", f"the state is {self.state}")
        supported = self._verdict is not None and self._verdict.supported
        self._require(supported, "capture", "no preflight has found the candidate supported")
        self._capturing = True
        self._invalid_before = len(self._invalid)

    def end_capture(self, capture_id: str) -> None:
        """Note that the recording has succeeded; the state is then ``ready``.

        Raises InvalidatedError where something was invalidated meanwhile, MalformedError for an identity
        that is malformed, used before or reserved.
        """
        self._require(self._capturing, "end a capture", "no capture is recording")
        self._check_capture_id(capture_id)
        self._capturing = False
        meanwhile = self._invalid[self._invalid_before :]
        if meanwhile:
            self._verdict = None
            raise self._invalidated("the capture was invalidated while it recorded")
        verdict = self._verdict
        assert verdict is not None
        self._invalid.clear()
        self._fell_back = None
        self._capture_id = capture_id
        self._used_ids.add(capture_id)
        self._captures += 1
        self._rehearsal = self._rehearsal or verdict.rehearsal
        self._ledger.expect(capture_id)

    def capture_failed(self, detail: str) -> None:
        """Note that the recording has failed: the state is then ``invalidated`` with ``capture_failed``."""
        self._require(self._capturing, "fail a capture", "no capture is recording")
        self._capturing = False
        self._verdict = None
        self._note("capture_failed", detail)

    @contextmanager
    def capturing(self, capture_id: str) -> Iterator[None]:
        """``with lifecycle.capturing(id): record()``: an exception inside becomes ``capture_failed`` and goes on."""
        self._check_capture_id(capture_id)
        self.begin_capture()
        try:
            yield
        except BaseException as error:
            if self._capturing:
                self.capture_failed(f"{type(error).__name__}: {error}")
            raise
        self.end_capture(capture_id)

    # -- invalidation and fallback -------------------------------------------------------------------------------

    def invalidate(self, reason: InvalidationReason, detail: str = "") -> bool:
        """Give the capture up before its next replay; return whether there was one, recorded or recording.

        Without a capture it only takes back a preflight, which spoke of what has now changed. Raises
        MalformedError for an unknown reason.
        """
        _require_word("reason", reason, INVALIDATION_REASONS)
        present = self._capturing or self._capture_id is not None
        if present or self.state == "invalidated":
            self._note(reason, detail)
        if not self._capturing:
            self._verdict = None
        return present

    def check_drift(self, observed: Iterable[Carrier]) -> tuple[Drift, ...]:
        """Compare the carriers with the declared ones; what has drifted invalidates by its own reason."""
        self._require(self._carriers is not None, "check for drift", "no carriers are allocated")
        assert self._carriers is not None
        drifts = self._carriers.drift(observed)
        for drift in drifts:
            self.invalidate(drift.reason, str(drift))
        return drifts

    def fall_back(self) -> str:
        """Go on eagerly after an invalidation between ticks; counted, and the reason is returned.

        Raises FailClosedError where fallback is forbidden (nothing may run then), IllegalTransitionError
        where nothing is invalidated.
        """
        self._require_idle("fall back")
        self._require(self.state == "invalidated", "fall back", f"the state is {self.state}")
        if self._fallback != "eager":
            self._close("fallback is forbidden")
        return self._count_fallback()

    # -- ticks ---------------------------------------------------------------------------------------------------

    def begin_tick(self, observed: Iterable[Carrier] | None = None) -> TickKind:
        """Open a tick and return how it runs. ``observed`` carriers are checked for drift before a replay.

        Raises InvalidatedError where the capture is lost (then fall back or capture again), FailClosedError
        where nothing may run, IllegalTransitionError inside a tick.
        """
        self._require_open("begin a tick")
        self._require_idle("begin a tick")
        if observed is not None and self.state == "ready":
            self.check_drift(observed)
        state = self.state
        if state == "invalidated":
            raise self._invalidated("the capture may not be replayed")
        if state == "unavailable":
            why = "; ".join(self._disable_reasons())
            raise FailClosedError(f"no tick may run: {why}", place="lifecycle", refusals=self._refusals("unavailable"))
        self._phase = "begun"
        self._kind = "graph" if state == "ready" else "eager"
        return self._kind

    def complete(self, receipt: CompletionReceipt) -> None:
        """Take the tick's receipt. Raises ReceiptError, or InvalidatedError where the capture was lost meanwhile."""
        self._require(self._phase == "begun", "complete a tick", "no tick is waiting for its completion")
        if self._kind == "graph" and self._capture_id is None:
            raise self._invalidated("the capture was invalidated during its replay; report the failure with fail()")
        self._ledger.accept(receipt)
        self._phase = "completed"

    def publish(self) -> None:
        """Note that the tick's transition was published. Raises IllegalTransitionError before completion or twice."""
        self._require(self._phase == "completed", "publish", "no tick is completed and unpublished")
        self._publications += 1
        self._phase = "published"

    def end_tick(self) -> None:
        """Close the tick. Raises IllegalTransitionError unless it has published, so that counters stay contiguous."""
        self._require(self._phase == "published", "end a tick", "no tick has published its transition")
        self._phase = None
        self._ticks += 1
        if self._kind == "graph":
            self._replays += 1
        else:
            self._eager_ticks += 1

    def fail(self, reason: InvalidationReason, detail: str = "", *, rollback: Rollback | None = None) -> str:
        """Report that the open tick has failed; return the reason if eager ticks may take over.

        They may only where fallback was allowed, the tick has published nothing and ``rollback`` restored
        the generator; the tick is then to be run again from its beginning. Otherwise, and for an eager
        tick, raises FailClosedError and nothing may run any more.
        """
        _require_word("reason", reason, INVALIDATION_REASONS)
        if rollback is not None:
            require_kind(Rollback, rollback, "rollback")
        self._require(self._phase is not None, "fail a tick", "no tick is open")
        published = self._phase == "published"
        was_graph = self._kind == "graph"
        if published:
            # The consumer has its transition, so the tick has happened whatever becomes of the run.
            self.end_tick()
        self._phase = None
        if not was_graph:
            self._close(f"an eager tick failed: {detail or reason}")
        self._note(reason, detail)
        if published:
            self._close("the failed replay has published a transition")
        if self._fallback != "eager":
            self._close("fallback is forbidden")
        if rollback is None:
            self._close("the random state was not rolled back")
        if not rollback.restored:
            self._close("the random state was not restored by the rollback")
        return self._count_fallback()

    def close(self) -> LifecycleSnapshot:
        """Tear down and return the last snapshot. Raises IllegalTransitionError inside a tick or a capture."""
        self._require(self._phase is None, "close", "a tick is open")
        self._require(not self._capturing, "close", "a capture is recording")
        last = self.snapshot()
        self._capture_id = None
        self._closed = self._closed or "closed"
        return last

    # -- helpers -------------------------------------------------------------------------------------------------

    def _note(self, reason: InvalidationReason, detail: str) -> None:
        if self._capture_id is not None or self._capturing or reason == "capture_failed":
            self._invalidations += 1
        self._invalid.append((reason, _short(detail)))
        self._fell_back = None
        self._capture_id = None
        self._verdict = None if not self._capturing else self._verdict

    def _count_fallback(self) -> str:
        words = [f"{reason}: {detail}" if detail else reason for reason, detail in self._invalid]
        self._fell_back = _short("; ".join(dict.fromkeys(words)))
        self._fallback_reasons.append(self._fell_back)
        self._ledger.expect(EAGER_CAPTURE)
        return self._fell_back

    def _drop_capture(self, *, keep_reasons: bool = False) -> None:
        self._capture_id = None
        self._verdict = None
        if not keep_reasons:
            self._invalid.clear()
            self._fell_back = None
        self._ledger.expect(EAGER_CAPTURE)

    def _disable_reasons(self) -> tuple[str, ...]:
        if self._closed is not None:
            return (self._closed,)
        if self._mode != "graph":
            return (f"mode is {self._mode}",)
        if self._fell_back is not None:
            return (_short(f"fallback after {self._fell_back}"),)
        if self._verdict is not None and not self._verdict.supported:
            return tuple(dict.fromkeys(_short(str(reason)) for reason in self._verdict.reasons))
        if self._carriers is None:
            return ("no carriers are allocated",)
        if self._invalid:
            return ()
        if not self._warm:
            return ("the eager warm-up has not run",)
        return ("nothing is captured yet",)

    def _close(self, why: str) -> NoReturn:
        self._closed = _short(f"failed closed: {why}")
        self._capture_id = None
        refusals = (Refusal("fail-closed", "lifecycle", why), *self._refusals("invalidated"))
        raise FailClosedError(f"execution cannot go on: {why}", place="lifecycle", refusals=refusals)

    def _invalidated(self, what: str) -> InvalidatedError:
        detail = "; ".join(f"{reason} ({text})" if text else reason for reason, text in self._invalid)
        return InvalidatedError(
            f"{what}: {detail}",
            place="lifecycle",
            remedy="capture again on the cold path, or fall back where that is allowed",
            refusals=self._refusals("invalidated"),
        )

    def _refusals(self, code: str) -> tuple[Refusal, ...]:
        if code == "invalidated":
            return tuple(Refusal("invalidated", reason, detail or reason) for reason, detail in self._invalid)
        if self._verdict is not None and not self._verdict.supported and self._closed is None:
            return self._verdict.reasons
        return tuple(Refusal(code, "lifecycle", reason) for reason in self._disable_reasons())

    def _check_capture_id(self, capture_id: str) -> None:
        if capture_id == EAGER_CAPTURE or capture_id in self._used_ids:
            raise malformed(
                "capture_id", f"{shown(capture_id)} was used before or is reserved; each capture has its own"
            )
        # The ledger holds every identity to its form.
        self._ledger.check_identity(capture_id)

    def _require_open(self, what: str) -> None:
        if self._closed is not None:
            raise FailClosedError(
                f"cannot {what}: {self._closed}", place="lifecycle", refusals=self._refusals("closed")
            )

    def _require_idle(self, what: str) -> None:
        self._require_open(what)
        self._require(self._phase is None, what, "a tick is open")
        self._require(not self._capturing, what, "a capture is recording")

    def _require(self, holds: bool, what: str, why: str) -> None:
        if not holds:
            message = f"cannot {what}: {why}"
            refusal = Refusal("illegal-transition", what, f"{why} (mode {self._mode}, state {self.state})")
            raise IllegalTransitionError(message, place="lifecycle", refusals=(refusal,))


def _require_word(field: str, value: object, words: tuple[str, ...]) -> None:
    if type(value) is not str or value not in words:
        raise malformed(field, f"expected one of {', '.join(words)}, found {shown(value)}")


def _short(text: str) -> str:
    """Fit a reason into an identity: one line, at most 256 bytes."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line.encode("utf-8", "replace")[:250].decode("utf-8", "ignore").strip()
