"""Completion receipts: proof that one tick's work is done, and which capture did it.

A receipt is waited for before the first read of what the tick wrote. On a GPU it carries an event and
the wait is an order to the reading stream, not to the host; eager work on the CPU is done when the call
returns, and its receipt is immediate.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, Final

from capaudit.contract.errors import ReceiptError, Refusal
from capaudit.contract.reasons import CONTRACT_VERSION
from capaudit.contract.strict import Counter, Identity, check_fields, malformed, require_kind

EAGER_CAPTURE: Final = "eager"
"""The capture identity of a tick that no capture ran."""


@dataclass(frozen=True, slots=True)
class CompletionReceipt:
    """One tick's completion. Raises MalformedError.

    ``operation`` names what completed (``collector.tick``), ``sequence`` grows by tick, ``producer`` is
    who ran it and ``capture_id`` which capture (``eager`` where none did). ``event`` is a Torch or Warp
    event recorded on the stream after the work, or ``None`` for the immediate form.
    """

    contract_version: Counter
    operation: Identity
    sequence: Counter
    producer: Identity
    capture_id: Identity
    stream_id: Counter
    event: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.contract_version != CONTRACT_VERSION:
            raise malformed("contract_version", f"is {self.contract_version}; this is version {CONTRACT_VERSION}")
        if self.event is not None and not _is_event(self.event):
            raise malformed("event", f"a {type(self.event).__name__} is no event that could be waited for")

    @property
    def is_immediate(self) -> bool:
        """Whether the work was done when the receipt was issued."""
        return self.event is None

    def wait_before_read(self, stream: Any = None, *, host: bool = False) -> None:
        """Make the reader wait for the work.

        Without ``host`` the reading ``stream`` (default: Torch's or Warp's current one) is ordered after
        the event and the host goes on. With ``host`` the calling thread waits, for a read on the CPU.
        The immediate form returns at once.
        """
        if self.event is None:
            return
        if host:
            _wait_on_host(self.event)
        elif callable(getattr(self.event, "wait", None)):
            self.event.wait(stream) if stream is not None else self.event.wait()
        else:
            _wait_on_warp_stream(self.event, stream)


def immediate_receipt(
    *, operation: str, sequence: int, producer: str, capture_id: str = EAGER_CAPTURE, stream_id: int = 0
) -> CompletionReceipt:
    """Return a receipt for work that is already done."""
    return CompletionReceipt(CONTRACT_VERSION, operation, sequence, producer, capture_id, stream_id)


def event_receipt(
    event: Any, *, operation: str, sequence: int, producer: str, capture_id: str, stream_id: int
) -> CompletionReceipt:
    """Return a receipt for work that ``event``, recorded after it on its stream, completes."""
    if event is None:
        raise malformed("event", "the event form needs an event; work that is done has an immediate receipt")
    return CompletionReceipt(CONTRACT_VERSION, operation, sequence, producer, capture_id, stream_id, event)


class ReceiptLedger:
    """Accepts the receipts of one producer and capture in growing sequence, each once."""

    def __init__(self, *, operation: str, producer: str, capture_id: str) -> None:
        self._operation = operation
        self._producer = producer
        self.check_identity(capture_id)
        self._capture_id = capture_id
        self._last: int | None = None
        self._accepted = 0

    @property
    def last_sequence(self) -> int | None:
        """The sequence accepted last, ``None`` before the first."""
        return self._last

    @property
    def accepted(self) -> int:
        """Number of accepted receipts."""
        return self._accepted

    @property
    def capture_id(self) -> str:
        """The capture whose receipts are accepted."""
        return self._capture_id

    def expect(self, capture_id: str) -> None:
        """Accept the receipts of another capture from now on; the sequence goes on growing."""
        self.check_identity(capture_id)
        self._capture_id = capture_id

    def check_identity(self, capture_id: str) -> None:
        """Raise MalformedError unless a receipt with this capture identity is possible at all."""
        immediate_receipt(operation=self._operation, sequence=0, producer=self._producer, capture_id=capture_id)

    def accept(self, receipt: CompletionReceipt) -> CompletionReceipt:
        """Return the receipt. Raises ReceiptError with every reason; the ledger then stays as it was."""
        require_kind(CompletionReceipt, receipt, "receipt")
        refusals = []
        for name, wanted in (
            ("operation", self._operation),
            ("producer", self._producer),
            ("capture_id", self._capture_id),
        ):
            found = getattr(receipt, name)
            if found != wanted:
                refusals.append(Refusal("foreign-identity", name, f"is {found!r}, expected {wanted!r}"))
        if self._last is not None and receipt.sequence <= self._last:
            message = f"is {receipt.sequence}, and {self._last} was accepted before"
            refusals.append(Refusal("stale-sequence", "sequence", message))
        if refusals:
            raise ReceiptError(
                f"receipt {receipt.sequence} is refused: {'; '.join(map(str, refusals))}",
                place="receipt",
                refusals=tuple(refusals),
            )
        self._last = receipt.sequence
        self._accepted += 1
        return receipt


def _is_event(value: object) -> bool:
    return any(callable(getattr(value, name, None)) for name in ("wait", "synchronize")) or _is_warp_event(value)


def _is_warp_event(value: object) -> bool:
    return hasattr(value, "cuda_event")


def _wait_on_host(event: Any) -> None:
    if callable(getattr(event, "synchronize", None)):
        event.synchronize()
    else:
        # An event of Warp is there, so Warp is imported; this package must not import it.
        sys.modules["warp"].synchronize_event(event)


def _wait_on_warp_stream(event: Any, stream: Any) -> None:
    (stream or event.device.stream).wait_event(event)
