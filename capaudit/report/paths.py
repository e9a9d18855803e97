"""File names as other programs want them: relative to the repository, and as URIs."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import quote

from capaudit.report.options import RenderOptions

_UNRESERVED: Final = "/-._~"


def repository_path(file: str, options: RenderOptions) -> str:
    """Return a file of the result as the hosting service knows it: relative to the repository's root.

    ``file`` is relative to the working directory, as everywhere in a result. A file outside of the
    root comes back as an absolute path. Slashes are forward ones.
    """
    root = os.path.abspath(options.root or options.working_directory)
    absolute = os.path.abspath(options.working_directory / file)
    try:
        relative = os.path.relpath(absolute, root)
    except ValueError:  # another drive
        return absolute.replace(os.sep, "/")
    inside = relative != os.pardir and not relative.startswith(os.pardir + os.sep)
    return (relative if inside else absolute).replace(os.sep, "/")


def uri(path: str) -> str:
    """Return a path of ``repository_path`` as a URI reference: percent-encoded UTF-8, absolute paths as ``file:``.

    Bytes of a name that are no valid text keep their own values, so that the name can be found again.
    """
    encoded = quote(os.fsencode(path), safe=_UNRESERVED)
    if not is_absolute(path):
        return encoded
    return f"file://{encoded}" if path.startswith("/") else f"file:///{encoded}"


def is_absolute(path: str) -> bool:
    """Return whether ``repository_path`` found the file outside of the root."""
    return os.path.isabs(path)
