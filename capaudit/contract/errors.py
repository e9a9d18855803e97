"""Errors of the collector contract: every refusal carries its reasons as data."""

from __future__ import annotations

from dataclasses import dataclass

from capaudit.model import CapauditError


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason. ``code`` is a stable kebab-case word, ``subject`` the field, capability or carrier it speaks of."""

    code: str
    subject: str
    message: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.message} [{self.code}]"


class ContractError(CapauditError):
    """The contract refuses something. ``refusals`` holds at least one reason."""

    code = "refused"

    def __init__(
        self,
        message: str,
        *,
        place: str | None = None,
        remedy: str | None = None,
        refusals: tuple[Refusal, ...] = (),
    ) -> None:
        super().__init__(message, place=place, remedy=remedy)
        self.refusals = refusals or (Refusal(self.code, place or "contract", message),)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.place, self.remedy, self.refusals))


class MalformedError(ContractError):
    """A value has the wrong type or range, or a document a missing or unknown key; ``place`` is the field."""

    code = "malformed"


class IllegalTransitionError(ContractError):
    """The lifecycle does not allow this step in its present state, which stays as it was."""

    code = "illegal-transition"


class InvalidatedError(ContractError):
    """The capture was invalidated, so its replay is refused."""

    code = "invalidated"


class FailClosedError(ContractError):
    """Execution cannot go on: nothing may be replayed and eager fallback is not allowed."""

    code = "fail-closed"


class ReceiptError(ContractError):
    """A completion receipt is stale, foreign or of another contract version."""

    code = "receipt"


class IngressError(ContractError):
    """A slot of the replay ingress was published, read or released out of order."""

    code = "ingress-order"


class RngError(ContractError):
    """Random draws left the recorded order, or a state could not be restored."""

    code = "rng"


def _rebuild(
    kind: type[ContractError], message: str, place: str | None, remedy: str | None, refusals: tuple[Refusal, ...]
) -> ContractError:
    return kind(message, place=place, remedy=remedy, refusals=refusals)
