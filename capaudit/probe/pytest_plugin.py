"""Pytest fixture ``capture_probe``. Enable it with ``pytest_plugins = ["capaudit.probe.pytest_plugin"]``.

It skips with the reason where there is no CUDA device, and fails with the located line where the step
cannot be captured or its replays are wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from capaudit.model import NoDeviceError
from capaudit.probe.api import CheckResult, capture_check
from capaudit.probe.environment import require_cuda


@pytest.fixture
def capture_probe(request: pytest.FixtureRequest) -> Callable[..., CheckResult]:
    """Return a function with ``capture_check``'s parameters that fails the test unless the result is clean."""
    try:
        require_cuda()
    except NoDeviceError as error:
        pytest.skip(f"capture_probe needs a CUDA device: {error.message}")

    def check(step: Callable[[], Any], carriers: Any = None, **options: Any) -> CheckResult:
        options.setdefault("roots", (request.path.parent,))
        result = capture_check(step, carriers, **options)
        if not result.clean:
            pytest.fail(f"{result.place or 'no single line'}: {result.verdict}: {result.message}", pytrace=False)
        return result

    return check
