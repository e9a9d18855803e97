"""Ownership decorators: the declarations that the audit reads, kept true while the program runs.

They need neither torch nor Warp. A framework that the program has not imported cannot be capturing,
so the check looks only at modules that are already loaded.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast, get_args, overload

from capaudit.model import Boundary, CapauditError, CaptureKind, OwnershipClass

_P = ParamSpec("_P")
_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., Any])

_BOUNDARY_ATTRIBUTE: Final = "__capaudit_boundary__"
_OWNERSHIP_ATTRIBUTE: Final = "__capaudit_ownership__"


class CaptureViolation(CapauditError):
    """A function that must stay outside of a capture was called while one was recording.

    It is no ``RuntimeError`` on purpose: an eager fallback that catches those around a capture must
    not swallow it.
    """


@overload
def boundary(function: _F, /) -> _F: ...
@overload
def boundary(
    *,
    name: str | None = None,
    capture: CaptureKind = "torch",
    inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
    k: int = 1,
    action_sequence: bool = False,
    speculative: bool = False,
) -> Callable[[_F], _F]: ...
def boundary(
    function: _F | None = None,
    /,
    *,
    name: str | None = None,
    capture: CaptureKind = "torch",
    inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
    k: int = 1,
    action_sequence: bool = False,
    speculative: bool = False,
) -> _F | Callable[[_F], _F]:
    """Declare a function as the entry of captured work; the function itself is returned unchanged.

    ``name`` is how reports call the boundary (default: the function's qualified name), ``capture``
    who starts the capture, ``inputs`` and ``outputs`` the carriers that cross it. Errors: ``TypeError``
    for something that is no plain function, ``ValueError`` for an unknown capture kind,
    ``BoundaryRefusedError`` for more than one control step per replay.
    """
    if capture not in get_args(CaptureKind):
        raise ValueError(f"capture is {capture!r}; it must be one of {', '.join(get_args(CaptureKind))}")

    def declare(target: _F) -> _F:
        _require_function(target, "boundary")
        declaration = Boundary(
            name=name or target.__qualname__,
            entry=f"{target.__module__}:{target.__qualname__}",
            capture=capture,
            origin="decorator",
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            k=k,
            action_sequence=action_sequence,
            speculative=speculative,
        )
        setattr(target, _BOUNDARY_ATTRIBUTE, declaration)
        return target

    return declare if function is None else declare(function)


def completion_owned(reason: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Declare that a function runs only after the replay has completed, on the completion or interval side.

    Calling it while a capture records raises ``CaptureViolation``. Errors: ``TypeError`` without a
    reason or for something that is no plain function.
    """
    return _owned(OwnershipClass.COMPLETION_OWNED, reason)


def cold_path(reason: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Declare that a function runs at construction, capture set-up, teardown or on a failure path only.

    Calling it while a capture records raises ``CaptureViolation``. Errors: ``TypeError`` without a
    reason or for something that is no plain function.
    """
    return _owned(OwnershipClass.COLD_PATH, reason)


def declared_boundary(function: Callable[..., Any]) -> Boundary | None:
    """Return the declaration that ``boundary`` left on a function or bound method, if any."""
    return cast("Boundary | None", getattr(function, _BOUNDARY_ATTRIBUTE, None))


def declared_ownership(function: Callable[..., Any]) -> tuple[OwnershipClass, str] | None:
    """Return the ownership class and the reason that a decorator left on a function, if any."""
    return cast("tuple[OwnershipClass, str] | None", getattr(function, _OWNERSHIP_ATTRIBUTE, None))


def capturing_framework() -> str | None:
    """Return which framework records a capture on the caller's current stream or device, if one does.

    Asking Warp initialises it where the program has imported but not yet used it; Torch is asked
    first, so that this never happens inside a Torch capture.
    """
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized() and cuda.is_current_stream_capturing():
        return "Torch"
    get_device = getattr(sys.modules.get("warp"), "get_device", None)
    if get_device is not None and get_device().is_capturing:
        return "Warp"
    return None


def _owned(ownership: OwnershipClass, reason: object) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    decorator = ownership.value.replace("-", "_")
    if not isinstance(reason, str) or not reason.strip():
        raise TypeError(f'{decorator} needs its reason: @capaudit.{decorator}("why this stays outside of the capture")')

    def declare(target: Callable[_P, _R]) -> Callable[_P, _R]:
        _require_function(target, decorator)
        name = f"{target.__module__}.{target.__qualname__}"

        @functools.wraps(target)
        def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            framework = capturing_framework()
            if framework is not None:
                raise CaptureViolation(
                    f"{name} is {ownership.value} ({reason}), but a {framework} capture is recording",
                    remedy="call it after the replay has completed, or before the capture begins",
                )
            return target(*args, **kwargs)

        setattr(guarded, _OWNERSHIP_ATTRIBUTE, (ownership, reason))
        return guarded

    return declare


def _require_function(target: object, decorator: str) -> None:
    # A classmethod, property or class would take the mark but not the check, and nobody would notice.
    if isinstance(target, (type, staticmethod, classmethod, property)) or not callable(target):
        kind = type(target).__name__
        raise TypeError(
            f"@capaudit.{decorator} belongs on the function itself, below @staticmethod and alike, not on a {kind}"
        )
