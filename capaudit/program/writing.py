"""Replace a file in one step: a reader, a full disk or a kill meets the old content or the new, never a part."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def replace_file(file: Path, data: bytes) -> None:
    """Write a file whole. A link stays a link, permissions stay, and a device or pipe is written to as it is.

    Errors: ``OSError``, with nothing changed and nothing left behind.
    """
    target = file.resolve()
    if file.exists() and not file.is_file():  # a device, a pipe (the resolved name of which is no path)
        file.write_bytes(data)
        return
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        mode = target.stat().st_mode if target.exists() else 0o666 & ~_umask()
        os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)  # there is no way to read it without setting it
    os.umask(mask)
    return mask
