"""``probe ops`` from end to end, with capture replaced by a recording on the CPU."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")

from capaudit import evidence
from capaudit.cli.probe import probe
from capaudit.evidence import Evidence, Record
from capaudit.knowledge.idioms import Idiom
from capaudit.model import InputError, NoDeviceError
from capaudit.probe.ops import OpsOptions, probe_idioms, probe_operators
from capaudit.probe.ops_record import disagrees
from capaudit.probe.ops_table import render
from capaudit.probe.ops_update import is_comparable

FAKE = OpsOptions(device="cpu", jobs=2, timeout=60, backend="tests.probe.fake_device:FakeBackend")
ROOT = str(Path(__file__).parents[2])


def program(identifier: str, body: str, capture: str, **more: str) -> Idiom:
    return Idiom(**{"id": identifier, "op": "torch.Tensor.copy_", "body": body, "capture": capture, "file": "", **more})


@pytest.fixture(autouse=True)
def _children_find_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ROOT)


def measure(idioms: Sequence[Idiom], options: OpsOptions = FAKE) -> Evidence:
    return probe_idioms(idioms, options)


def test_outcomes_are_compared_with_the_declarations() -> None:
    found = measure(
        [
            program("copy", "y.copy_(x)", "ok"),
            program("read", "y.fill_(x[0].item())", "fails", hazard="CAP101"),
            program("stale", "y.fill_(random.random())", "ok", setup="import random"),
            program("random", "y.uniform_()", "advances"),
            program("old", "undefined", "ok", versions="<1.0"),
            program("exits", "os._exit(0)", "ok", setup="import os"),
            program("absent", "pass", "ok", setup="import no_such_library"),
        ]
    )
    outcomes = {record.id: record.outcome for record in found.records}
    assert outcomes == {
        "copy": "ok",
        "read": "fails",
        "stale": "wrong-on-replay",
        "random": "advances",
        "old": "not-run",
        "exits": "broken",
        "absent": "not-run",
    }
    assert [record.id for record in found.records if disagrees(record)] == ["stale", "exits"]
    assert found.verdict == "disagrees"
    assert found.records[0].subject == "torch.Tensor.copy_"
    assert found.records[1].hazard == "CAP101"
    assert evidence.loads(evidence.dumps(found)) == found
    assert "stale" in render(found)
    assert "2 of 5 declared verdicts disagree" in render(found)


def test_idioms_that_share_a_process_are_judged_as_if_alone() -> None:
    idioms = [
        program("patches", "y.copy_(x)", "ok", setup="torch.Tensor.twice = None"),
        program("exits", "os._exit(0)", "ok", setup="import os"),
        program("alone", "assert not hasattr(torch.Tensor, 'twice'); y.copy_(x)", "ok"),
        program("copy", "y.copy_(x)", "ok"),
        program("read", "y.fill_(x[0].item())", "fails"),
    ]
    found = measure(idioms, replace(FAKE, jobs=1, share=4))
    assert [record.outcome for record in found.records] == ["ok", "broken", "ok", "ok", "fails"]


def test_a_hanging_program_is_stopped_and_the_others_are_measured() -> None:
    idioms = [program("hangs", "time.sleep(600)", "ok", setup="import time"), program("copy", "y.copy_(x)", "ok")]
    found = measure(idioms, replace(FAKE, jobs=2, timeout=15))
    assert [record.outcome for record in found.records] == ["broken", "ok"]
    assert "time limit" in found.records[0].error


def test_a_process_that_dies_in_capture_fails() -> None:
    found = measure(
        [program("dies", "y.copy_(x)", "ok")], replace(FAKE, backend="tests.probe.fake_device:DyingBackend")
    )
    assert found.records[0].outcome == "fails"
    assert "SIGSEGV" in found.records[0].error
    assert found.records[0].note == "the process ended during capture"


def test_operators_of_the_database_are_measured_sample_by_sample() -> None:
    names = ["add", "empty_like", "normal_", "item", "nn.functional.dropout2d"]
    seen: list[tuple[int, int]] = []
    found = probe_operators(names, FAKE, lambda done, total: seen.append((done, total)))
    outcomes = {record.id: record for record in found.records}
    assert outcomes["add"].outcome == "ok"
    assert outcomes["add"].values["samples"] == 3
    assert outcomes["item"].outcome == "fails"
    assert outcomes["item"].sync is True
    assert outcomes["nn.functional.dropout2d"].outcome == "advances"
    assert "not compared" in outcomes["empty_like"].note
    assert found.verdict == "measured"
    assert seen[-1][0] == seen[-1][1] == len(found.records)


def test_without_a_device_nothing_is_claimed() -> None:
    with pytest.raises(NoDeviceError):
        measure([program("copy", "y.copy_(x)", "ok")], OpsOptions(device="cuda:99"))


def test_the_command_says_that_there_is_no_device(tmp_path: Path) -> None:
    facts = tmp_path / "facts.jsonl"
    facts.write_text('{"name": "copy", "body": "y.copy_(x)", "capture": "ok"}\n')
    arguments = ["ops", "--device", "cuda:99", "--facts", str(facts), "--output", str(tmp_path / "out.json")]
    result = CliRunner().invoke(probe, arguments)
    assert isinstance(result.exception, NoDeviceError)
    assert result.exception.status == 3
    assert not (tmp_path / "out.json").exists()


def test_the_command_writes_evidence_and_exits_with_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts, output = tmp_path / "facts.jsonl", tmp_path / "out.json"
    facts.write_text('{"name": "copy", "body": "y.copy_(x)", "capture": "fails"}\n')
    monkeypatch.setattr("capaudit.probe.ops.probe_idioms", lambda idioms, options, progress, earlier: measure(idioms))
    result = CliRunner().invoke(probe, ["ops", "--facts", str(facts), "--output", str(output)], standalone_mode=False)
    assert result.return_value == 1
    assert evidence.load(output).records[0].outcome == "ok"
    assert "1 of 1 declared verdicts disagree" in result.output


def test_help_needs_neither_torch_nor_the_other_commands() -> None:
    result = CliRunner().invoke(probe, ["--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in ("run", "ops", "matrix"))


@pytest.mark.parametrize(
    ("expected", "outcome", "contradicts"),
    [
        ("ok", "advances", False),
        ("advances", "ok", False),
        ("ok", "fails", True),
        ("fails", "wrong-on-replay", True),
        ("fails", "broken", True),
        ("fails", "not-run", False),
        (None, "fails", False),
    ],
)
def test_what_counts_as_a_disagreement(expected: str | None, outcome: str, contradicts: bool) -> None:
    assert disagrees(Record("a", "a", outcome, expected=expected)) is contradicts


def test_an_update_measures_only_what_is_new_changed_or_contradicted() -> None:
    first = measure(
        [
            program("kept", "y.copy_(x)", "ok"),
            program("changed", "y.copy_(x)", "ok"),
            program("contradicted", "y.copy_(x)", "fails"),
            program("declared anew", "y.fill_(x[0].item())", "fails", hazard="CAP102"),
            program("gone", "y.copy_(x)", "ok"),
        ]
    )
    today = [
        program("new", "y.copy_(x)", "ok"),
        program("kept", "y.copy_(x)", "ok"),
        program("changed", "y.fill_(x[0].item())", "fails"),
        program("contradicted", "y.copy_(x)", "fails"),
        program("declared anew", "y.fill_(x[0].item())", "fails", hazard="CAP101"),
    ]
    seen: list[int] = []
    found = probe_idioms(today, FAKE, lambda done, total: seen.append(total), earlier=first)
    assert set(seen) == {3}
    assert [(record.id, record.outcome) for record in found.records] == [
        ("new", "ok"),
        ("kept", "ok"),
        ("changed", "fails"),
        ("contradicted", "ok"),
        ("declared anew", "fails"),
    ]
    assert found.records[4].hazard == "CAP101"
    assert found.verdict == "disagrees"
    assert found.parameters["kept"] == 2
    assert found.target["count"] == 5


def test_an_update_on_another_device_is_refused() -> None:
    programs = [program("copy", "y.copy_(x)", "ok")]
    first = measure(programs)
    other = replace(first, environment=replace(first.environment, gpu="another"))
    with pytest.raises(InputError, match="another device"):
        probe_idioms([*programs, program("more", "y.copy_(x)", "ok")], FAKE, earlier=other)


def test_an_update_takes_a_library_that_only_one_run_had_and_refuses_another_version() -> None:
    first = measure([program("copy", "y.copy_(x)", "ok")])
    with_warp = replace(first.environment, warp="1.19.0")
    assert is_comparable(with_warp, replace(first.environment, warp=None))
    assert not is_comparable(with_warp, replace(first.environment, warp="1.20.0"))


def test_an_update_that_finds_nothing_to_measure_needs_no_device() -> None:
    first = measure([program("read", "y.fill_(x[0].item())", "ok"), program("gone", "y.copy_(x)", "ok")])
    corrected = [program("read", "y.fill_(x[0].item())", "fails", hazard="CAP101")]
    found = probe_idioms(corrected, OpsOptions(device="cuda:99"), earlier=first)
    assert found.verdict == "agrees"
    assert [(record.id, record.expected, record.hazard) for record in found.records] == [("read", "fails", "CAP101")]
    assert found.environment == first.environment
