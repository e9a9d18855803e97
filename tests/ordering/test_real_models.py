"""Round trips on real models: values, joint by joint, through both index arrays."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from capaudit.ordering import from_checkpoint, record_entries

mujoco: Any = pytest.importorskip("mujoco", reason="mujoco is not installed")
np: Any = pytest.importorskip("numpy", reason="numpy is not installed")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its log into the working directory."""
    monkeypatch.chdir(tmp_path)


def reversed_copy(text: str) -> str:
    """The same model with the children of every body in opposite order, so that joints and bodies get other numbers."""
    root = ElementTree.fromstring(text)
    for body in root.iter():
        if body.tag in ("worldbody", "body"):
            children = [child for child in body if child.tag == "body"]
            for child in children:
                body.remove(child)
            body.extend(reversed(children))
    return ElementTree.tostring(root, encoding="unicode")


def flattened(model_path: Path) -> tuple[str, dict[str, bytes]]:
    """A model as one text without meshes; the shape of links does not decide about an order."""
    spec = mujoco.MjSpec.from_file(str(model_path))
    for geom in list(spec.geoms):
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH:
            geom.type = mujoco.mjtGeom.mjGEOM_SPHERE
            geom.size = [0.01, 0.01, 0.01]
            geom.meshname = ""
    for mesh in list(spec.meshes):
        spec.delete(mesh)
    spec.compile()
    return spec.to_xml(), {}


def real_models() -> dict[str, Path]:
    found: dict[str, Path] = {}
    try:
        import mjlab
    except ImportError:
        pass
    else:
        robots = Path(mjlab.__file__).parent / "asset_zoo" / "robots"
        found["mjlab G1"] = robots / "unitree_g1" / "xmls" / "g1.xml"
        found["mjlab Go1"] = robots / "unitree_go1" / "xmls" / "go1.xml"
    try:
        import mujoco_warp
    except ImportError:
        pass
    else:
        data = Path(mujoco_warp.__file__).parent / "test_data"
        found["MuJoCo humanoid"] = data / "humanoid" / "humanoid.xml"
    return {name: path for name, path in found.items() if path.is_file()}


@pytest.mark.parametrize("name", ["mjlab G1", "mjlab Go1", "MuJoCo humanoid"])
def test_values_reach_their_joints_on_a_reordered_copy(name: str, tmp_path: Path) -> None:
    path = real_models().get(name)
    if path is None:
        pytest.skip(f"the package that ships the {name} is not installed")
    from capaudit.ordering.adapters.mujoco import entries

    text, _ = flattened(path)
    trained = mujoco.MjModel.from_xml_string(text)
    live = mujoco.MjModel.from_xml_string(reversed_copy(text))
    record_entries(entries(trained), tmp_path / "params" / "ordering.yaml")
    after = entries(live)["robot"]
    resolution = from_checkpoint(tmp_path, joint_names=after.backend_joint_names, body_names=after.backend_body_names)
    assert resolution.joint is not None
    assert resolution.body is not None
    assert resolution.joint.user_to_backend != tuple(range(len(resolution.joint.names)))

    # Real joint arrays: a state whose value at each joint is known by the joint's name alone.
    def address(model: Any, joint: str) -> int:
        return int(model.jnt_qposadr[mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, joint)])

    data = mujoco.MjData(live)
    values = {joint: float(index) / 100 for index, joint in enumerate(sorted(after.backend_joint_names))}
    for joint, value in values.items():
        data.qpos[address(live, joint)] = value
    backend = np.array([data.qpos[address(live, joint)] for joint in after.backend_joint_names])
    public = backend[list(resolution.joint.user_to_backend)]
    trained_order = entries(trained)["robot"].public_joint_names
    for column, joint in enumerate(trained_order):
        assert public[column] == values[joint], joint
    back = public[list(resolution.joint.backend_to_user)]
    for column, joint in enumerate(after.backend_joint_names):
        assert back[column] == values[joint], joint

    mass = np.array([live.body_mass[live.body(body).id] for body in after.backend_body_names])
    public_mass = mass[list(resolution.body.user_to_backend)]
    for column, body in enumerate(entries(trained)["robot"].public_body_names):
        assert public_mass[column] == live.body_mass[live.body(body).id], body


def test_mujoco_s_own_model_with_nameless_joints_is_refused_with_the_index(tmp_path: Path) -> None:
    path = Path(mujoco.__file__).parent / "testdata" / "model.xml"
    if not path.is_file():
        pytest.skip("this mujoco ships no test model")
    from capaudit.ordering import LiveNamesError
    from capaudit.ordering.adapters.mujoco import entries

    model = mujoco.MjModel.from_xml_path(str(path))
    first = next(joint for joint in range(model.njnt) if not model.joint(joint).name and model.jnt_type[joint] != 0)
    with pytest.raises(LiveNamesError, match=re.escape(f"joint {first} of the model has no name")):
        entries(model)
