"""The protocol on a real device: one program per outcome, and the server's forked children."""

import pytest

torch = pytest.importorskip("torch")

from capaudit.knowledge.idioms import Idiom  # noqa: E402
from capaudit.probe.ops import OpsOptions, probe_idioms, probe_operators  # noqa: E402
from capaudit.probe.ops_record import disagrees  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: torch sees none"),
]


def program(identifier: str, body: str, capture: str, **more: str) -> Idiom:
    return Idiom(**{"id": identifier, "op": "torch", "body": body, "capture": capture, "file": "", **more})


PROGRAMS = [
    program("copy", "y.copy_(x)", "ok"),
    program("accumulate", "y.add_(x)", "advances"),
    program("random", "y.uniform_()", "advances"),
    program(
        "registered generator",
        "y.uniform_(generator=g)",
        "advances",
        setup="g = torch.Generator('cuda'); registered_generators = [g]",
    ),
    program("unregistered generator", "y.uniform_(generator=g)", "fails", setup="g = torch.Generator('cuda')"),
    program("read", "y.fill_(x[0].item())", "fails"),
    program("host random", "y.fill_(random.random())", "wrong-on-replay", setup="import random"),
    program("rebound input", "y.copy_(z)", "wrong-on-replay", setup="z = x + 0", mutate="z = torch.ones_like(x)"),
    program("default stream", "with torch.cuda.stream(torch.cuda.default_stream()):\n  y.add_(x)", "wrong-on-replay"),
]


def test_programs_have_their_known_outcomes() -> None:
    found = probe_idioms(PROGRAMS, OpsOptions(jobs=4))
    assert [(record.id, record.outcome, record.error) for record in found.records if disagrees(record)] == []
    assert found.environment.gpu is not None
    assert found.records[5].sync is True
    assert "advances" in {record.outcome for record in found.records}


def test_operators_of_the_database_have_their_known_outcomes() -> None:
    found = probe_operators(["nonzero", "sin", "normal_"], OpsOptions(jobs=4))
    outcomes = {record.id: record.outcome for record in found.records}
    assert (outcomes["nonzero"], outcomes["sin"], outcomes["sinh"]) == ("fails", "ok", "ok")
