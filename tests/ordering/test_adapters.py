"""O13: where a record comes from. Real packages where pip can install them, stand-ins of public names elsewhere."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capaudit.ordering import (
    ConflictError,
    CorruptRecordError,
    LiveNamesError,
    MissingEntryError,
    NoRecordError,
    OrderingUsageError,
    entries_of,
    from_onnx,
    from_run_config,
    from_run_folder,
    install_recorder,
    load_record,
)
from tests.conftest import Outcome
from tests.ordering.robots import G1_BREADTH_FIRST, G1_DEPTH_FIRST, GO1_BODIES, GO1_JOINTS

Run = Callable[..., Outcome]

ARM = """
<mujoco model="arm">
  <worldbody>
    <body name="base">
      <freejoint name="root"/>
      <geom size=".1"/>
      <body name="upper"><joint name="shoulder" axis="0 1 0"/><geom size=".1"/>
        <body name="lower"><joint name="elbow" axis="0 1 0"/><joint name="wrist" type="ball"/><geom size=".1"/></body>
      </body>
    </body>
    <body name="cart"><joint name="slide" type="slide"/><geom size=".1"/></body>
  </worldbody>
  <actuator><motor name="m_elbow" joint="elbow"/><motor name="m_shoulder" joint="shoulder"/></actuator>
</mujoco>
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its log into the working directory."""
    monkeypatch.chdir(tmp_path)


# -- Isaac Lab ----------------------------------------------------------------------------------------------------


def articulation(**changes: Any) -> SimpleNamespace:
    values = {
        "joint_names": list(G1_BREADTH_FIRST),
        "body_names": ["pelvis", "torso"],
        "backend_joint_names": list(G1_DEPTH_FIRST),
        "backend_body_names": ["pelvis", "torso"],
        "is_fixed_base": False,
        "is_initialized": True,
        "cfg": SimpleNamespace(joint_ordering="PhysX", body_ordering=None),
        **changes,
    }
    return SimpleNamespace(**values)


def test_o13_isaac_lab_records_every_articulation_of_the_scene(tmp_path: Path) -> None:
    wheel = type("Articulation", (SimpleNamespace,), {"__module__": "isaaclab_newton.assets.articulation"})
    scene = SimpleNamespace(articulations={"robot": wheel(**vars(articulation())), "cabinet": articulation()})
    wrapped = SimpleNamespace(unwrapped=SimpleNamespace(scene=scene))
    outcome = install_recorder(wrapped, tmp_path, task="Isaac-Velocity-G1")
    record = load_record(tmp_path / "params" / "ordering.yaml")
    assert outcome.action == "written"
    assert record.articulations.keys() == {"robot", "cabinet"}
    robot = record.articulations["robot"]
    assert (robot.backend, robot.joint_ordering, robot.body_ordering) == ("newton", "PhysX", None)
    assert (robot.public_joint_names, robot.backend_joint_names) == (G1_BREADTH_FIRST, G1_DEPTH_FIRST)
    assert record.provenance["task"] == "Isaac-Velocity-G1"


def test_o13_isaac_lab_before_ordering_existed_has_the_backend_s_order() -> None:
    old = articulation(cfg=SimpleNamespace())
    del old.backend_joint_names, old.backend_body_names
    found = entries_of(SimpleNamespace(scene=SimpleNamespace(articulations={"robot": old})))["robot"]
    assert found.public_joint_names == found.backend_joint_names == G1_BREADTH_FIRST
    assert (found.backend, found.joint_ordering) == ("physx", None)


def test_o13_an_environment_that_nobody_knows_is_refused() -> None:
    with pytest.raises(OrderingUsageError, match="shows none of"):
        entries_of(object())


# -- UniLab -------------------------------------------------------------------------------------------------------


class UniLabEntity:
    """UniLab raises where a namespace was not declared."""

    joint_names = GO1_JOINTS
    actuator_names = tuple(reversed(GO1_JOINTS))

    @property
    def body_names(self) -> tuple[str, ...]:
        raise RuntimeError("the namespace was not declared in EntityCfg")


def test_o13_unilab_records_what_its_entities_declare() -> None:
    env = SimpleNamespace(scene=SimpleNamespace(entities={"robot": UniLabEntity()}), sim_backend="motrix")
    found = entries_of(env)["robot"]
    assert found.backend == "motrix"
    assert found.public_joint_names == GO1_JOINTS
    assert found.public_body_names == ()
    assert found.actuator_names == tuple(reversed(GO1_JOINTS))


def test_o13_unilab_s_run_config_is_a_derived_source(run: Run, tmp_path: Path) -> None:
    robot = {"joint_names": list(GO1_JOINTS), "actuator_names": list(GO1_JOINTS), "root_body_name": "trunk"}
    config = {"training": {"sim_backend": "mujoco"}, "env": {"scene": {"entities": {"robot": robot}}}}
    (tmp_path / "run_config.json").write_text(json.dumps({"run": {}, "config": config, "contract_snapshot": {}}))
    source = from_run_config(tmp_path / "run_config.json")
    assert (source.kind, source.signed) == ("derived", False)
    assert source.articulations["robot"].joint_names == GO1_JOINTS
    assert run("ordering", "record", "--from", str(tmp_path)).status == 0
    record = load_record(tmp_path / "params" / "ordering.yaml")
    assert record.is_derived
    assert record.articulations["robot"].backend == "mujoco"
    assert run("ordering", "verify", str(tmp_path), "--against", str(tmp_path / "run_config.json")).status == 0


def test_o13_a_run_config_without_entities_or_json_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run_config.json"
    path.write_text(json.dumps({"config": {"env": {}}}))
    with pytest.raises(MissingEntryError, match="holds no joint names"):
        from_run_config(path)
    path.write_text("{")
    with pytest.raises(CorruptRecordError, match="not valid JSON"):
        from_run_config(path)


# -- exported policies and descriptors ------------------------------------------------------------------------------


def protobuf(*fields: tuple[int, bytes]) -> bytes:
    def varint(value: int) -> bytes:
        out = b""
        while value > 0x7F:
            out += bytes([value & 0x7F | 0x80])
            value >>= 7
        return out + bytes([value])

    return b"".join(varint(number << 3 | 2) + varint(len(data)) + data for number, data in fields)


def onnx_model(**metadata: str) -> bytes:
    pairs = [(14, protobuf((1, key.encode()), (2, value.encode()))) for key, value in metadata.items()]
    return b"\x08\x08" + protobuf((7, b"\x12\x34" * 200)) + protobuf(*pairs) + b"\x1d" + struct.pack("<f", 1.0)


def test_o13_an_onnx_policy_of_mjlab_carries_its_joint_names(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    path.write_bytes(onnx_model(run_path="x", joint_names=",".join(GO1_JOINTS), joint_stiffness="1.0,2.0"))
    source = from_onnx(path)
    assert source.articulations["robot"].joint_names == GO1_JOINTS
    assert source.articulations["robot"].body_names is None
    assert from_run_folder(tmp_path).articulations == source.articulations


def test_o13_the_onnx_package_agrees_on_what_is_in_the_metadata(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.helper.make_model(onnx.helper.make_graph([], "empty", [], []))
    onnx.helper.set_model_props(model, {"joint_names": ",".join(GO1_JOINTS)})
    onnx.save(model, tmp_path / "policy.onnx")
    assert from_onnx(tmp_path / "policy.onnx").articulations["robot"].joint_names == GO1_JOINTS


@pytest.mark.parametrize("data", [b"PK\x03\x04 a zip", b"\xff" * 40, b"\x72\xff"])
def test_o13_a_file_that_is_no_onnx_model_says_so(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "policy.onnx").write_bytes(data)
    with pytest.raises((CorruptRecordError, MissingEntryError)):
        from_onnx(tmp_path / "policy.onnx")


def test_o13_two_policies_of_one_run_that_differ_are_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(onnx_model(joint_names="a,b"))
    (tmp_path / "b.onnx").write_bytes(onnx_model(joint_names="b,a"))
    with pytest.raises(ConflictError):
        from_run_folder(tmp_path)


def test_o13_isaac_lab_s_io_descriptors_are_a_derived_source(tmp_path: Path) -> None:
    folder = tmp_path / "io_descriptors"
    folder.mkdir()
    (folder / "IO_descriptors.yaml").write_text("articulations:\n  robot:\n    joint_names: [a, b]\n")
    assert from_run_folder(tmp_path).articulations["robot"].joint_names == ("a", "b")


def test_o13_a_run_folder_without_anything_lists_what_was_looked_at(run: Run, tmp_path: Path) -> None:
    outcome = run("ordering", "record", "--from", str(tmp_path))
    assert outcome.status == 3
    assert "run_config.json" in outcome.err
    with pytest.raises(NoRecordError):
        from_run_folder(tmp_path)


# -- Newton -------------------------------------------------------------------------------------------------------


def test_o13_a_newton_view_is_recorded_by_degrees_of_freedom() -> None:
    view = SimpleNamespace(
        joint_dof_names=["hip", "wrist:0", "wrist:1"], link_names=["base", "hand"], is_fixed_base=True
    )
    found = entries_of(view)["robot"]
    assert found.public_joint_names == ("hip", "wrist:0", "wrist:1")
    assert (found.backend, found.is_fixed_base) == ("newton", True)
    with pytest.raises(OrderingUsageError, match="differ"):
        entries_of(SimpleNamespace(joint_dof_names=None, link_names=None))


def test_o13_a_real_newton_view_has_these_names() -> None:
    newton = pytest.importorskip("newton", reason="newton is not installed")
    builder = newton.ModelBuilder()
    builder.add_mjcf(ARM, floating=True)
    view = newton.selection.ArticulationView(
        builder.finalize(device="cpu"), "*", exclude_joint_types=[newton.JointType.FREE]
    )
    assert entries_of(view)["robot"].public_joint_names


# -- MuJoCo -------------------------------------------------------------------------------------------------------


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    path = tmp_path / "arm.xml"
    path.write_text(ARM)
    return path


def test_o13_a_mujoco_model_has_joints_bodies_and_actuators_apart(arm: Path, run: Run, tmp_path: Path) -> None:
    assert run("ordering", "record", "--from", str(arm), "--run-dir", str(tmp_path / "run")).status == 0
    found = load_record(tmp_path / "run" / "params" / "ordering.yaml").articulations["robot"]
    assert found.public_joint_names == ("shoulder", "elbow", "wrist", "slide")  # the free joint is left out
    assert found.public_body_names == ("base", "upper", "lower", "cart")  # and so is the world
    assert found.actuator_names == ("m_elbow", "m_shoulder")
    assert found.is_fixed_base is False


def test_o13_a_root_keeps_one_robot_of_a_scene(arm: Path, run: Run, tmp_path: Path) -> None:
    outcome = run("ordering", "record", "--from", str(arm), "--root", "cart", "--articulation", "cart", "--json")
    found = json.loads(outcome.out)["articulations"]["cart"]
    assert (found["public_joint_names"], found["public_body_names"]) == (["slide"], ["cart"])
    assert (found["is_fixed_base"], found["actuator_names"]) == (True, [])
    assert run("ordering", "record", "--from", str(arm), "--root", "tail").status == 2


def test_o13_a_model_in_memory_is_recorded_too(arm: Path) -> None:
    import mujoco

    from capaudit.ordering.adapters.mujoco import actuated_joints, entries

    model = mujoco.MjModel.from_xml_path(str(arm))
    assert entries_of(SimpleNamespace(unwrapped=SimpleNamespace(model=model))) == entries_of(model)
    assert entries(model, include_world=True)["robot"].public_body_names[0] == "world"
    assert actuated_joints(model) == ["elbow", "shoulder"]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('name="elbow" axis', "axis", "joint 2 of the model has no name"),
        ('<body name="lower">', "<body>", "body 3 of the model has no name"),
    ],
)
def test_o13_an_unnamed_element_is_an_error_with_its_index(arm: Path, old: str, new: str, what: str) -> None:
    import mujoco

    text = ARM.replace('<motor name="m_elbow" joint="elbow"/>', "") if "elbow" in old and "axis" in old else ARM
    assert old in text
    with pytest.raises(LiveNamesError, match=what):
        entries_of(mujoco.MjModel.from_xml_string(text.replace(old, new)))


def test_o13_nameless_actuators_leave_their_axis_out_and_the_joints_are_recorded(arm: Path) -> None:
    import mujoco

    found = entries_of(mujoco.MjModel.from_xml_string(ARM.replace('name="m_elbow" ', "")))["robot"]
    assert found.actuator_names is None
    assert found.public_joint_names == ("shoulder", "elbow", "wrist", "slide")


def test_o13_a_model_that_mujoco_refuses_is_one_clear_error(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    path = tmp_path / "broken.xml"
    path.write_text("<mujoco><worldbody><body/></mujoco>")
    outcome = run("ordering", "record", "--from", str(path))
    assert outcome.status == 2
    assert "cannot compile" in outcome.err
    assert run("ordering", "record", "--from", str(tmp_path / "none.xml")).status == 3


# -- mjlab --------------------------------------------------------------------------------------------------------


def test_o13_mjlab_records_its_articulated_entities_in_model_order() -> None:
    pytest.importorskip("mjlab", reason="mjlab is not installed")
    import mujoco
    from mjlab.asset_zoo.robots.unitree_g1.g1_constants import get_g1_robot_cfg
    from mjlab.entity import Entity

    entity = Entity(get_g1_robot_cfg())
    ball = SimpleNamespace(is_articulated=False)
    found = entries_of(SimpleNamespace(scene=SimpleNamespace(entities={"robot": entity, "ball": ball})))
    assert found.keys() == {"robot"}
    model = entity.compile()
    named = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, joint) for joint in range(model.njnt)]
    assert found["robot"].public_joint_names == tuple(named[1:]) == G1_DEPTH_FIRST
    actuators = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_ACTUATOR, index) for index in range(model.nu)]
    assert found["robot"].actuator_names == tuple(actuators) != G1_DEPTH_FIRST


# -- by hand ------------------------------------------------------------------------------------------------------


def test_o13_explicit_json_is_recorded(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    entry = {
        "backend": "physx",
        "joint_names": list(GO1_JOINTS),
        "body_names": list(GO1_BODIES),
        "is_fixed_base": False,
    }
    path.write_text(json.dumps({"robot": entry}))
    assert run("ordering", "record", "--from", str(path), "--output", str(tmp_path / "o.yaml")).status == 0
    assert load_record(tmp_path / "o.yaml").articulations["robot"].public_joint_names == GO1_JOINTS


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('["a", "b"]', 2),  # no backend
        ('{"robot": {"joint_names": ["a"], "backend": "x", "jointnames": []}}', 4),
        ('{"robot": {"joint_names": ["a", 1], "backend": "x"}}', 4),
        ('{"robot": {"joint_names": ["a"], "joint_names": ["b"], "backend": "x"}}', 4),
        ('{"robot": {"joint_names": "a", "backend": "x"}}', 4),
        ("{}", 4),
        ("[", 4),
    ],
)
def test_o13_explicit_json_that_is_wrong_says_why(run: Run, tmp_path: Path, text: str, status: int) -> None:
    path = tmp_path / "order.json"
    path.write_text(text)
    outcome = run("ordering", "record", "--from", str(path), "--output", str(tmp_path / "o.yaml"))
    assert (outcome.status, "internal error" in outcome.err) == (status, False)
    assert not (tmp_path / "o.yaml").exists()


def test_o13_a_live_environment_comes_from_a_factory(run: Run, folder: Path) -> None:
    (folder / "my_factory.py").write_text(
        "from types import SimpleNamespace as S\n"
        "def make():\n"
        "    a = S(joint_names=['a', 'b'], body_names=['base'], is_fixed_base=True, is_initialized=True)\n"
        "    return S(unwrapped=S(scene=S(articulations={'robot': a})))\n"
        "def broken():\n"
        "    raise RuntimeError('no device')\n"
    )
    assert run("ordering", "record", "--from-env", "my_factory:make", "--run-dir", "run").status == 0
    assert load_record("run/params/ordering.yaml").articulations["robot"].public_joint_names == ("a", "b")
    assert run("ordering", "resolve", "run", "--from-env", "my_factory:make").status == 0
    assert run("ordering", "verify", "run", "--from-env", "my_factory:make").status == 0
    for reference in ("my_factory:broken", "my_factory:nothing", "no_such_module:make", "my_factory"):
        outcome = run("ordering", "record", "--from-env", reference)
        assert (outcome.status, "internal error" in outcome.err) == (2, False)
