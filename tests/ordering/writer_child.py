"""Writes one record and kills its own process at the Nth traced point: ``python writer_child.py FOLDER FIRST LAST``.

Forks a child per point, because starting Python two hundred times would take minutes.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from capaudit.ordering import Record, write_record
from tests.ordering.robots import GO1_BODIES, GO1_BY_KIND, entry

RECORD = Record({"robot": entry(GO1_BY_KIND, GO1_BODIES, backend="newton")}, {"argv": ["x" * 40] * 40})


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def write_and_die(path: Path, point: int) -> None:
    """Die before the ``point``-th traced line of the writer; real writes are cut into pieces of 7 bytes or so."""
    seen = 0
    real_write = os.write

    def short_write(descriptor: int, data: bytes) -> int:
        return real_write(descriptor, bytes(data[:97]))

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal seen
        if not frame.f_code.co_filename.endswith("writing.py"):
            return None
        if event == "line" and frame.f_code.co_name in ("write_record", "_write_through", "_link", "_sync_folder"):
            seen += 1
            if seen == point:
                die()
        return trace

    os.write = short_write  # type: ignore[assignment]
    sys.settrace(trace)
    write_record(RECORD, path)
    sys.settrace(None)


def main() -> None:
    folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    write_record(RECORD, folder / "warm.yaml")  # everything is imported before the forks
    for point in range(first, last):
        child = os.fork()
        if child == 0:
            write_and_die(folder / f"run_{point}" / "params" / "ordering.yaml", point)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        (folder / f"run_{point}.status").write_text("killed" if os.WIFSIGNALED(status) else "finished")


if __name__ == "__main__":
    main()
