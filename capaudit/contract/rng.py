"""Random draws under capture: versions, recorded order, and a rollback that is checked.

``state_version`` only grows: every state that is installed (a seed, a rollback) is a new one.
``draw_version`` counts the draws that the state stands for; a rollback takes it back with the state, so
that a failed replay never advances consumption silently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from capaudit.contract.errors import Refusal, RngError
from capaudit.contract.strict import Counter, Identity, check_fields, malformed, require_kind


@dataclass(frozen=True, slots=True)
class RngEvidence:
    """A generator's whole state at one moment. ``state`` holds the bytes of its CPU state tensor.

    ``device`` labels where the generator draws. Raises MalformedError.
    """

    device: Identity
    state: bytes
    state_version: Counter
    draw_version: Counter

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.state:
            raise malformed("state", "the state is empty")

    @property
    def sha256(self) -> str:
        """Digest of the state."""
        import hashlib  # loads OpenSSL, which a collector may never need

        return hashlib.sha256(self.state).hexdigest()

    def same_draws_follow(self, other: RngEvidence) -> bool:
        """Return whether both moments stand at the same point of the same sequence of draws."""
        mine = (self.device, self.state, self.draw_version)
        return mine == (other.device, other.state, other.draw_version)


@dataclass(frozen=True, slots=True)
class Rollback:
    """What a rollback achieved: ``after`` was read back from the generator once ``before`` was installed."""

    before: RngEvidence
    after: RngEvidence

    @property
    def restored(self) -> bool:
        """Whether the whole pre-boundary state is back."""
        return self.before.same_draws_follow(self.after)


class RngLedger:
    """Watches one generator (anything with ``get_state`` and ``set_state`` over a CPU ``uint8`` tensor or bytes).

    Code that draws calls ``draw(name)`` beside each draw. The first whole tick records the order, unless
    ``order`` gives it; every later tick is held to it, and a replay, in which no host code runs, counts as
    that order. ``masked`` names the draws that an empty mask leaves out, all of them or none. Where the
    device itself counts draws, ``draws`` reads that count, and the host's own is not used.
    """

    def __init__(
        self,
        generator: Any,
        *,
        device: str,
        order: tuple[str, ...] | None = None,
        masked: tuple[str, ...] = (),
        draws: Callable[[], int] | None = None,
    ) -> None:
        if order is not None and not set(masked) <= set(order):
            raise malformed("masked", "every masked draw has its place in the order")
        self._generator = generator
        self._device = device
        self._order = order
        self._masked = frozenset(masked)
        self._draws = draws
        self._state_version = 0
        self._draw_version = 0
        self._current: list[str] | None = None
        self.evidence()  # a generator that cannot be read must not be found out later

    @property
    def order(self) -> tuple[str, ...] | None:
        """The recorded order of draws within a tick, ``None`` before it is known."""
        return self._order

    def evidence(self) -> RngEvidence:
        """Read the state. Copies a CPU tensor; draws nothing."""
        drawn = self._draw_version if self._draws is None else self._draws()
        return RngEvidence(self._device, _state_bytes(self._generator), self._state_version, drawn)

    def begin_tick(self) -> RngEvidence:
        """Return the pre-boundary evidence that a rollback needs. Raises RngError inside a tick."""
        if self._current is not None:
            raise _refused("tick", "a tick is open already")
        self._current = []
        return self.evidence()

    def draw(self, name: str) -> None:
        """Note one draw. Raises RngError outside of a tick, and for a draw that is not due in the recorded order."""
        if self._current is None:
            raise _refused("tick", f"{name!r} is drawn outside of a tick")
        drawn = (*self._current, name)
        orders = self._orders()
        if orders and not any(order[: len(drawn)] == drawn for order in orders):
            place = len(drawn) - 1
            due = [repr(order[place]) for order in orders if order[:place] == drawn[:-1] and len(order) > place]
            wanted = f"{' or '.join(due)} is due" if due else "no further draw is recorded"
            raise _refused("draw_order", f"draw {len(drawn) - 1} is {name!r} where {wanted}")
        self._current.append(name)

    def end_tick(self) -> RngEvidence:
        """Close an eager tick and return the evidence. Raises RngError if recorded draws are missing."""
        if self._current is None:
            raise _refused("tick", "no tick is open")
        drawn = tuple(self._current)
        orders = self._orders()
        if orders and drawn not in orders:
            missing = ", ".join(orders[0][len(drawn) :])
            raise _refused("draw_order", f"the tick ends without the recorded draws {missing}")
        if self._order is None and self._masked <= set(drawn):
            self._order = drawn
        self._current = None
        self._draw_version += len(drawn)
        return self.evidence()

    def replayed(self, *, empty_mask: bool = False) -> RngEvidence:
        """Close a replayed tick: the graph has drawn in the recorded order, under an empty mask without the masked.

        Raises RngError where no order is recorded, and where host code drew during the replay.
        """
        if self._current is None:
            raise _refused("tick", "no tick is open")
        if self._order is None:
            raise _refused("draw_order", "nothing is recorded that a replay could have drawn")
        if self._current:
            raise _refused("draw_order", f"host code drew {self._current[0]!r} during a replay")
        self._current = None
        self._draw_version += len(self._orders()[-1 if empty_mask else 0])
        return self.evidence()

    def _orders(self) -> tuple[tuple[str, ...], ...]:
        if self._order is None:
            return ()
        return self._order, tuple(name for name in self._order if name not in self._masked)

    def seed_installed(self) -> RngEvidence:
        """Note that the caller installed another state (a seed, a checkpoint). Raises RngError inside a tick."""
        if self._current is not None:
            raise _refused("tick", "a state is installed inside a tick")
        self._state_version += 1
        return self.evidence()

    def rollback(self, before: RngEvidence) -> Rollback:
        """Install the whole pre-boundary state, read it back, and end the open tick if there is one.

        The result says whether it worked; the state version grows, the draw version goes back. Raises
        RngError for evidence of another device or of a later moment.
        """
        require_kind(RngEvidence, before, "before")
        if before.device != self._device:
            raise _refused("device", f"the evidence is of {before.device}, the generator draws on {self._device}")
        if before.state_version > self._state_version or (
            self._draws is None and before.draw_version > self._draw_version
        ):
            raise _refused("versions", "the evidence is of a later moment than the generator's present")
        self._generator.set_state(_state_tensor(self._generator, before.state))
        self._current = None
        self._state_version += 1
        self._draw_version = before.draw_version
        return Rollback(before, self.evidence())


def require_nothing_consumed(before: RngEvidence, after: RngEvidence) -> None:
    """Hold an empty mask to drawing nothing. Raises RngError where the state or the draw version moved."""
    if not before.same_draws_follow(after):
        moved = f"draw version {before.draw_version} became {after.draw_version}, or the state changed"
        raise _refused("empty_mask", moved)


def _state_bytes(generator: Any) -> bytes:
    state = generator.get_state()
    if isinstance(state, (bytes, bytearray)):
        return bytes(state)
    return bytes(state.cpu().tolist())


def _state_tensor(generator: Any, state: bytes) -> Any:
    present = generator.get_state()
    if isinstance(present, (bytes, bytearray)):
        return state
    return present.new_tensor(list(state))


def _refused(subject: str, message: str) -> RngError:
    return RngError(message, place="rng", refusals=(Refusal("rng-" + subject.replace("_", "-"), subject, message),))
