"""O26 and O27: LEAPP artifacts."""

from __future__ import annotations

import hashlib
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from capaudit.ordering import (
    LeappConflictError,
    LeappIncompleteError,
    LeappVersionError,
    NotLeappError,
    compare_sources,
    from_checkpoint,
    load_leapp,
    load_source,
)
from tests.ordering.robots import GO1_BODIES, GO1_BY_KIND, GO1_JOINTS, entry, write_run


def tensor(connection: str, element_names: Any, shape: Any) -> dict[str, Any]:
    return {
        "name": connection.replace(":", "_"),
        "dtype": "float32",
        "shape": shape,
        "type": "tensor",
        "element_names": element_names,
        "isaaclab_connection": connection,
    }


def artifact(*inputs: dict[str, Any], outputs: tuple[dict[str, Any], ...] = (), version: Any = "1.3") -> dict[str, Any]:
    return {
        "models": {"policy": {"inputs": list(inputs), "outputs": list(outputs), "parameters": {"backend": "jit"}}},
        "pipeline": {"inputs": {"policy": []}, "outputs": {}},
        "system information": {"leapp version": "0.6.0", "leapp config version": version},
    }


JOINT_POS = tensor("state:robot:joint_pos", [list(GO1_JOINTS)], [12])
BODY_POS = tensor("state:robot:body_pos_w", [list(GO1_BODIES), ["x", "y", "z"]], [13, 3])
WRITE = tensor("write:robot:set_joint_position_target_index", [list(GO1_JOINTS[3:6])], [3])


def write(folder: Path, document: Any, name: str = "policy.yaml") -> Path:
    path = folder / name
    path.write_text(yaml.dump(document, sort_keys=False), encoding="utf-8")
    return path


def test_o26_a_leapp_file_is_a_source_of_joints_and_bodies_and_unsigned(tmp_path: Path) -> None:
    path = write(tmp_path, artifact(JOINT_POS, BODY_POS, outputs=(WRITE,)))
    source = load_source(path)
    assert source.kind == "leapp"
    assert source.articulations["robot"].joint_names == GO1_JOINTS
    assert source.articulations["robot"].body_names == GO1_BODIES
    assert source.signed is False
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    resolution = from_checkpoint(path, joint_names=GO1_BY_KIND, body_names=GO1_BODIES)
    assert resolution.joint is not None
    assert resolution.joint.names == GO1_JOINTS


@pytest.mark.parametrize(
    ("element_names", "shape"),
    [
        ([list(GO1_JOINTS)], [12]),
        (list(GO1_JOINTS), [12]),
        ([None, list(GO1_JOINTS)], [1, 12]),
        (["__temporal_axis__", list(GO1_JOINTS)], [4, 12]),
        ([list(GO1_JOINTS)], "[1, 12]"),
        ([list(GO1_JOINTS)], "(12,)"),
    ],
)
def test_o26_every_form_of_names_and_shapes_is_read(tmp_path: Path, element_names: Any, shape: Any) -> None:
    path = write(tmp_path, artifact(tensor("state:robot:joint_pos", element_names, shape)))
    assert load_leapp(path).articulations["robot"].joint_names == GO1_JOINTS


def test_o26_the_same_list_may_stand_there_by_alias(tmp_path: Path) -> None:
    shared = [list(GO1_JOINTS)]
    path = write(
        tmp_path, artifact(tensor("state:robot:joint_pos", shared, [12]), tensor("state:robot:joint_vel", shared, [12]))
    )
    assert "&id" in path.read_text()
    assert load_leapp(path).articulations["robot"].joint_names == GO1_JOINTS


@pytest.mark.parametrize(
    "useless",
    [
        WRITE,
        tensor("state:robot:joint_pos", [list(GO1_JOINTS[:3])], [12]),
        tensor("state:robot:joint_pos", ["__temporal_axis__"], [12]),
        tensor("state:robot:joint_pos", None, [12]),
        tensor("state:robot:projected_gravity_b", [["x", "y", "z"]], [3]),
        tensor("command:velocity", [["vx", "vy", "wz"]], [3]),
    ],
)
def test_o26_without_a_complete_tensor_there_is_no_order(tmp_path: Path, useless: dict[str, Any]) -> None:
    with pytest.raises(LeappIncompleteError) as caught:
        load_leapp(write(tmp_path, artifact(useless)))
    assert (caught.value.code, caught.value.status) == ("leapp-incomplete", 3)


def test_o26_two_tensors_that_disagree_are_a_conflict(tmp_path: Path) -> None:
    with pytest.raises(LeappConflictError, match="different joint orders") as caught:
        load_leapp(write(tmp_path, artifact(JOINT_POS, tensor("state:robot:joint_vel", [list(GO1_BY_KIND)], [12]))))
    assert (caught.value.code, caught.value.status) == ("leapp-conflict", 7)


@pytest.mark.parametrize("version", ["2.0", "1.2", None, 7])
def test_o26_an_unsupported_version_says_which_are(tmp_path: Path, version: Any) -> None:
    with pytest.raises(LeappVersionError, match=r"supported: 1\.3") as caught:
        load_leapp(write(tmp_path, artifact(JOINT_POS, version=version)))
    assert (caught.value.code, caught.value.status) == ("leapp-version", 5)


@pytest.mark.parametrize("key", ["models", "pipeline", "system information"])
def test_o26_what_lacks_a_top_key_is_no_leapp_file(tmp_path: Path, key: str) -> None:
    document = deepcopy(artifact(JOINT_POS))
    del document[key]
    with pytest.raises(NotLeappError, match=key) as caught:
        load_leapp(write(tmp_path, document))
    assert (caught.value.code, caught.value.status) == ("not-leapp", 4)
    with pytest.raises(NotLeappError):
        load_leapp(write(tmp_path, ["a"]))


def test_o26_a_number_as_the_version_reads_like_its_text(tmp_path: Path) -> None:
    assert load_leapp(write(tmp_path, artifact(JOINT_POS, version=1.3))).articulations


def test_o27_full_tensors_are_compared_for_equality_and_selections_for_membership(tmp_path: Path) -> None:
    record = load_source(write_run(tmp_path / "run"))
    fitting = load_leapp(write(tmp_path, artifact(JOINT_POS, BODY_POS, outputs=(WRITE,))))
    assert {(item.axis, item.verdict) for item in compare_sources(record, fitting)} == {
        ("joint", "equal"),
        ("body", "equal"),
        ("joint", "selected"),
    }
    permuted = load_leapp(write(tmp_path, artifact(tensor("state:robot:joint_pos", [list(GO1_BY_KIND)], [12]))))
    assert [item.verdict for item in compare_sources(record, permuted)] == ["permuted"]
    foreign = tensor("write:robot:set_joint_effort_target_index", [["FL_hip_joint", "tail"]], [2])
    found = compare_sources(record, load_leapp(write(tmp_path, artifact(JOINT_POS, outputs=(foreign,)))))
    assert [item.extra for item in found if item.verdict == "unknown-names"] == [("tail",)]


def test_o27_spellings_of_degrees_of_freedom_do_not_count(tmp_path: Path) -> None:
    record = load_source(write_run(tmp_path / "run", robot=entry(("w_0", "w_1"), ("base",))))
    leapp = load_leapp(
        write(
            tmp_path,
            artifact(
                tensor("state:robot:joint_pos", [["w:0", "w:1"]], [2]),
                outputs=(tensor("write:robot:set_joint_x", [["w:1"]], [1]),),
            ),
        )
    )
    assert all(item.agrees for item in compare_sources(record, leapp))


@pytest.mark.parametrize("shape", ["[batch, 12]", ["batch", 12], "(-1, 12)", "torch.Size([1, 12])", 12, "12"])
def test_o26_a_shape_in_any_form_tells_whole_axes_from_parts(tmp_path: Path, shape: Any) -> None:
    whole = tensor(
        "state:robot:joint_pos", [None, list(GO1_JOINTS)] if shape not in (12, "12") else [GO1_JOINTS], shape
    )
    whole["element_names"] = [list(axis) if axis else None for axis in whole["element_names"]]
    assert load_leapp(write(tmp_path, artifact(whole))).articulations["robot"].joint_names == GO1_JOINTS
    part = {**whole, "element_names": [list(axis[:5]) if axis else None for axis in whole["element_names"]]}
    with pytest.raises(LeappIncompleteError):
        load_leapp(write(tmp_path, artifact(part), "part.yaml"))


def test_o26_the_temporal_axis_may_stand_in_a_list_of_its_own(tmp_path: Path) -> None:
    history = tensor("state:robot:joint_pos", [["__temporal_axis__"], list(GO1_JOINTS)], [1, 12])
    assert load_leapp(write(tmp_path, artifact(history))).articulations["robot"].joint_names == GO1_JOINTS


@pytest.mark.parametrize("key", ["models", "pipeline", "system information"])
def test_o26_a_file_that_lacks_one_top_key_is_a_broken_leapp_file_wherever_it_is_read(tmp_path: Path, key: str) -> None:
    document = {name: value for name, value in artifact(JOINT_POS).items() if name != key}
    with pytest.raises(NotLeappError, match=key):
        load_source(write(tmp_path, document))
