"""The evidence schema: what loads, what does not, and where the error points."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capaudit import evidence
from capaudit.evidence import Environment, Event, Evidence, Record, SelfProof, StackFrame
from capaudit.model import InputError

SAMPLE = Evidence(
    kind="run",
    date="2026-01-02T03:04:05+00:00",
    environment=Environment(python="3.12.3", platform="Linux-x86_64", gpu="NVIDIA H200", torch="2.11.0+cu130"),
    target={"name": "mjwarp:humanoid", "worlds": 64},
    mode="trace",
    parameters={"steps": 3, "roots": ["mjlab"]},
    verdict="faults",
    self_proof=(SelfProof("synchronization", "x.item()", True),),
    events=(
        Event(
            root="mjlab",
            file="envs/env.py",
            line=12,
            function="step",
            kind="synchronization",
            hazard="CAP101",
            count=4,
            nodes={"kernel": 2},
            stack=(StackFrame("envs/env.py", 12, "step", root="mjlab"),),
        ),
    ),
    records=(Record("item", "torch.Tensor.item", "fails", expected="fails", hazard="CAP101", sync=True),),
)


def document() -> Any:
    return evidence.to_json(SAMPLE)


def test_a_document_survives_the_round_trip() -> None:
    assert evidence.loads(evidence.dumps(SAMPLE)) == SAMPLE


def test_defaults_are_left_out_of_the_file() -> None:
    assert document()["records"][0].keys() == {"id", "subject", "outcome", "expected", "hazard", "sync"}
    assert "warp" not in document()["environment"]


def test_each_record_has_a_line_of_its_own() -> None:
    more = replace(SAMPLE, records=(*SAMPLE.records, Record("tolist", "torch.Tensor.tolist", "fails")))
    lines = evidence.dumps(more).splitlines()
    assert sum('"subject"' in line for line in lines) == 2


def broken(path: str, value: object) -> Any:
    changed = document()
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place = changed
    for part in parents:
        place = place[part]
    place[last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("kind", "holiday", "$.kind"),
        ("verdict", "fine", "$.verdict"),
        ("date", "yesterday", "$.date"),
        ("date", "2026-01-02T03:04:05", "$.date"),
        ("surplus", 1, "$"),
        ("environment.gpu", 3, "$.environment.gpu"),
        ("events", {}, "$.events"),
        ("events.0.line", "12", "$.events[0].line"),
        ("events.0.line", True, "$.events[0].line"),
        ("events.0.line", -1, "$.events[0].line"),
        ("events.0.count", 0, "$.events[0].count"),
        ("events.0.nodes.kernel", -2, "$.events[0].nodes.kernel"),
        ("events.0.nodes.kernel", "2", "$.events[0].nodes.kernel"),
        ("events.0.hazard", "host-scalar-read", "$.events[0].hazard"),
        ("events.0.file", "/opt/mjlab/env.py", "$.events[0].file"),
        ("events.0.file", "C:\\mjlab\\env.py", "$.events[0].file"),
        ("events.0.stack.0.file", "../env.py", "$.events[0].stack[0].file"),
        ("records.0.hazard", "CAP1", "$.records[0].hazard"),
        ("records.0.values", {"seconds": [1]}, "$.records[0].values.seconds"),
        ("self_proof.0.seen", 1, "$.self_proof[0].seen"),
        ("self_proof.0", "item", "$.self_proof[0]"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(path: str, value: object, where: str) -> None:
    with pytest.raises(InputError) as caught:
        evidence.from_json(broken(path, value), "run.json")
    assert caught.value.place == f"run.json: {where}"


def test_a_missing_key_is_named() -> None:
    changed = document()
    del changed["environment"]["python"]
    with pytest.raises(InputError, match="'python' is missing"):
        evidence.from_json(changed)


def test_an_identifier_is_used_once() -> None:
    with pytest.raises(InputError, match="used before"):
        evidence.dumps(replace(SAMPLE, records=SAMPLE.records * 2))


@pytest.mark.parametrize("foreign", ["[]", "3", '{"version": "2.1.0", "runs": []}', '{"schema": "other/1"}'])
def test_a_foreign_document_is_refused(foreign: str) -> None:
    with pytest.raises(InputError, match="no evidence document"):
        evidence.loads(foreign)


def test_every_truncation_is_refused() -> None:
    text = evidence.dumps(SAMPLE).rstrip()
    for length in range(len(text)):
        with pytest.raises(InputError):
            evidence.loads(text[:length])


def test_a_truncated_file_says_so_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text(evidence.dumps(SAMPLE)[:200])
    with pytest.raises(InputError, match="cut short") as caught:
        evidence.load(path)
    assert caught.value.place is not None
    assert caught.value.place.startswith(f"{path}:")


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"{'schema': 1}", b"[" * 200_000, b'{"schema": "capaudit-evidence/1", "x": NaN}']
)
def test_what_is_not_json_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(InputError):
        evidence.load(path)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        evidence.load(tmp_path / "none.json")


def test_writing_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run.json"
    evidence.write(replace(SAMPLE, verdict="clean"), path)
    evidence.write(SAMPLE, path)
    assert evidence.load(path) == SAMPLE
    assert [entry.name for entry in path.parent.iterdir()] == ["run.json"]
    assert json.loads(path.read_text())["schema"] == evidence.SCHEMA


def test_invalid_evidence_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    evidence.write(SAMPLE, path)
    with pytest.raises(InputError):
        evidence.write(replace(SAMPLE, date="soon"), path)
    assert evidence.load(path) == SAMPLE


def test_an_unwritable_place_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        evidence.write(SAMPLE, tmp_path / "file" / "run.json")


def test_a_folder_loads_in_name_order(tmp_path: Path) -> None:
    for name in ("b.json", "a.json"):
        evidence.write(SAMPLE, tmp_path / name)
    (tmp_path / "notes.txt").write_text("not evidence")
    assert [name for name, _ in evidence.load_folder(tmp_path)] == ["a.json", "b.json"]


def test_a_record_is_found_by_its_identifier() -> None:
    assert SAMPLE.record("item") is SAMPLE.records[0]
    assert SAMPLE.record("other") is None
