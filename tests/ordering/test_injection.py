"""O23: filling ordering_source_path in a tree of configurations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from capaudit.ordering import OrderingUsageError, inject


@dataclass
class ArticulationCfg:
    prim_path: str = "/robot"
    joint_ordering: object = None
    body_ordering: object = None
    ordering_source_path: str | None = None


@dataclass
class SceneCfg:
    robot: ArticulationCfg = field(default_factory=lambda: ArticulationCfg(joint_ordering="From_Checkpoint"))
    arm: ArticulationCfg = field(default_factory=ArticulationCfg)


@dataclass
class EnvCfg:
    scene: SceneCfg = field(default_factory=SceneCfg)
    extras: dict[str, Any] = field(default_factory=dict)
    owner: object = None


def test_o23_only_configurations_that_ask_for_it_are_filled() -> None:
    cfg = EnvCfg()
    found = inject(cfg, "run/model.pt")
    assert cfg.scene.robot.ordering_source_path == "run/model.pt"
    assert cfg.scene.arm.ordering_source_path is None
    assert {item.path: item.action for item in found} == {"scene.robot": "filled", "scene.arm": "inert"}


def test_o23_direct_tasks_mappings_and_lists_are_walked() -> None:
    cfg = {
        "robot_cfg": {"joint_ordering": None, "body_ordering": "from_checkpoint"},
        "list": [ArticulationCfg(joint_ordering="from_checkpoint"), ({"joint_ordering": "from_checkpoint"},)],
    }
    inject(cfg, "m.pt")
    assert cfg["robot_cfg"]["ordering_source_path"] == "m.pt"  # type: ignore[index,call-overload]
    assert cfg["list"][0].ordering_source_path == "m.pt"  # type: ignore[index,union-attr,attr-defined]
    assert cfg["list"][1][0]["ordering_source_path"] == "m.pt"  # type: ignore[index]


def test_o23_shared_objects_are_handled_once_and_cycles_end() -> None:
    cfg = EnvCfg()
    cfg.extras["again"] = cfg.scene.robot
    cfg.owner = cfg
    cfg.extras["self"] = cfg.extras
    found = inject(cfg, "m.pt")
    assert [item.action for item in found].count("filled") == 1


def test_o23_a_path_that_is_set_wins() -> None:
    cfg = EnvCfg()
    cfg.scene.robot.ordering_source_path = "mine.yaml"
    assert {item.action for item in inject(cfg, "m.pt")} == {"kept", "inert"}
    assert cfg.scene.robot.ordering_source_path == "mine.yaml"


@pytest.mark.parametrize(
    "override",
    [
        "env.scene.robot.ordering_source_path=null",
        "+env.scene.robot.ordering_source_path=None",
        "scene.robot.ordering_source_path=",
        "~env.scene.robot.ordering_source_path",
    ],
)
def test_o23_an_override_to_null_disables(override: str) -> None:
    cfg = EnvCfg()
    assert {item.path: item.action for item in inject(cfg, "m.pt", overrides=["a.b=1", override])}[
        "scene.robot"
    ] == "disabled"
    assert cfg.scene.robot.ordering_source_path is None


def test_o23_an_override_of_another_articulation_disables_nothing() -> None:
    cfg = EnvCfg()
    inject(cfg, "m.pt", overrides=["env.scene.arm.ordering_source_path=null"])
    assert cfg.scene.robot.ordering_source_path == "m.pt"


def test_o23_without_a_checkpoint_nothing_is_filled() -> None:
    cfg = EnvCfg()
    assert {item.action for item in inject(cfg, None)} == {"inert"}


def test_o23_every_unset_path_is_filled_when_that_is_asked_for() -> None:
    cfg = EnvCfg()
    inject(cfg, "m.pt", only_where_asked=False)
    assert cfg.scene.arm.ordering_source_path == "m.pt"


def test_o23_a_frozen_configuration_that_asks_for_it_is_an_error() -> None:
    @dataclass(frozen=True)
    class Frozen:
        joint_ordering: str = "from_checkpoint"
        ordering_source_path: str | None = None

    with pytest.raises(OrderingUsageError, match=r"robot.*cannot be written"):
        inject({"robot": Frozen()}, "m.pt")


def test_o23_a_deep_tree_does_not_exhaust_the_stack() -> None:
    root: list[Any] = []
    node = root
    for _ in range(50_000):
        node.append([])
        node = node[0]
    node.append(ArticulationCfg(joint_ordering="from_checkpoint"))
    assert len(inject(root, "m.pt")) == 1


@pytest.mark.parametrize("override", ["lst.0.ordering_source_path=null", "owner.arm.ordering_source_path=null"])
def test_o23_an_override_wins_by_any_path_of_a_shared_object(override: str) -> None:
    shared = ArticulationCfg(joint_ordering="from_checkpoint")
    scene = SceneCfg(robot=ArticulationCfg(), arm=shared)
    inject({"scene": scene, "lst": [shared], "owner": scene}, "m.pt", overrides=[override])
    assert shared.ordering_source_path is None


def test_o23_an_override_of_one_place_leaves_a_namesake_elsewhere_alone() -> None:
    inner, outer = (ArticulationCfg(joint_ordering="from_checkpoint") for _ in range(2))
    cfg = {"scene": SceneCfg(robot=inner), "robot": outer}
    inject(cfg, "m.pt", overrides=["env.scene.robot.ordering_source_path=null"])
    assert (inner.ordering_source_path, outer.ordering_source_path) == (None, "m.pt")


def test_o23_a_path_in_an_override_is_the_one_that_counts() -> None:
    cfg = EnvCfg()
    found = inject(cfg, "m.pt", overrides=["env.scene.robot.ordering_source_path=user.pt"])
    assert cfg.scene.robot.ordering_source_path == "user.pt"
    assert found[0].action == "kept"
