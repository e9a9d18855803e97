"""Replay ingress: fixed slots that a reader may look into only behind the receipt that filled them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from capaudit.contract.carriers import INGRESS_DEPTH
from capaudit.contract.errors import IngressError, Refusal
from capaudit.contract.receipts import CompletionReceipt, ReceiptLedger
from capaudit.contract.strict import Counter, Positive, check_fields, malformed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IngressCounters:
    """What went through the ingress. ``ticks`` counts publications in tick order; all equal once it is drained."""

    ticks: Counter
    published: Counter
    released: Counter

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.released <= self.published <= self.ticks:
            raise malformed("released", "no more slots can be released than published, nor published than ticked")


@dataclass(slots=True)
class _Held:
    tick: int
    receipt: CompletionReceipt
    waited: bool = False


class Ingress(Generic[T]):
    """A ring of fixed slots, each ``rows`` wide, filled in tick order and released in the same order.

    ``slots`` is the caller's storage, one object per slot (default depth 2); it is handed out by
    ``read`` behind the receipt's wait and never touched otherwise.
    """

    def __init__(self, slots: tuple[T, ...], *, rows: int, ledger: ReceiptLedger) -> None:
        if type(slots) is not tuple or len(slots) < 1:
            raise malformed("slots", f"expected a tuple with one object per slot (usually {INGRESS_DEPTH})")
        if type(rows) is not int or rows < 1:
            raise malformed("rows", "expected the number of rows of a slot, at least 1")
        self._slots = slots
        self._rows = rows
        self._ledger = ledger
        self._held: list[_Held | None] = [None] * len(slots)
        self._published = 0
        self._released = 0

    @property
    def depth(self) -> int:
        """Number of slots."""
        return len(self._slots)

    @property
    def rows(self) -> int:
        """Rows of a slot."""
        return self._rows

    @property
    def counters(self) -> IngressCounters:
        """Return the counters as they are now."""
        return IngressCounters(ticks=self._published, published=self._published, released=self._released)

    def slot_of(self, tick: int) -> int:
        """Return the slot that a tick is written to. Raises MalformedError for what is no tick."""
        if type(tick) is not int or tick < 0:
            raise malformed("tick", f"expected the number of a tick, found {tick!r}")
        return tick % len(self._slots)

    def publish(self, tick: int, receipt: CompletionReceipt) -> int:
        """Record that ``tick`` (counted from 0, without gaps) filled its slot; return the slot's index.

        Raises IngressError for a tick out of order and for a slot that is still held, ReceiptError for a
        receipt that the ledger refuses. Nothing changes then.
        """
        if type(tick) is not int or tick != self._published:
            raise self._order("tick", f"tick {tick!r} is published where {self._published} is due")
        slot = self.slot_of(tick)
        held = self._held[slot]
        if held is not None:
            raise self._order("slot", f"slot {slot} still holds tick {held.tick}, which nobody has released")
        self._ledger.accept(receipt)
        self._held[slot] = _Held(tick, receipt)
        self._published += 1
        return slot

    def read(self, tick: int, stream: Any = None, *, host: bool = False) -> T:
        """Return the slot of a published tick, after the reader was made to wait for its receipt.

        The wait precedes the first read on purpose: there is no way to the slot around it. Raises
        IngressError for a tick that is not held.
        """
        held = self._require(tick)
        held.receipt.wait_before_read(stream, host=host)
        held.waited = True
        return self._slots[self.slot_of(tick)]

    def release(self, tick: int) -> None:
        """Give the slot back. Raises IngressError unless it is the oldest held one and was read behind its receipt."""
        held = self._require(tick)
        if tick != self._released:
            raise self._order("tick", f"tick {tick} is released where {self._released} is due")
        if not held.waited:
            raise self._order("receipt", f"tick {tick} is released, but nobody waited for its receipt")
        self._held[self.slot_of(tick)] = None
        self._released += 1

    def close(self) -> IngressCounters:
        """Return the final counters. Raises IngressError unless everything published was released."""
        if self._published != self._released:
            raise self._order("released", f"{self._published} ticks were published and {self._released} released")
        return self.counters

    def _require(self, tick: int) -> _Held:
        held = self._held[self.slot_of(tick)] if type(tick) is int and tick >= 0 else None
        if held is None or held.tick != tick:
            raise self._order("tick", f"tick {tick!r} is not held by any slot")
        return held

    def _order(self, subject: str, message: str) -> IngressError:
        return IngressError(message, place="ingress", refusals=(Refusal("ingress-order", subject, message),))


@dataclass(frozen=True, slots=True)
class IngressShape:
    """Depth and rows of an ingress, and the rows of the replay buffer behind it."""

    depth: Positive
    rows: Positive
    replay_capacity: Positive

    def __post_init__(self) -> None:
        check_fields(self)
