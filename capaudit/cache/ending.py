"""The end of a process that ran one command: nobody needs its memory taken apart object by object.

Syntax trees and contexts are millions of small objects; freeing them one by one took a tenth of a cold
check, just before the operating system drops the whole process anyway.
"""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_kept: list[object] | None = None


def ends_soon() -> None:
    """Say that this process ends after its command; never in a process that goes on (an editor's, a test's)."""
    global _kept
    _kept = []


def keep(*values: object) -> None:
    """Spare values from being freed, where the process ends soon; what was kept before goes."""
    if _kept is not None:
        _kept[:] = values


def leave(status: int) -> NoReturn:
    """End the process as ``sys.exit`` does, exit functions and flushes included, but without taking it apart."""
    try:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except BaseException:  # a full disk, a closed pipe: the interpreter knows how to end with that
        sys.exit(status)
    os._exit(status)
