"""The file itself: O1 to O7."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum, StrEnum
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from capaudit.ordering import (
    BadNameError,
    CorruptRecordError,
    Entry,
    MissingEntryError,
    Record,
    SchemaError,
    dump_record,
    from_checkpoint,
    load_record,
    parse_record,
    write_record,
)
from capaudit.ordering.record import configured_value
from tests.ordering.robots import GO1_BODIES, GO1_BY_KIND, GO1_JOINTS, entry, write_run

HOSTILE_NAMES = ("1:30", "on", "off", "0x1f", "~", "null", "2024-01-31", "1e3", "yes", "=", "<<", "- a", "a: b", "#x")
UNICODE_NAMES = (
    "knie_\u00e9",
    "knie_e\u0301",
    "\u5de6\u819d",
    "\U0001f9be",
    "\u2028",
    "\x85",
    "\x7f",
    "\ufeff",
    "tab\t",
    "nl\n",
)


def text_of(**entries: Entry) -> str:
    return dump_record(Record(entries or {"robot": entry()}))


def reread(text: str) -> Record:
    return parse_record(text.encode(), "ordering.yaml")


def test_o1_a_record_is_plain_yaml_in_utf8_that_a_safe_loader_reads() -> None:
    names = (*HOSTILE_NAMES, *UNICODE_NAMES)
    text = text_of(robot=entry(names, names))
    document = yaml.safe_load(text.encode("utf-8"))
    assert document["articulations"]["robot"]["public_joint_names"] == list(names)
    assert document["schema"] == "articulation-ordering"
    events = list(yaml.parse(text))
    assert not any(getattr(event, "anchor", None) or getattr(event, "tag", None) for event in events)


def test_o1_every_name_is_a_quoted_string() -> None:
    for event in yaml.parse(text_of(on=entry(HOSTILE_NAMES, GO1_BODIES))):
        if isinstance(event, yaml.ScalarEvent) and event.value in HOSTILE_NAMES and event.value != "null":
            assert event.style == '"'


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), unique=True, min_size=1))
def test_o1_any_unicode_name_survives_the_way_through_the_file(names: list[str]) -> None:
    record = Record({names[0]: entry(names, names)})
    text = dump_record(record)
    assert reread(text).articulations == record.articulations
    assert yaml.safe_load(text)["articulations"][names[0]]["public_joint_names"] == names


def test_o2_unknown_top_level_keys_are_kept_and_listed() -> None:
    record = reread(text_of() + 'lab_note: {"reviewed by": ["A", 3]}\n')
    assert record.extra == {"lab_note": {"reviewed by": ["A", 3]}}
    assert reread(dump_record(record)).extra == record.extra


def test_o2_an_unknown_key_inside_an_entry_is_an_error() -> None:
    with pytest.raises(CorruptRecordError, match=r"unknown key 'is_fixed_bse'.*did you mean 'is_fixed_base'"):
        reread(text_of().replace("    is_fixed_base: false\n", "    is_fixed_base: false\n    is_fixed_bse: true\n"))


@pytest.mark.parametrize("version", ["2", "0", '"1"', "1.0", "true", "null", "[1]"])
def test_o2_another_schema_version_is_refused_with_the_supported_ones(version: str) -> None:
    with pytest.raises(SchemaError) as caught:
        reread(text_of().replace("schema_version: 1", f"schema_version: {version}"))
    assert caught.value.details["supported"] == [1]
    assert caught.value.status == 5


def test_o3_an_entry_has_all_fields_and_the_configuration_verbatim() -> None:
    class Convention(Enum):
        PHYSX = "physx"

    class TextConvention(StrEnum):
        MJWARP = "mjwarp"

    written = entry(
        GO1_BY_KIND,
        backend_joint_names=GO1_JOINTS,
        joint_ordering=Convention.PHYSX,
        body_ordering=list(GO1_BODIES),
    )
    fields = yaml.safe_load(text_of(robot=written))["articulations"]["robot"]
    digest = fields.pop("digest")
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest)
    assert fields == {
        "backend": "physx",
        "configured": {"joint_ordering": "physx", "body_ordering": list(GO1_BODIES)},
        "is_fixed_base": False,
        "public_joint_names": list(GO1_BY_KIND),
        "public_body_names": list(GO1_BODIES),
        "backend_joint_names": list(GO1_JOINTS),
        "backend_body_names": list(GO1_BODIES),
    }
    assert configured_value(TextConvention.MJWARP, "joint_ordering") == "mjwarp"
    assert type(configured_value(TextConvention.MJWARP, "joint_ordering")) is str
    assert configured_value("PhysX", "joint_ordering") == "PhysX"


def test_o3_a_missing_field_is_an_error() -> None:
    for field in ("backend", "configured", "is_fixed_base", "backend_body_names", "digest"):
        lines = text_of().splitlines(keepends=True)
        start = next(i for i, line in enumerate(lines) if line.startswith(f"    {field}:"))
        end = next(i for i in range(start + 1, len(lines)) if not lines[i].startswith("      "))
        with pytest.raises(CorruptRecordError, match=field):
            reread("".join(lines[:start] + lines[end:]))


def test_o4_identity_is_recorded_and_a_missing_entry_is_never_identity(tmp_path: Path) -> None:
    path = write_run(tmp_path, "model.pt", robot=entry(), arm=entry(("a", "b"), ("base", "hand")))
    assert load_record(path).articulations.keys() == {"robot", "arm"}
    with pytest.raises(MissingEntryError) as caught:
        from_checkpoint(tmp_path / "model.pt", articulation="cart", joint_names=GO1_JOINTS)
    assert caught.value.details["available"] == ["robot", "arm"]
    assert caught.value.status == 3


@pytest.mark.parametrize(
    ("plain", "kind"),
    [("1:30", "int"), ("on", "bool"), ("0x1f", "int"), ("~", "null"), ("2024-01-31", "timestamp"), ("1.0e+3", "float")],
)
def test_o5_a_name_that_yaml_coerced_says_to_quote_it(plain: str, kind: str) -> None:
    text = text_of(robot=entry(("hip", "NAME", "knee"), GO1_BODIES)).replace('"NAME"', plain)
    with pytest.raises(BadNameError, match="quote this name") as caught:
        reread(text)
    assert caught.value.details["articulation"] == "robot"
    assert caught.value.details["field"] == "public_joint_names"
    assert caught.value.details["index"] == 1
    assert caught.value.details["read_as"] == kind
    assert str(caught.value.place).startswith("ordering.yaml:")
    assert f'write "{plain}"' in str(caught.value)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ('["a", "b", "a"]', r"public_joint_names\[2\].*twice"),
        ('["a", ""]', r"\[1\].*empty"),
        ('["a", ["b"]]', "sequence"),
    ],
)
def test_o5_names_are_texts_that_are_not_empty_and_unique(names: str, message: str) -> None:
    text = re.sub(r"public_joint_names: \[[^\]]*\]", f"public_joint_names: {names}", text_of())
    with pytest.raises(BadNameError, match=message):
        reread(text)


@pytest.mark.parametrize("bad", [7, None, True, b"hip"])
def test_o5_nothing_but_a_text_is_written(tmp_path: Path, bad: object) -> None:
    broken = replace(entry(), public_joint_names=("a", bad), backend_joint_names=("a", bad))  # type: ignore[arg-type]
    with pytest.raises(CorruptRecordError, match=r"public_joint_names\[1\]"):
        write_record(Record({"robot": broken}), tmp_path / "ordering.yaml")
    assert not (tmp_path / "ordering.yaml").exists()


def test_o5_half_a_surrogate_is_no_name(tmp_path: Path) -> None:
    with pytest.raises(CorruptRecordError, match="surrogate"):
        write_record(Record({"robot": entry(("a", "\ud800"))}), tmp_path / "ordering.yaml")


def test_o6_public_names_that_are_no_permutation_make_a_corrupt_record() -> None:
    text = text_of().replace("FL_hip_joint", "FL_hop_joint", 1)
    with pytest.raises(CorruptRecordError, match=r"corrupt record.*not a permutation") as caught:
        reread(text)
    assert caught.value.status == 4


def test_o6_the_root_of_a_fixed_base_stays_public_body_0() -> None:
    moved = entry(("a", "b"), ("link", "base"), backend_body_names=("base", "link"), is_fixed_base=True)
    with pytest.raises(CorruptRecordError, match="root body 'base' stays public body 0"):
        reread(text_of(robot=moved))
    assert reread(text_of(robot=replace(moved, is_fixed_base=False)))


def test_o7_provenance_changes_no_digest_and_no_verdict(tmp_path: Path) -> None:
    bare = Record({"robot": entry()})
    told = replace(
        bare, provenance={"created": "2026-01-01", "host": "a", "argv": ["x", "1:30"], "versions": {"torch": "2"}}
    )
    assert bare.digest == told.digest
    text = dump_record(told)
    changed = reread(
        text.replace("2026-01-01", "1999-12-31").replace('"host": "a"', "host: !!str b".replace("!!str ", ""))
    )
    assert changed.digest == bare.digest
    assert from_checkpoint(write_run(tmp_path), joint_names=GO1_JOINTS).verdict == "identity"


def test_duplicate_keys_are_found_at_every_level() -> None:
    from capaudit.ordering import DuplicateKeyError

    text = text_of()
    for old, new in (
        ("schema_version: 1\n", "schema_version: 1\nschema_version: 1\n"),
        ("    is_fixed_base: false\n", "    is_fixed_base: false\n    is_fixed_base: false\n"),
        ("provenance: {}", 'provenance: {"a": 1, "a": 2}'),
        ("      joint_ordering: null\n", "      joint_ordering: null\n      joint_ordering: null\n"),
    ):
        with pytest.raises(DuplicateKeyError) as caught:
            reread(text.replace(old, new))
        assert caught.value.status == 4
        assert isinstance(caught.value.details["line"], int)
