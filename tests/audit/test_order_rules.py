"""When the ORD rules speak: in every file without a boundary, the sure ones always, the others on request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from capaudit.audit import AuditOptions, audit
from capaudit.audit.configuration import Configuration
from capaudit.knowledge import load
from tests.conftest import Outcome

Run = Callable[..., Outcome]

SURE = """LAB_TO_MUJOCO = [0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11]


def f(joint_pos):
    return joint_pos[:, LAB_TO_MUJOCO]
"""
POSSIBLE = """
class Term:
    def __init__(self, robot, names):
        self.joint_ids, _ = robot.find_joints(names)
        if len(self.joint_ids) == robot.num_joints:
            self.joint_ids = slice(None)
"""
ON_REQUEST = "def f(robot):\n    return robot.data.joint_pos[:, [0, 3]]\n"


def codes(folder: Path, **settings: tuple[str, ...]) -> list[str]:
    options = AuditOptions(paths=(folder,), working_directory=folder, configuration=Configuration(**settings))  # type: ignore[arg-type]
    return [finding.code for finding in audit(options).findings if finding.code.startswith("ORD")]


def test_the_twelve_rules_of_the_contract_are_there() -> None:
    have = {code for code in load().rules if code.startswith("ORD")}
    assert have == {f"ORD{number:03}" for number in (1, 2, 3, 4, 5, 8, 10, 11, 12, 13, 16, 19)}


def test_a_sure_hit_needs_no_boundary_and_no_request(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(SURE)
    assert codes(tmp_path) == ["ORD004"]


@pytest.mark.parametrize(("source", "code"), [(POSSIBLE, "ORD002"), (ON_REQUEST, "ORD005")])
def test_what_is_only_possible_or_opt_in_has_to_be_asked_for(tmp_path: Path, source: str, code: str) -> None:
    (tmp_path / "term.py").write_text(source)
    assert codes(tmp_path) == []
    assert codes(tmp_path, extend_select=("ORD",)) == [code]
    assert codes(tmp_path, select=(code,)) == [code]


def test_a_selection_of_other_rules_leaves_them_out(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(SURE)
    assert codes(tmp_path, select=("CAP1",)) == []


def test_test_modules_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text("x = 1\n")
    for name in ("test_policy.py", "policy_test.py"):
        (tmp_path / name).write_text(SURE)
    assert codes(tmp_path) == []


def test_the_command_reports_ignores_and_suppresses_them(run: Run, folder: Path) -> None:
    (folder / "policy.py").write_text(SURE)
    found = run("check", ".")
    assert found.status == 1
    assert "ORD004[literal-permutation]" in found.out
    assert "about joint and body order" in found.out
    assert run("check", ".", "--ignore", "ORD").status == 0
    reasoned = SURE.replace("11]", "11]  # capaudit: ignore[literal-permutation] -- one fixed asset, checked in CI", 1)
    (folder / "policy.py").write_text(reasoned)
    assert run("check", ".").status == 0


def test_the_same_input_gives_the_same_findings_in_the_same_order(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.py").write_text(SURE)
    options = AuditOptions(paths=(tmp_path,), working_directory=tmp_path)
    first, second = audit(options).findings, audit(options).findings
    assert first == second
    assert [finding.place.file for finding in first] == ["a.py", "b.py", "c.py"]


def test_hostile_sources_do_not_break_a_rule(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        "joint_to_body = list(range())\n"
        "joint_map: list = list(range(n_joint))\n"
        "zip(*joint_names, **{})\n"
        "import numpy as np\n"
        "np.savez()\nnp.savez(*joints)\nnp.savez(f, **{**joint_pos})\n"
        "find_joints()\nrobot.find_bodies(*[], **{})\n"
        "open()\nopen('checkpoints/a.json', mode)\n(''.join([])).write_text()\n"
        "x = [5, 4, 3, 2, 1, 0][[5, 4, 3, 2, 1, 0]]\n"
        "def find_joints(self, /, preserve_order): ...\n"
        "joint_ordering = body_ordering = None\nCfg(**{'joint_ordering': 'physx'})\n"
        "if len(joint_ids) == num_joints: joint_ids = other = slice(None)\n"
        "d = {**a, 'joint_ordering': 1}\n"
        "y = joint_names.index(a) if a in joint_names else -1\n"
    )
    assert codes(tmp_path, extend_select=("ORD",))


def test_a_traversal_that_collects_names_and_returns_the_list_is_one(tmp_path: Path) -> None:
    walk = """def body_order(root):
    queue, out = [root], []
    while queue:
        node = queue.pop(0)
        out.append(node.{what})
        queue.extend(node.children)
    return out
"""
    (tmp_path / "m.py").write_text(walk.format(what="name"), encoding="utf-8")
    assert codes(tmp_path, select=("ORD010",)) == ["ORD010"]
    (tmp_path / "m.py").write_text(walk.format(what="mass"), encoding="utf-8")
    assert codes(tmp_path, select=("ORD010",)) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("joint_order or list(range(num_joints))", ["ORD011"]),
        ("list(range(num_joints)) if joint_order is None else joint_order", ["ORD011"]),
        ("joint_order or stored_order(num_joints)", []),
    ],
)
def test_an_identity_that_only_stands_in_for_a_missing_map_is_made_up_too(
    tmp_path: Path, value: str, expected: list[str]
) -> None:
    source = f"def f(num_joints, joint_order=None):\n    joint_order = {value}\n    return joint_order\n"
    (tmp_path / "m.py").write_text(source, encoding="utf-8")
    assert codes(tmp_path, select=("ORD011",)) == expected
