"""capaudit: the capture-safety auditor for GPU robot-learning code.

The three ownership decorators are the public face. They load on first use, so that importing the
package for its version, or starting the command line, costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself costs as much as the rest of a warm start
if TYPE_CHECKING:
    from typing import Any

    from capaudit.contract.ownership import CaptureViolation, boundary, cold_path, completion_owned

__version__ = "0.1.0"

__all__ = ["CaptureViolation", "__version__", "boundary", "cold_path", "completion_owned"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from capaudit.contract import ownership

        return getattr(ownership, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
