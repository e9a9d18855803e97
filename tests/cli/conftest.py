"""The audit replaced by a prepared result: these tests are about the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import capaudit.audit
from capaudit.model import Result
from tests.report.sample import sample


class FakeAudit:
    """Answers with ``result`` (or raises ``error``) and remembers the options it was asked with."""

    def __init__(self) -> None:
        self.result: Result = sample(findings=(), unresolved=0)
        self.error: BaseException | None = None
        self.asked: list[Any] = []

    def audit(self, options: Any) -> Result:
        self.asked.append(options)
        if self.error is not None:
            raise self.error
        return self.result


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeAudit:
    fake = FakeAudit()
    find: Callable[[Any], Any] = lambda options: fake.audit(options).boundaries  # noqa: E731
    monkeypatch.setattr(capaudit.audit, "audit", fake.audit)
    monkeypatch.setattr(capaudit.audit, "find_boundaries", find)
    return fake
