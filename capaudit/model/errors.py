"""One base error. Each kind carries the place, the cause and the remedy as fields."""

from __future__ import annotations


class CapauditError(Exception):
    """The job could not be done; the command line prints it as one message and exits with ``status``."""

    status = 2

    def __init__(self, message: str, *, place: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message, place, remedy)
        self.message = message
        self.place = place
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only fields do not survive default pickling, and errors cross worker processes.
        return (_rebuild, (type(self), self.message, self.place, self.remedy))

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}\n  remedy: {self.remedy}" if self.remedy else text


def _rebuild(kind: type[CapauditError], message: str, place: str | None, remedy: str | None) -> CapauditError:
    return kind(message, place=place, remedy=remedy)


class InputError(CapauditError):
    """A path, file or document that was handed in cannot be used."""


class ConfigurationError(CapauditError):
    """The configuration has an unknown key or a value of the wrong kind."""


class UnresolvedEntryError(CapauditError):
    """A declared boundary entry does not name a function of the audited program (CAP904)."""


class NoDeviceError(CapauditError):
    """A probe needs a CUDA device and there is none."""

    status = 3
