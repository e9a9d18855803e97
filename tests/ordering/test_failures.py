"""O24: every expected failure is an error with a code, a status, the facts, and an explicit way out."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capaudit.ordering import OrderingError
from capaudit.ordering import errors as errors_module
from tests.conftest import Outcome
from tests.ordering.robots import GO1_BODIES, GO1_BY_KIND, GO1_JOINTS, entry, write_run

Run = Callable[..., Outcome]
JOINTS = ",".join(GO1_JOINTS)
FIELDS = ("ArticulationCfg.joint_ordering", "ArticulationCfg.body_ordering", "ArticulationCfg.ordering_source_path")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def nothing(path: Path) -> None:
    path.unlink()


def renamed(path: Path) -> None:
    edit(path, "FL_hip_joint", "FL_hop_joint")


def deleted_entry(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    start = text.index('  "robot":')
    end = text.index('  "arm":')
    path.write_text(text[:start] + text[end:], encoding="utf-8")


def new_schema(path: Path) -> None:
    edit(path, "schema_version: 1", "schema_version: 2")


def duplicate(path: Path) -> None:
    edit(path, "schema_version: 1\n", "schema_version: 1\nschema_version: 1\n")


def no_yaml(path: Path) -> None:
    edit(path, "articulations:", "articulations: [")


def coerced(path: Path) -> None:
    edit(path, '"FL_hip_joint"', "on")


def rival(path: Path) -> None:
    write_run(path.parent / "other", robot=entry(GO1_BY_KIND)).rename(path.parent.parent / "model.ordering.yaml")


def keep(path: Path) -> None:
    assert path.exists()


CASES: dict[str, tuple[Callable[[Path], None], tuple[str, ...], int, str]] = {
    "no record": (nothing, ("--joints", JOINTS), 3, "no-record"),
    "no entry": (keep, ("--joints", JOINTS, "--articulation", "cart"), 3, "missing-entry"),
    "no entry named": (keep, ("--joints", JOINTS), 3, "missing-entry"),
    "digest": (renamed, ("--joints", JOINTS, "--articulation", "robot"), 4, "digest-mismatch"),
    "deleted entry": (deleted_entry, ("--joints", "a"), 4, "digest-mismatch"),
    "schema": (new_schema, ("--joints", JOINTS), 5, "schema-version"),
    "duplicate key": (duplicate, ("--joints", JOINTS), 4, "duplicate-key"),
    "invalid yaml": (no_yaml, ("--joints", JOINTS), 4, "invalid-yaml"),
    "coerced name": (coerced, ("--joints", JOINTS), 4, "bad-name"),
    "other joints": (keep, ("--joints", "a,b", "--articulation", "robot"), 6, "not-a-permutation"),
    "two records": (rival, ("--joints", JOINTS, "--articulation", "robot"), 7, "conflict"),
}


@pytest.mark.parametrize("name", CASES)
def test_o24_a_failure_has_its_status_its_code_and_the_same_facts_as_json(run: Run, tmp_path: Path, name: str) -> None:
    break_it, arguments, status, code = CASES[name]
    break_it(write_run(tmp_path, "model.pt", robot=entry(), arm=entry(("a",), ("b",))))
    command = ("ordering", "resolve", str(tmp_path / "model.pt"), *arguments)
    shown = run(*command)
    assert shown.status == status
    assert "Traceback" not in shown.err
    assert "internal error" not in shown.err
    assert any(field in shown.err for field in FIELDS)
    assert "explicit list" in shown.err or "spell" in shown.err
    as_data = run(*command, "--json")
    document = json.loads(as_data.out)
    assert (as_data.status, as_data.err) == (status, "")
    assert (document["status"], document["error"]["code"]) == (status, code)
    assert f"verdict: {document['verdict']}" in shown.out
    assert document["error"]["message"] in shown.err


def failure(run: Run, *arguments: str) -> dict[str, Any]:
    outcome = run("ordering", "resolve", *arguments, "--json")
    document = json.loads(outcome.out)["error"]
    assert isinstance(document, dict)
    return document


def test_o24_no_record_lists_every_probed_path(run: Run, tmp_path: Path) -> None:
    (tmp_path / "model.pt").touch()
    probed = failure(run, str(tmp_path / "model.pt"), "--joints", "a")["probed"]
    assert probed == [str(tmp_path / name) for name in ("params/ordering.yaml", "model.ordering.yaml", "ordering.yaml")]


def test_o24_a_digest_mismatch_shows_the_stored_and_the_computed_digest(run: Run, tmp_path: Path) -> None:
    path = write_run(tmp_path)
    stored = entry().digest("robot")
    renamed(path)
    joints = tuple(name.replace("FL_hip", "FL_hop") for name in GO1_JOINTS)
    found = failure(run, str(tmp_path), "--joints", "a")
    assert found["stored"] == stored
    assert found["computed"] == entry(joints).digest("robot")


def test_o24_not_a_permutation_is_exact_and_sorted(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path, robot=entry(("z", "a", "knee_left", "y"), ("base",)))
    found = failure(run, str(tmp_path), "--joints", "a,Knee_Left,c,b,x", "--backend", "newton")
    assert found["missing"] == ["Knee_Left", "b", "c", "x"]
    assert found["extra"] == ["knee_left", "y", "z"]
    assert (found["stored_count"], found["live_count"]) == (4, 5)
    assert (found["axis"], found["articulation"], found["backend"]) == ("joint", "robot", "newton")
    assert found["hints"] == ["stored 'knee_left' may be live 'Knee_Left' (upper and lower case)"]


@pytest.mark.parametrize(
    ("stored", "live", "hint"),
    [
        (("hip", "knee"), ("robot/hip", "robot/knee"), "the live names carry the prefix 'robot/'"),
        (("robot/hip", "robot/knee"), ("hip", "knee"), "the stored names carry the prefix 'robot/'"),
        (("knie_\u00e9", "b"), ("knie_e\u0301", "b"), "Unicode composition"),
        (("left_knee_joint", "b"), ("left_knee_jnt", "b"), "similar"),
        (("finger:0", "b"), ("finger_0", "c"), "':' for '_'"),
    ],
)
def test_o24_near_misses_are_pointed_out(run: Run, tmp_path: Path, stored: Any, live: Any, hint: str) -> None:
    write_run(tmp_path, robot=entry(stored, ("base",)))
    assert any(hint in text for text in failure(run, str(tmp_path), "--joints", ",".join(live))["hints"])


def test_o24_invalid_yaml_has_its_line(run: Run, tmp_path: Path) -> None:
    path = write_run(tmp_path)
    path.write_text("schema: x\na: [1\nb: }\n")
    found = failure(run, str(tmp_path), "--joints", "a")
    assert found["line"] == 3
    assert str(found["place"]).startswith(f"{path}:3")


def test_o24_a_usage_error_has_status_2(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path)
    assert run("ordering", "resolve", str(tmp_path)).status == 2
    assert run("ordering", "resolve", str(tmp_path), "--joints", "a,a", "--json").status == 2
    assert run("ordering", "nonsense").status == 2


def every_error() -> list[type[OrderingError]]:
    return [kind for kind in vars(errors_module).values() if isinstance(kind, type) and issubclass(kind, OrderingError)]


def test_o24_codes_are_unique_and_statuses_documented() -> None:
    kinds = every_error()
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert {kind.status for kind in kinds} == {2, 3, 4, 5, 6, 7}


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.code)
def test_o24_every_error_names_the_fields_and_survives_another_process(kind: type[OrderingError]) -> None:
    error = kind("what happened", place="here", remedy="do this", details={"a": [1]})
    assert all(field in str(error) for field in FIELDS)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.details) == (kind, str(error), {"a": [1]})


def test_o24_the_guide_explains_every_code() -> None:
    page = (Path(__file__).resolve().parents[2] / "rules" / "guides" / "ordering.md").read_text(encoding="utf-8")
    missing = [kind.code for kind in every_error() if kind is not OrderingError and f"`{kind.code}`" not in page]
    assert missing == []


def test_bodies_are_part_of_the_command_too(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path)
    bodies = ",".join(("world", *GO1_BODIES))
    found = failure(run, str(tmp_path), "--joints", JOINTS, "--bodies", bodies)
    assert (found["axis"], found["missing"]) == ("body", ["world"])
    assert "ArticulationCfg.body_ordering" in found["remedy"]
