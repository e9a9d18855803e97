"""Where the ``capaudit`` command starts: an unchanged run is answered before anything is imported."""

from __future__ import annotations

import sys

from capaudit.cache import ending, replay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def console() -> NoReturn:
    """Run the command line of this process and end the process with its status."""
    if sys.argv[1:2] and sys.argv[1] not in replay.REPEATABLE:  # others start threads, servers and devices
        sys.exit(main())
    ending.ends_soon()
    ending.leave(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status, from the record of an earlier run where one stands for it."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        repetition = replay.Repetition(words) if replay.is_repeatable(words) else None
    except (OSError, ValueError):  # the working directory is gone, or a path is no path: the command says so
        repetition = None
    if repetition is None:
        from capaudit.cli import main as command

        return command.main(words)
    try:
        status = repetition.replay()
    except (Exception, KeyboardInterrupt) as error:
        from capaudit.cli import main as command

        return command.ended(error)
    if status is not None:
        return status
    from capaudit.cli import main as command

    return repetition.record(lambda: command.main(words))
