"""The audit replaced by a prepared result: these tests are about the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import capaudit.audit
from capaudit.audit.configuration import Configuration
from capaudit.model import Result
from tests.report.sample import sample


@dataclass(frozen=True)
class Options:
    """The fields of the audit's options that the command line fills."""

    paths: tuple[Path, ...]
    entries: tuple[str, ...] = ()
    capture: str | None = None
    configuration: Configuration = field(default_factory=Configuration)
    working_directory: Path = field(default_factory=Path.cwd)
    collect_operations: bool = False


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
    monkeypatch.setattr(capaudit.audit, "AuditOptions", Options, raising=False)
    monkeypatch.setattr(capaudit.audit, "audit", fake.audit, raising=False)
    monkeypatch.setattr(capaudit.audit, "find_boundaries", find, raising=False)
    return fake
