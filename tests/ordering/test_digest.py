"""O8 and O9. The canonical form is restated here from literal data, with hashlib and json alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from capaudit.ordering import Entry, Record, dump_record, from_checkpoint, load_record, make_entry, parse_record
from tests.ordering.robots import GO1_JOINTS, entry, write_run

# Fixed for schema version 1: a change here breaks every record that was ever written.
VECTOR = {
    "articulation": "robot",
    "backend": "physx",
    "backend_body_names": ["base", "link", "tip"],
    "backend_joint_names": ["shoulder", "elbow"],
    "configured": {"body_ordering": None, "joint_ordering": "mjwarp"},
    "is_fixed_base": True,
    "public_body_names": ["base", "tip", "link"],
    "public_joint_names": ["elbow", "shoulder"],
    "schema": "articulation-ordering",
    "schema_version": 1,
}
VECTOR_DIGEST = "sha256:34980e81edc4401fbd14e51594454fd21d907f1ec307a277a28b6d1d8bbe9106"
UNICODE_VECTOR = {
    **VECTOR,
    "articulation": "h\u00e4nd",
    "configured": {"body_ordering": None, "joint_ordering": ["knie_e\u0301", "knie_\u00e9"]},
    "backend_joint_names": ["knie_\u00e9", "knie_e\u0301"],
    "public_joint_names": ["knie_e\u0301", "knie_\u00e9"],
}
UNICODE_DIGEST = "sha256:fd8bc90f851edc9d18996533dc2be33fee3a4a6f810564246dcbd6890b150315"
FILE_DIGEST = "sha256:39e78645f77c8f8781046b74f4d39b85c1610da1ef9e3a64e0a1d838c7acf293"

names = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), min_size=2, max_size=8, unique=True
)


def canonical_digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def entry_of(vector: dict[str, object]) -> Entry:
    configured = vector["configured"]
    assert isinstance(configured, dict)
    return make_entry(
        str(vector["backend"]),
        joint_names=vector["public_joint_names"],
        body_names=vector["public_body_names"],
        backend_joint_names=vector["backend_joint_names"],
        backend_body_names=vector["backend_body_names"],
        is_fixed_base=bool(vector["is_fixed_base"]),
        joint_ordering=configured["joint_ordering"],
        body_ordering=configured["body_ordering"],
    )


def test_o8_the_fixed_vectors_hold() -> None:
    assert canonical_digest(VECTOR) == VECTOR_DIGEST
    assert canonical_digest(UNICODE_VECTOR) == UNICODE_DIGEST
    assert entry_of(VECTOR).digest("robot") == VECTOR_DIGEST
    assert entry_of(UNICODE_VECTOR).digest("h\u00e4nd") == UNICODE_DIGEST
    both = Record({"robot": entry_of(VECTOR), "h\u00e4nd": entry_of(UNICODE_VECTOR)})
    assert both.digest == FILE_DIGEST == canonical_digest(sorted([VECTOR_DIGEST, UNICODE_DIGEST]))


def test_o8_the_guide_prints_the_vectors() -> None:
    page = (Path(__file__).resolve().parents[2] / "rules" / "guides" / "ordering.md").read_text(encoding="utf-8")
    assert VECTOR_DIGEST in page
    assert json.dumps(VECTOR, sort_keys=True, separators=(",", ":"), ensure_ascii=False) in page
    assert FILE_DIGEST in page


@given(names, names, st.booleans(), st.sampled_from(["physx", "newton", "\u00e9"]), st.randoms(use_true_random=False))
def test_o8_every_entry_has_the_digest_of_its_canonical_json(
    joints: list[str], bodies: list[str], fixed: bool, backend: str, random: object
) -> None:
    made = make_entry(backend, joint_names=joints, body_names=bodies, is_fixed_base=fixed)
    assert made.digest("k") == canonical_digest(
        {
            "articulation": "k",
            "backend": backend,
            "backend_body_names": bodies,
            "backend_joint_names": joints,
            "configured": {"body_ordering": None, "joint_ordering": None},
            "is_fixed_base": fixed,
            "public_body_names": bodies,
            "public_joint_names": joints,
            "schema": "articulation-ordering",
            "schema_version": 1,
        }
    )


def test_o8_composed_and_decomposed_letters_differ() -> None:
    assert entry(("knie_\u00e9", "b")).digest("robot") != entry(("knie_e\u0301", "b")).digest("robot")


def test_o8_actuators_count_where_they_are_recorded() -> None:
    told = replace(entry(), actuator_names=("m1", "m2"))
    assert told.digest("robot") != entry().digest("robot")
    assert told.digest("robot") != replace(told, actuator_names=("m2", "m1")).digest("robot")


@given(names, st.data())
def test_o9_renaming_swapping_backend_and_configuration_change_it(joints: list[str], data: st.DataObject) -> None:
    made = make_entry("physx", joint_names=joints, body_names=["base"], is_fixed_base=False)
    before = made.digest("robot")
    i, j = data.draw(st.lists(st.integers(0, len(joints) - 1), min_size=2, max_size=2, unique=True))
    swapped = list(joints)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    renamed = [*joints[:i], joints[i] + "_x" + "".join(joints), *joints[i + 1 :]]
    for other in (
        replace(made, public_joint_names=tuple(swapped)),
        replace(made, backend_joint_names=tuple(swapped)),
        replace(made, public_joint_names=tuple(renamed), backend_joint_names=tuple(renamed)),
        replace(made, backend="newton"),
        replace(made, joint_ordering="physx"),
        replace(made, body_ordering=("base",)),
        replace(made, is_fixed_base=True),
    ):
        assert other.digest("robot") != before
    assert made.digest("robot_2") != before


@settings(max_examples=60)
@given(names, st.integers(1, 6), st.booleans(), st.booleans(), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_o9_layout_key_order_comments_and_line_ends_do_not_change_it(
    joints: list[str], indent: int, flow: bool, sort: bool, ends: str, comments: bool
) -> None:
    record = Record({"robot": make_entry("physx", joint_names=joints, body_names=["base"], is_fixed_base=False)})
    document = yaml.safe_load(dump_record(record))
    style = '"' if flow else None
    text = yaml.safe_dump(
        document,
        indent=indent,
        sort_keys=sort,
        allow_unicode=False,
        default_flow_style=flow,
        default_style=None,
        width=40,
    )
    assert style or text
    if comments:
        text = "# a comment\n" + text + "\n# the end\n"
    again = parse_record(text.replace("\n", ends).encode("utf-8"), "x")
    assert again.digest == record.digest
    assert again.articulations == record.articulations


def test_o9_a_byte_order_mark_does_not_change_it() -> None:
    record = Record({"robot": entry()})
    assert parse_record(b"\xef\xbb\xbf" + dump_record(record).encode(), "x").digest == record.digest


def test_o9_copying_moving_renaming_and_linking_a_run_do_not_change_it(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", "model.pt")
    before = load_record(path).digest
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    os.symlink(tmp_path / "run", tmp_path / "link")
    for run in ("copy", "link"):
        resolution = from_checkpoint(tmp_path / run / "model.pt", joint_names=GO1_JOINTS)
        assert resolution.source is not None
        assert resolution.source.record is not None
        assert resolution.source.record.digest == before
    (tmp_path / "link").unlink()
    (tmp_path / "run").rename(tmp_path / "moved")
    assert from_checkpoint(tmp_path / "moved", joint_names=GO1_JOINTS).verdict == "identity"
