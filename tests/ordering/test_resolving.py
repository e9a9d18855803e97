"""From a record to a live backend: O15 to O22."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capaudit.ordering import (
    AxisOrdering,
    ConflictError,
    CorruptRecordError,
    LiveNamesError,
    MissingEntryError,
    NoRecordError,
    NotAPermutationError,
    OrderingUsageError,
    Record,
    SchemaError,
    axis_ordering,
    from_checkpoint,
    install_recorder,
    is_from_checkpoint,
    match_spellings,
    record_entries,
    resolve_configured,
    write_record,
)
from tests.conftest import ROOT
from tests.ordering.robots import (
    G1_BREADTH_FIRST,
    G1_DEPTH_FIRST,
    GO1_BODIES,
    GO1_BY_KIND,
    GO1_JOINTS,
    entry,
    write_run,
)

unique_names = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6), min_size=1, max_size=12, unique=True
)
spelt_names = st.lists(st.text("ab:_", min_size=1, max_size=4), min_size=1, max_size=6, unique=True)


# -- O15 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["from_checkpoint", "FROM_CHECKPOINT", "From_Checkpoint"])
def test_o15_the_mode_is_case_insensitive(tmp_path: Path, mode: str) -> None:
    write_run(tmp_path, "model.pt")
    resolution = resolve_configured(
        joint_ordering=mode,
        body_ordering=mode,
        joint_names=GO1_BY_KIND,
        body_names=GO1_BODIES,
        ordering_source_path=tmp_path / "model.pt",
    )
    assert resolution.joint_names == GO1_JOINTS
    assert is_from_checkpoint(mode)
    assert not is_from_checkpoint("physx")
    assert not is_from_checkpoint(None)


def test_o15_joints_and_bodies_are_resolved_independently(tmp_path: Path) -> None:
    write_run(tmp_path)
    bodies = tuple(reversed(GO1_BODIES))
    for joint_ordering, body_ordering in (("from_checkpoint", None), (None, "from_checkpoint")):
        resolution = resolve_configured(
            joint_ordering=joint_ordering,
            body_ordering=body_ordering,
            joint_names=GO1_BY_KIND,
            body_names=bodies,
            ordering_source_path=tmp_path,
        )
        assert (resolution.joint is None) == (joint_ordering is None)
        assert (resolution.body is None) == (body_ordering is None)


def test_o15_an_explicit_list_goes_through_the_same_checks() -> None:
    resolution = resolve_configured(
        joint_ordering=list(GO1_JOINTS), body_ordering=None, joint_names=GO1_BY_KIND, body_names=GO1_BODIES
    )
    assert resolution.joint is not None
    assert resolution.joint.names == GO1_JOINTS
    with pytest.raises(NotAPermutationError):
        resolve_configured(joint_ordering=["a"], body_ordering=None, joint_names=["b"], body_names=["c"])


def test_o15_the_mode_without_a_path_says_which_field_to_set() -> None:
    with pytest.raises(OrderingUsageError, match=r"ArticulationCfg\.ordering_source_path"):
        resolve_configured(joint_ordering="from_checkpoint", body_ordering=None, joint_names=["a"], body_names=["b"])


# -- O16 and O17 --------------------------------------------------------------------------------------------------


def test_o16_a_checkpoint_a_run_folder_and_a_record_are_sources(tmp_path: Path) -> None:
    path = write_run(tmp_path, "model_10.pt")
    for source in (tmp_path / "model_10.pt", tmp_path, path, str(path)):
        assert from_checkpoint(source, joint_names=GO1_BY_KIND).joint is not None


def test_o16_yaml_that_is_neither_record_nor_leapp_says_so(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text("sim: {dt: 0.01}\n")
    with pytest.raises(SchemaError, match="not an ordering record"):
        from_checkpoint(tmp_path / "env.yaml", joint_names=GO1_JOINTS)


def place(path: Path, joints: tuple[str, ...] = GO1_JOINTS, *applies_to: str) -> Path:
    write_record(Record({"robot": entry(joints)}, applies_to=applies_to), path, allow_checkpoint_folder=True)
    return path


@pytest.mark.parametrize("folder", ["checkpoints", "nn"])
def test_o17_the_parent_is_looked_at_only_for_folders_of_checkpoints(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "agent.pt").touch()
    place(tmp_path / "params" / "ordering.yaml")
    assert from_checkpoint(tmp_path / folder / "agent.pt", joint_names=GO1_JOINTS).verdict == "identity"
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "agent.pt").touch()
    with pytest.raises(NoRecordError):
        from_checkpoint(tmp_path / "models" / "agent.pt", joint_names=GO1_JOINTS)


def test_o17_no_further_walk_up(tmp_path: Path) -> None:
    place(tmp_path / "params" / "ordering.yaml")
    place(tmp_path / "ordering.yaml")
    checkpoint = tmp_path / "run" / "checkpoints" / "agent.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    with pytest.raises(NoRecordError) as caught:
        from_checkpoint(checkpoint, joint_names=GO1_JOINTS)
    run = tmp_path / "run"
    assert caught.value.details["probed"] == [
        str(run / "params" / "ordering.yaml"),
        str(run / "checkpoints" / "agent.ordering.yaml"),
        str(run / "checkpoints" / "ordering.yaml"),
    ]
    assert all(path in str(caught.value) for path in caught.value.details["probed"])


def test_o17_a_named_sibling_and_a_lone_plain_sibling_count(tmp_path: Path) -> None:
    (tmp_path / "a.pt").touch()
    place(tmp_path / "ordering.yaml")
    assert from_checkpoint(tmp_path / "a.pt", joint_names=GO1_JOINTS).verdict == "identity"
    (tmp_path / "ordering.yaml").unlink()
    place(tmp_path / "a.ordering.yaml", GO1_BY_KIND)
    assert from_checkpoint(tmp_path / "a.pt", joint_names=GO1_JOINTS).joint_names == GO1_BY_KIND


def test_o17_in_a_flat_folder_a_plain_sibling_counts_only_for_checkpoints_that_it_names(tmp_path: Path) -> None:
    for name in ("a.pt", "b.pt", "c.onnx"):
        (tmp_path / name).touch()
    place(tmp_path / "ordering.yaml")
    with pytest.raises(NoRecordError, match=r"applies_to.*a\.ordering\.yaml"):
        from_checkpoint(tmp_path / "a.pt", joint_names=GO1_JOINTS)
    (tmp_path / "ordering.yaml").unlink()
    place(tmp_path / "ordering.yaml", GO1_JOINTS, "a.pt")
    assert from_checkpoint(tmp_path / "a.pt", joint_names=GO1_JOINTS).verdict == "identity"
    with pytest.raises(NoRecordError, match=r"belongs to a\.pt"):
        from_checkpoint(tmp_path / "b.pt", joint_names=GO1_JOINTS)


def test_o17_one_policy_in_two_formats_is_no_flat_folder(tmp_path: Path) -> None:
    for name in ("policy.pt", "policy.onnx"):
        (tmp_path / name).touch()
    place(tmp_path / "ordering.yaml")
    assert from_checkpoint(tmp_path / "policy.onnx", joint_names=GO1_JOINTS).verdict == "identity"


def test_o17_two_candidates_that_differ_are_a_conflict_that_names_both(tmp_path: Path) -> None:
    (tmp_path / "a.pt").touch()
    first = place(tmp_path / "params" / "ordering.yaml")
    second = place(tmp_path / "a.ordering.yaml", GO1_BY_KIND)
    with pytest.raises(ConflictError) as caught:
        from_checkpoint(tmp_path / "a.pt", joint_names=GO1_JOINTS)
    assert {item["path"] for item in caught.value.details["candidates"]} == {str(first), str(second)}
    assert caught.value.status == 7
    second.unlink()
    place(tmp_path / "a.ordering.yaml")  # equal ones are no conflict
    assert from_checkpoint(tmp_path / "a.pt", joint_names=GO1_JOINTS).verdict == "identity"


def test_o17_a_linked_checkpoint_finds_the_record_of_the_run_it_points_to(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "model_99.pt")
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "latest.pt").symlink_to(tmp_path / "run" / "model_99.pt")
    assert from_checkpoint(tmp_path / "best" / "latest.pt", joint_names=GO1_JOINTS).verdict == "identity"


def test_o17_a_relative_path_inside_the_folder_of_checkpoints_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, "checkpoints/agent.pt")
    monkeypatch.chdir(tmp_path / "checkpoints")
    assert from_checkpoint("agent.pt", joint_names=GO1_JOINTS).verdict == "identity"
    assert from_checkpoint(".", joint_names=GO1_JOINTS).verdict == "identity"


def test_o17_a_broken_candidate_is_an_error_and_not_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.pt").touch()
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "ordering.yaml").write_text("{")
    place(tmp_path / "a.ordering.yaml")
    with pytest.raises(CorruptRecordError):
        from_checkpoint(tmp_path / "a.pt", joint_names=GO1_JOINTS)


# -- O18 ----------------------------------------------------------------------------------------------------------


def test_o18_degrees_of_freedom_are_matched_across_spellings() -> None:
    stored = ("wrist_0", "wrist_1", "wrist_2", "elbow")
    live = ("elbow", "wrist:0", "wrist:1", "wrist:2")
    assert match_spellings(stored, live) == ("wrist:0", "wrist:1", "wrist:2", "elbow")
    assert match_spellings(live, stored) == ("elbow", "wrist_0", "wrist_1", "wrist_2")
    mapped = axis_ordering(stored, live, "joint")
    assert mapped is not None
    assert mapped.user_to_backend == (1, 2, 3, 0)


def test_o18_names_that_agree_already_stay_as_they_are() -> None:
    names = ("a:0", "a_0", "b")
    assert match_spellings(names, ("b", "a_0", "a:0")) == names


@pytest.mark.parametrize(
    ("stored", "live"),
    [
        (("a:0", "b"), ("a_0", "a:0")),  # two live names of one form, and no set that agrees
        (("a:0", "a_0"), ("a_0", "b")),  # two stored names would become one
        (("a:0", "c"), ("a_0", "b")),  # one has no partner, so none is changed
        (("a:0",), ("a_0", "b")),  # a part of the joints
        (("a:0", "b", "c"), ("a_0", "b")),
    ],
)
def test_o18_ambiguous_and_partial_matches_change_nothing(stored: tuple[str, ...], live: tuple[str, ...]) -> None:
    assert match_spellings(stored, live) == stored
    with pytest.raises(NotAPermutationError):
        axis_ordering(stored, live, "joint")


def test_o18_bodies_are_never_matched_by_spelling() -> None:
    with pytest.raises(NotAPermutationError) as caught:
        axis_ordering(("hand_0", "base"), ("base", "hand:0"), "body")
    assert caught.value.details["missing"] == ["hand:0"]
    assert caught.value.details["extra"] == ["hand_0"]


@given(spelt_names, spelt_names)
def test_o18_the_match_is_all_or_nothing_and_one_to_one(stored: list[str], live: list[str]) -> None:
    matched = match_spellings(stored, live)
    if matched == tuple(stored):
        return
    assert sorted(matched) == sorted(live)
    assert len(set(matched)) == len(matched)
    assert all(a.replace(":", "_") == b.replace(":", "_") for a, b in zip(stored, matched, strict=True))
    assert len({name.replace(":", "_") for name in live}) == len(live)


@given(spelt_names, st.randoms(use_true_random=False))
def test_o18_a_respelt_permutation_is_always_found_where_forms_are_unique(names: list[str], rng: random.Random) -> None:
    by_form = {name.replace(":", "_"): name for name in names}
    live = list(by_form.values())
    stored = [name.replace(":", "_") for name in live]
    rng.shuffle(live)
    assert match_spellings(stored, live) == tuple(by_form[form] for form in stored)


# -- O19 and O20 --------------------------------------------------------------------------------------------------


def test_o19_identity_is_none(tmp_path: Path) -> None:
    write_run(tmp_path)
    resolution = from_checkpoint(tmp_path, joint_names=GO1_JOINTS, body_names=GO1_BODIES)
    assert resolution.joint is None
    assert resolution.body is None
    assert resolution.verdict == "identity"
    assert resolution.joint_names == GO1_JOINTS
    assert axis_ordering(("a_0", "b"), ("a:0", "b"), "joint") is None


@given(unique_names, st.randoms(use_true_random=False), st.sampled_from(["joint", "body"]))
def test_o20_both_index_arrays_carry_values_to_their_names_and_back(
    names: list[str], rng: random.Random, axis: str
) -> None:
    live = list(names)
    rng.shuffle(live)
    mapped = axis_ordering(names, live, axis)  # type: ignore[arg-type]
    if mapped is None:
        assert names == live
        return
    backend_values = [f"value of {name}" for name in live]
    public_values = [backend_values[index] for index in mapped.user_to_backend]
    assert public_values == [f"value of {name}" for name in mapped.names]
    assert [public_values[index] for index in mapped.backend_to_user] == backend_values
    assert list(mapped.names) == names
    assert sorted(mapped.user_to_backend) == list(range(len(names)))


def test_o20_the_inverse_mistaken_for_the_map_is_rejected() -> None:
    mapped = axis_ordering(G1_DEPTH_FIRST, G1_BREADTH_FIRST, "joint")
    assert mapped is not None
    assert mapped.user_to_backend != mapped.backend_to_user
    with pytest.raises(ValueError, match="do not carry"):
        AxisOrdering("joint", mapped.names, mapped.backend_names, mapped.backend_to_user, mapped.user_to_backend)


def test_o20_a_self_inverse_permutation_has_equal_arrays() -> None:
    mapped = axis_ordering(("b", "a", "c"), ("a", "b", "c"), "joint")
    assert mapped is not None
    assert mapped.user_to_backend == mapped.backend_to_user == (1, 0, 2)


# -- real permutations --------------------------------------------------------------------------------------------


def test_a_humanoid_of_29_joints_depth_first_against_breadth_first(tmp_path: Path) -> None:
    write_run(tmp_path, robot=entry(G1_BREADTH_FIRST, ("pelvis",), backend="physx"))
    resolution = from_checkpoint(tmp_path, joint_names=G1_DEPTH_FIRST, backend="mujoco")
    assert resolution.joint is not None
    # Facts about the robot: public place 1 is the right hip, which MuJoCo numbers 6; place 2 the waist, numbered 12.
    assert resolution.joint.user_to_backend[:6] == (0, 6, 12, 1, 7, 13)
    assert resolution.joint.backend_to_user[:3] == (0, 3, 6)
    assert len(resolution.joint.names) == 29


def test_a_quadruped_whose_actuators_have_another_order_than_its_joints(tmp_path: Path) -> None:
    actuators = tuple(f"{leg}_{part}" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf"))
    write_run(tmp_path, robot=entry(actuator_names=actuators))
    resolution = from_checkpoint(tmp_path, joint_names=GO1_JOINTS)
    assert resolution.joint is None  # the joint axis does not care for the actuator axis
    assert resolution.source is not None
    assert resolution.source.articulations["robot"].actuator_names == actuators


def test_bodies_with_and_without_the_world_are_no_permutation(tmp_path: Path) -> None:
    write_run(tmp_path)
    with pytest.raises(NotAPermutationError) as caught:
        from_checkpoint(tmp_path, joint_names=GO1_JOINTS, body_names=("world", *GO1_BODIES))
    details = caught.value.details
    assert (details["missing"], details["extra"]) == (["world"], [])
    assert (details["stored_count"], details["live_count"], details["axis"]) == (13, 14, "body")


def test_a_mimic_follower_that_an_asset_update_added_is_missing(tmp_path: Path) -> None:
    write_run(tmp_path, robot=entry(("panda_joint1", "panda_finger_joint1"), ("base",)))
    with pytest.raises(NotAPermutationError, match=r"missing from the record: \['panda_finger_joint2'\]"):
        from_checkpoint(tmp_path, joint_names=("panda_joint1", "panda_finger_joint1", "panda_finger_joint2"))


# -- O21 and O22 --------------------------------------------------------------------------------------------------


class Untouchable:
    """Raises where somebody asks for a convention, a stage or a builder."""

    joint_names = GO1_BY_KIND
    body_names = GO1_BODIES
    backend_joint_names = GO1_BY_KIND
    backend_body_names = GO1_BODIES
    is_fixed_base = False
    is_initialized = True
    cfg = SimpleNamespace(joint_ordering=None, body_ordering=None)

    def __getattr__(self, name: str) -> object:
        if name in ("__backend_name__", "backend_name"):
            raise AttributeError(name)
        raise AssertionError(f"{name} was asked for: nothing is to be discovered")


def test_o21_no_convention_is_discovered(tmp_path: Path) -> None:
    write_run(tmp_path / "old", "model.pt")
    env = SimpleNamespace(scene=SimpleNamespace(articulations={"robot": Untouchable()}))
    install_recorder(env, tmp_path / "new")
    before = set(sys.modules)
    from_checkpoint(tmp_path / "old" / "model.pt", joint_names=GO1_BY_KIND, body_names=GO1_BODIES)
    assert not {name.partition(".")[0] for name in set(sys.modules) - before} & {"newton", "pxr", "isaaclab", "mujoco"}
    with pytest.raises(OrderingUsageError, match="resolved by the framework"):
        resolve_configured(joint_ordering="physx", body_ordering=None, joint_names=GO1_JOINTS, body_names=GO1_BODIES)


def test_o21_a_record_of_100_joints_resolves_in_under_5_ms(tmp_path: Path) -> None:
    joints = tuple(f"left_leg_{index}_joint" for index in range(100))
    bodies = ("base", *(f"left_leg_{index}_link" for index in range(100)))
    live = tuple(random.Random(7).sample(joints, 100))
    write_run(tmp_path, "model.pt", robot=entry(joints, bodies))
    times = []
    for _ in range(30):
        begun = time.process_time()
        resolution = from_checkpoint(tmp_path / "model.pt", joint_names=live, body_names=bodies)
        times.append(time.process_time() - begun)
    assert resolution.verdict == "permutation"
    assert min(times) < 0.005


def test_o22_a_run_without_a_configured_order_replays_on_another_backend(tmp_path: Path) -> None:
    trained = SimpleNamespace(
        joint_names=list(G1_BREADTH_FIRST),
        body_names=["pelvis", "torso"],
        is_fixed_base=False,
        is_initialized=True,
        cfg=SimpleNamespace(joint_ordering=None, body_ordering=None),
    )
    env = SimpleNamespace(scene=SimpleNamespace(articulations={"robot": trained}))
    install_recorder(SimpleNamespace(unwrapped=env), tmp_path)
    (tmp_path / "model_0.pt").touch()
    resolution = from_checkpoint(tmp_path / "model_0.pt", joint_names=G1_DEPTH_FIRST, body_names=["pelvis", "torso"])
    assert resolution.joint is not None
    assert resolution.joint.names == G1_BREADTH_FIRST
    assert resolution.body is None


def test_a_resolution_of_live_names_that_nothing_can_match_says_which(tmp_path: Path) -> None:
    write_run(tmp_path)
    with pytest.raises(LiveNamesError, match=r"joint 1 of the live model"):
        from_checkpoint(tmp_path, joint_names=("a", "a"))
    write_run(tmp_path / "b", robot=entry(GO1_JOINTS, ()))
    with pytest.raises(MissingEntryError, match="no body order"):
        from_checkpoint(tmp_path / "b", body_names=GO1_BODIES)


def test_the_core_imports_fast_and_without_any_framework() -> None:
    code = (
        "import sys, time; b = time.process_time(); import capaudit.ordering as o;"
        "spent = time.process_time() - b;"
        "[getattr(o, name) for name in ('Record', 'from_checkpoint', 'inject', 'install_recorder')];"
        "heavy = {'torch', 'numpy', 'mujoco', 'warp', 'yaml', 'isaaclab', 'newton', 'mjlab', 'http'};"
        "print(spent, sorted(heavy & set(sys.modules)))"
    )
    best = 1.0
    for _ in range(5):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
        spent, _, loaded = run.stdout.strip().partition(" ")
        assert loaded == "[]"
        best = min(best, float(spent))
    assert best < 0.05


def test_the_core_has_no_network_code() -> None:
    for file in sorted((ROOT / "capaudit" / "ordering").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        assert not any(f"import {name}" in text for name in ("urllib", "http", "requests", "ftplib")), file
        assert "socket.socket" not in text
        assert "create_connection" not in text


def test_an_unreadable_place_is_one_clear_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ordering.yaml")
    with pytest.raises(OrderingUsageError, match="no regular file"):
        from_checkpoint(tmp_path / "ordering.yaml", joint_names=["a"])
    with pytest.raises(OrderingUsageError, match="no path"):
        from_checkpoint("a\0b", joint_names=["a"])
    with pytest.raises(NoRecordError):
        from_checkpoint(tmp_path / "x" / "y.yaml", joint_names=["a"])


def test_recording_without_any_articulation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OrderingUsageError, match="no articulation"):
        record_entries({}, tmp_path / "ordering.yaml")


def test_live_names_of_a_framework_s_own_string_type_are_names(tmp_path: Path) -> None:
    class Name(str):
        """As ``numpy.str_`` is one."""

    write_run(tmp_path, robot=entry(("a", "b"), ("base",)))
    turned = from_checkpoint(tmp_path, joint_names=[Name("b"), Name("a")], body_names=[Name("base")])
    assert turned.joint is not None
    assert turned.joint.user_to_backend == (1, 0)
    assert {type(name) for name in (*turned.joint.names, *turned.joint.backend_names)} == {str}
    assert [type(name) for name in turned.body_names or ()] == [str]
