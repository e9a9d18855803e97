"""Which generators count as registered: each by itself, and none that somebody else may have registered."""

from __future__ import annotations

from pathlib import Path

import pytest

from capaudit.audit import AuditOptions, audit

PROGRAM = """\
import torch

{before}
class Noise:
    def __init__(self, worlds, device="cuda"):
        self.x = torch.zeros(worlds, device=device)
        self.known = torch.Generator(device=device)
        self.other = torch.Generator(device=device)
        {construction}

    def capture(self, graph):
        graph.register_generator_state(self.known)
        {capture}
        with torch.cuda.graph(graph):
            self.step()

    def step(self):  # capaudit: boundary
        self.x.uniform_(generator=self.known)
        self.x.uniform_(generator=self.other)
{after}
"""


def flagged(folder: Path, **parts: str) -> list[str]:
    source = PROGRAM.format(**{"before": "", "after": "", "construction": "pass", "capture": "pass"} | parts)
    (folder / "noise.py").write_text(source)
    result = audit(AuditOptions(paths=(folder,), working_directory=folder))
    return [source.splitlines()[item.place.line - 1].strip() for item in result.findings if item.code == "CAP502"]


FORGOTTEN = ["self.x.uniform_(generator=self.other)"]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"construction": "self.other.manual_seed(3)"},
        {"construction": "if self.other is None: raise ValueError"},
        {"capture": "# graph.register_generator_state(self.other)"},
        {"capture": "state = self.other.get_state()"},
        {"after": "class Else:\n    def capture(self, graph):\n        graph.register_generator_state(self.other)"},
        {"after": "def capture(graph):\n    other = torch.Generator()\n    graph.register_generator_state(other)"},
    ],
)
def test_a_generator_that_only_draws_stays_unregistered_beside_one_that_is(
    parts: dict[str, str], tmp_path: Path
) -> None:
    assert flagged(tmp_path, **parts) == FORGOTTEN


@pytest.mark.parametrize(
    "parts",
    [
        {"capture": "graph.register_generator_state(self.other)"},
        {"capture": "graph.register_generator_state(generator=self.other)"},
        {"capture": "[graph.register_generator_state(g) for g in (self.known, self.other)]"},
        {"capture": "graph.register_generator_state(getattr(self, 'other'))"},
        {"capture": "tell(graph, self.other)"},
        {"capture": "tell(graph, generator=self.other)", "before": "def tell(graph, generator): ...\n"},
        {"capture": "import functools; functools.partial(print, generator=self.other)()"},
        {"construction": "self.last = self.other", "capture": "graph.register_generator_state(self.last)"},
        {"construction": "self.all = {'other': self.other}"},
        {"after": "class Deep(Noise):\n    def more(self, graph):\n        graph.register_generator_state(self.other)"},
        {"after": "def capture(noise, graph):\n    graph.register_generator_state(noise.other)"},
        {"after": "def give(noise):\n    return noise.other"},
    ],
)
def test_a_generator_that_may_have_been_registered_is_left_alone(parts: dict[str, str], tmp_path: Path) -> None:
    assert flagged(tmp_path, **parts) == []


def test_a_comment_that_speaks_of_registration_registers_nothing(tmp_path: Path) -> None:
    source = PROGRAM.format(before="", after="", construction="pass", capture="pass")
    source = source.replace("        graph.register_", "        # graph.register_")
    (tmp_path / "noise.py").write_text(source)
    result = audit(AuditOptions(paths=(tmp_path,), working_directory=tmp_path))
    assert [item.code for item in result.findings] == ["CAP502", "CAP502"]


def test_a_draw_on_the_host_stays_one_whatever_is_registered(tmp_path: Path) -> None:
    after = "    def more(self):  # capaudit: boundary\n        self.x.add_(torch.rand(4, generator=None).sum())"
    found = flagged(tmp_path, capture="graph.register_generator_state(self.other)", after=after)
    assert found == ["self.x.add_(torch.rand(4, generator=None).sum())"]
