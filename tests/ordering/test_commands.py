"""``capaudit ordering`` as a person and a program use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.conftest import Outcome
from tests.ordering.robots import GO1_BY_KIND, GO1_JOINTS, entry, write_run
from tests.ordering.test_leapp import BODY_POS, JOINT_POS, WRITE, artifact, tensor, write

Run = Callable[..., Outcome]


def test_resolve_prints_verdict_arrays_and_direction(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path, "model.pt")
    outcome = run("ordering", "resolve", str(tmp_path / "model.pt"), "--joints", ",".join(GO1_BY_KIND))
    assert outcome.status == 0
    assert "verdict: permutation" in outcome.out
    # Facts: FL is leg 0, and its thigh is the fifth joint when joints are grouped by kind.
    assert "user_to_backend: [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]" in outcome.out
    assert "backend_to_user: [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]" in outcome.out
    assert "public = backend[..., user_to_backend]" in outcome.out
    document = json.loads(run("ordering", "resolve", str(tmp_path), "--joints", ",".join(GO1_BY_KIND), "--json").out)
    assert document["joint"]["user_to_backend"] == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
    assert document["body"] is None
    assert document["source"]["signed"] is True


def test_resolve_takes_another_record_as_the_live_side(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    path = write_run(tmp_path / "b", robot=entry(GO1_JOINTS, backend_joint_names=GO1_BY_KIND))
    outcome = run("ordering", "resolve", str(tmp_path / "a"), "--live", str(path))
    assert (outcome.status, "joint: permutation" in outcome.out, "body: identity" in outcome.out) == (0, True, True)


def test_show_is_a_table_of_both_places(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path, robot=entry(("b", "a\u2028"), ("base",), backend_joint_names=("a\u2028", "b")))
    shown = run("ordering", "show", str(tmp_path))
    assert shown.status == 0
    assert "     0        1  b *" in shown.out
    assert "     1        0  'a\\u2028' *" in shown.out  # what could mislead on a terminal is escaped
    assert "(checked)" in shown.out
    fields = json.loads(run("ordering", "show", str(tmp_path), "--json").out)["articulations"]["robot"]
    assert fields["public_joint_names"] == ["b", "a\u2028"]


def test_verify_alone_checks_the_digests(run: Run, tmp_path: Path) -> None:
    path = write_run(tmp_path)
    assert run("ordering", "verify", str(tmp_path)).status == 0
    path.write_text(path.read_text().replace("physx", "newton"))
    assert run("ordering", "verify", str(tmp_path)).status == 4


@pytest.mark.parametrize(
    ("joints", "status", "verdict"),
    [(GO1_JOINTS, 0, "equal"), (GO1_BY_KIND, 7, "conflict"), ((*GO1_JOINTS, "tail"), 6, "not-a-permutation")],
)
def test_verify_compares_two_records(
    run: Run, tmp_path: Path, joints: tuple[str, ...], status: int, verdict: str
) -> None:
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", robot=entry(joints, backend="newton"))
    outcome = run("ordering", "verify", str(tmp_path / "a"), "--against", str(tmp_path / "b"), "--json")
    assert (outcome.status, json.loads(outcome.out)["verdict"]) == (status, verdict)


def test_verify_compares_with_a_leapp_file(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    path = write(tmp_path, artifact(JOINT_POS, BODY_POS, outputs=(WRITE,)))
    assert run("ordering", "verify", str(tmp_path / "run"), "--leapp", str(path)).status == 0
    other = write(tmp_path, artifact(tensor("state:robot:joint_pos", [list(GO1_BY_KIND)], [12])), "other.yaml")
    assert run("ordering", "verify", str(tmp_path / "run"), "--leapp", str(other)).status == 7
    assert run("ordering", "verify", str(tmp_path / "run"), "--leapp", str(tmp_path / "none.yaml")).status == 3


def test_record_without_a_place_prints_the_record(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text(json.dumps({"joint_names": ["a", "b"], "body_names": ["c"], "backend": "x"}))
    outcome = run("ordering", "record", "--from", str(path))
    assert yaml.safe_load(outcome.out)["articulations"]["robot"]["public_joint_names"] == ["a", "b"]
    assert sorted(tmp_path.iterdir()) == [path]


def test_recording_twice_is_unchanged_and_another_order_a_conflict(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text(json.dumps({"joint_names": ["a", "b"], "backend": "x"}))
    command = ("ordering", "record", "--from", str(path), "--run-dir", str(tmp_path / "run"))
    assert run(*command).out.startswith("written")
    assert run(*command).out.startswith("unchanged")
    path.write_text(json.dumps({"joint_names": ["b", "a"], "backend": "x"}))
    outcome = run(*command, "--json")
    assert (outcome.status, json.loads(outcome.out)["error"]["code"]) == (7, "write-conflict")


def test_resuming_is_checked_on_the_command_line_too(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path / "old", "model.pt", robot=entry(("b", "a"), ()))
    path = tmp_path / "order.json"
    path.write_text(json.dumps({"joint_names": ["a", "b"], "backend": "x"}))
    outcome = run(
        *("ordering", "record", "--from", str(path), "--run-dir", str(tmp_path / "new")),
        *("--resumed-from", str(tmp_path / "old" / "model.pt")),
    )
    assert outcome.status == 7
    assert not (tmp_path / "new").exists()


def test_the_guide_is_a_page(run: Run) -> None:
    outcome = run("explain", "ordering")
    assert outcome.status == 0
    for part in ("Two minutes", "install_recorder", "When it stops you", "LEAPP and the record", "applies_to"):
        assert part in outcome.out


def test_the_python_of_the_guide_is_valid() -> None:
    import re

    page = (Path(__file__).resolve().parents[2] / "rules" / "guides" / "ordering.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        compile(block, "ordering.md", "exec")


def test_resuming_is_checked_where_the_record_is_only_printed(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path / "old", robot=entry(("a", "b"), ("base",)))
    (tmp_path / "live.json").write_text(
        json.dumps({"backend": "newton", "joint_names": ["b", "a"], "body_names": ["base"]}), encoding="utf-8"
    )
    arguments = ("ordering", "record", "--from", str(tmp_path / "live.json"), "--resumed-from", str(tmp_path / "old"))
    outcome = run(*arguments)
    assert outcome.status == 7
    assert "schema" not in outcome.out


def test_o24_names_that_differ_propose_every_field_that_decides(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path, robot=entry(("a", "b"), ("base",)))
    outcome = run("ordering", "resolve", str(tmp_path), "--joints", "a,c")
    assert outcome.status == 6
    for field in ("joint_ordering", "body_ordering", "ordering_source_path"):
        assert f"ArticulationCfg.{field}" in outcome.err


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("joint_names", ["a", 3], "joint_names[1]"),
        ("joint_names", ["a", None], "joint_names[1]"),
        ("body_names", ["base", "base"], "body_names[1]"),
        ("actuator_names", "ab", "actuator_names"),
        ("backend_joint_names", ["a", "c"], "not a permutation"),
        ("is_fixed_base", "no", "is_fixed_base"),
        ("configured", "physx", "configured"),
    ],
)
@pytest.mark.parametrize("command", [("record", "--from"), ("show",)])
def test_o5_explicit_json_is_checked_as_strictly_as_a_record(
    run: Run, tmp_path: Path, command: tuple[str, ...], field: str, value: object, said: str
) -> None:
    entry = {"backend": "physx", "joint_names": ["a", "b"], "body_names": ["base", "l"], field: value}
    path = tmp_path / "orders.json"
    path.write_text(json.dumps({"robot": entry}), encoding="utf-8")
    outcome = run("ordering", *command, str(path))
    assert outcome.status == 4
    assert said in outcome.err
    assert "'robot'" in outcome.err


def test_o12_the_command_warns_in_one_line_when_it_writes_among_checkpoints(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    path.write_text(json.dumps({"backend": "physx", "joint_names": ["a"]}), encoding="utf-8")
    target = tmp_path / "nn" / "ordering.yaml"
    outcome = run("ordering", "record", "--from", str(path), "--output", str(target), "--allow-checkpoint-folder")
    assert outcome.status == 0
    assert target.is_file()
    assert outcome.err.startswith("capaudit: warning: ")
    assert len(outcome.err.splitlines()) == 1
