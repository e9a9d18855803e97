"""Run manifests: whole, typed, without contradiction, or refused."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capaudit.contract import (
    CaptureLifecycle,
    ContractError,
    IngressCounters,
    MalformedError,
    RngEvidence,
    Rollback,
    RunManifest,
)
from capaudit.contract.documents import dumps, from_document, load, loads, to_document
from capaudit.contract.manifest import SCHEMA, Software
from capaudit.contract.schemas import manifest_schema
from capaudit.model import CapauditError, InputError
from tests.contract.samples import GPU, HEAD, MANIFESTS, SOFTWARE, carriers, manifest, ready, tick

SCHEMA_OF_MANIFESTS = jsonschema.Draft202012Validator(manifest_schema())


def read(document: Any) -> RunManifest:
    return from_document(RunManifest, document, SCHEMA, "run.json")


def document(name: str = "graph") -> Any:
    return to_document(MANIFESTS[name], SCHEMA)


@pytest.mark.parametrize("name", sorted(MANIFESTS))
def test_a_manifest_survives_the_round_trip(name: str) -> None:
    assert loads(RunManifest, dumps(MANIFESTS[name], SCHEMA), SCHEMA) == MANIFESTS[name]
    SCHEMA_OF_MANIFESTS.validate(document(name))


def test_a_manifest_says_everything_that_a_claim_rests_on() -> None:
    assert document().keys() == {
        "schema", "contract_version", "mode", "requested", "enabled", "state", "capture_id", "disable_reasons",
        "invalidation_reasons", "replays", "eager_ticks", "fallbacks", "fallback_reasons", "ordering", "last_sequence",
        "stream", "rng", "seeds", "gpu_uuid", "software", "worlds", "shapes", "ingress", "git_head", "rehearsal",
    }  # fmt: skip
    assert document()["software"].keys() == {"driver", "cuda", "torch", "warp", "mujoco", "mujoco_warp"}
    assert document()["ordering"].keys() == {"ticks", "published", "released"}
    assert document()["rng"].keys() == {"device", "state_sha256", "state_version", "draw_version"}
    assert document()["ingress"].keys() == {"depth", "rows", "replay_capacity"}


def test_a_manifest_is_frozen_all_the_way_down() -> None:
    with pytest.raises(FrozenInstanceError):
        manifest().worlds = 9  # type: ignore[misc]
    with pytest.raises(TypeError):
        manifest().seeds["env"] = 2  # type: ignore[index]
    assert pickle.loads(pickle.dumps(manifest())) == manifest()
    assert hash(manifest()) == hash(manifest())
    assert copy.deepcopy(manifest()) == manifest()


def test_no_field_has_a_default() -> None:
    with pytest.raises(TypeError):
        RunManifest()  # type: ignore[call-arg]
    for field in fields(RunManifest):
        whole = document()
        del whole[field.name]
        with pytest.raises(MalformedError, match=f"'{field.name}' is missing"):
            read(whole)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        # enabled means graph, requested, ready, a capture id and no reasons
        ({"mode": "eager"}, "requested"),
        ({"mode": "disabled"}, "requested"),
        ({"requested": False}, "requested"),
        ({"state": "eager"}, "enabled"),
        ({"state": "invalidated"}, "enabled"),
        ({"state": "unavailable"}, "enabled"),
        ({"capture_id": None}, "capture_id"),
        ({"capture_id": "eager"}, "capture_id"),
        ({"disable_reasons": ("why",)}, "disable_reasons"),
        ({"invalidation_reasons": ("model",)}, "invalidation_reasons"),
        ({"enabled": False}, "enabled"),
        # not enabled means no capture id and a reason
        ({"enabled": False, "state": "eager"}, "capture_id"),
        ({"enabled": False, "state": "eager", "capture_id": None}, "disable_reasons"),
        ({"enabled": False, "state": "invalidated", "capture_id": None, "disable_reasons": ("x",)},
         "invalidation_reasons"),
        # counters
        ({"fallbacks": 1}, "fallbacks"),
        ({"fallback_reasons": ("why",)}, "fallbacks"),
        ({"replays": 11}, "ordering.ticks"),
        ({"eager_ticks": 1}, "ordering.ticks"),
        ({"last_sequence": None}, "last_sequence"),
        ({"last_sequence": 10}, "last_sequence"),
        # types
        ({"contract_version": 2}, "contract_version"),
        ({"contract_version": True}, "contract_version"),
        ({"requested": 1}, "requested"),
        ({"enabled": 1}, "enabled"),
        ({"replays": -1}, "replays"),
        ({"replays": True}, "replays"),
        ({"replays": 12.0}, "replays"),
        ({"replays": 2**63}, "replays"),
        ({"mode": "on"}, "mode"),
        ({"state": "running"}, "state"),
        ({"capture_id": ""}, "capture_id"),
        ({"capture_id": "c" * 257}, "capture_id"),
        ({"disable_reasons": [""]}, "disable_reasons"),
        ({"invalidation_reasons": ("weather",)}, "invalidation_reasons[0]"),
        ({"seeds": {}}, "seeds"),
        ({"seeds": {"": 1}}, "seeds"),
        ({"seeds": {"env": -1}}, "seeds.env"),
        ({"seeds": {"env": True}}, "seeds.env"),
        ({"shapes": {}}, "shapes"),
        ({"shapes": {"action": (0,)}}, "shapes.action[0]"),
        ({"worlds": 0}, "worlds"),
        ({"gpu_uuid": "RTX 4090"}, "gpu_uuid"),
        ({"gpu_uuid": "CPU"}, "gpu_uuid"),
        ({"rehearsal": True}, "gpu_uuid"),
        ({"git_head": "0123456"}, "git_head"),
        ({"git_head": HEAD.upper()}, "git_head"),
        ({"git_head": f"{HEAD}-dirty"}, "git_head"),
        ({"software": {"torch": "2"}}, "software"),
    ],
)  # fmt: skip
def test_a_contradiction_or_a_wrong_type_is_refused_by_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(MalformedError) as caught:
        replace(manifest(), **changes)
    assert caught.value.place == field
    assert caught.value.refusals


def test_a_baseline_neither_replays_nor_falls_back() -> None:
    with pytest.raises(MalformedError):
        manifest("eager", replays=1, eager_ticks=11)


@pytest.mark.parametrize("field", ["driver", "cuda", "torch", "warp", "mujoco", "mujoco_warp"])
def test_every_version_is_recorded(field: str) -> None:
    with pytest.raises(MalformedError):
        replace(SOFTWARE, **{field: ""})
    assert Software(*["absent"] * 6)


# -- from a run ---------------------------------------------------------------------------------------------------


def of(life: CaptureLifecycle, ticks: int) -> RunManifest:
    base = manifest()
    return RunManifest.of(
        life.snapshot(),
        ordering=IngressCounters(ticks, ticks, ticks),
        stream=base.stream,
        rng=RngEvidence("cuda:0", b"state", 1, 2),
        seeds=base.seeds,
        gpu_uuid=GPU,
        software=SOFTWARE,
        worlds=8,
        shapes=base.shapes,
        ingress=base.ingress,
        git_head=HEAD,
    )


def test_a_run_that_replays_is_enabled_in_its_manifest() -> None:
    life = ready()
    for sequence in range(3):
        tick(life, sequence)
    found = of(life, 3)
    assert (found.enabled, found.capture_id, found.replays) == (True, "capture-1", 3)
    SCHEMA_OF_MANIFESTS.validate(to_document(found, SCHEMA))


def test_a_run_that_fell_back_says_so_in_its_manifest() -> None:
    life = ready()
    tick(life, 0)
    before = RngEvidence("cuda:0", b"state", 0, 4)
    life.begin_tick()
    life.fail("stream_event", "lost", rollback=Rollback(before, before))
    tick(life, 1)
    found = of(life, 2)
    assert (found.enabled, found.capture_id, found.fallbacks) == (False, None, 1)
    assert found.fallback_reasons == ("stream_event: lost",)
    assert found.disable_reasons
    SCHEMA_OF_MANIFESTS.validate(to_document(found, SCHEMA))


def test_a_run_that_failed_closed_has_a_manifest_too() -> None:
    life = ready(fallback="forbidden")
    life.begin_tick()
    with pytest.raises(ContractError):
        life.fail("stream_event", "lost")
    found = of(life, 0)
    assert (found.state, found.invalidation_reasons) == ("unavailable", ("stream_event",))
    assert "fallback is forbidden" in found.disable_reasons[0]


def test_an_eager_run_has_a_manifest_with_a_reason() -> None:
    life = CaptureLifecycle("eager")
    life.allocate(carriers())
    tick(life, 0)
    assert of(life, 1).disable_reasons == ("mode is eager",)


# -- corruption ---------------------------------------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every member of a document, innermost ones too."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(*path, key) for key, _ in members] + [
        place for key, item in members for place in places(item, (*path, key))
    ]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


# No value of this kind is right anywhere in a manifest.
NEVER = st.sampled_from([-1, 1.5, "", " ", "\x00", "x" * 300, 2**70, -(2**70), [[]], {"": None}, [None], {"x": {}}])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_is_corrupted_the_manifest_is_refused(data: st.DataObject) -> None:
    whole = document(data.draw(st.sampled_from(sorted(MANIFESTS))))
    path = data.draw(st.sampled_from(places(whole)))
    parent = at(whole, path[:-1])
    how = data.draw(st.sampled_from(["drop", "extra", "replace", "retype"]))
    if how == "drop":
        # What a mapping or a list may do without is still a manifest.
        if isinstance(parent, list) or (path[0] in ("seeds", "shapes") and len(path) > 1):
            return
        del parent[path[-1]]
    elif how == "extra":
        if not isinstance(parent, dict) or (path[0] in ("seeds", "shapes") and len(path) > 1):
            return
        parent[f"{path[-1]}_"] = parent[path[-1]]
    elif how == "replace":
        parent[path[-1]] = data.draw(NEVER)
    else:
        parent[path[-1]] = {bool: 1, int: True, str: 7, list: {}, dict: []}.get(type(parent[path[-1]]), object)
        if parent[path[-1]] is object:
            parent[path[-1]] = 0  # where null stood
            if path[-1] == "last_sequence":
                return
    with pytest.raises(MalformedError) as caught:
        read(whole)
    assert caught.value.place.startswith("run.json: $")
    assert caught.value.status == 2


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1600), st.integers(0, 255))
def test_a_changed_byte_is_noticed_or_means_the_same_kind_of_thing(position: int, byte: int) -> None:
    text = bytearray(dumps(MANIFESTS["warmup_replay"], SCHEMA).encode())
    text[position % len(text)] = byte
    try:
        found = loads(RunManifest, text.decode("utf-8", "replace"), SCHEMA)
    except CapauditError:
        return
    # Another digit or letter may be another valid manifest; it then obeys every rule and the schema.
    SCHEMA_OF_MANIFESTS.validate(to_document(found, SCHEMA))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1600))
def test_a_truncated_manifest_is_refused(length: int) -> None:
    text = dumps(MANIFESTS["graph"], SCHEMA)
    cut = text[: length % (len(text) - 2)]
    with pytest.raises(InputError, match=r"cut short|not JSON"):
        loads(RunManifest, cut, SCHEMA)


# -- hostile files ------------------------------------------------------------------------------------------------


def refused(path: Path) -> str:
    with pytest.raises(CapauditError) as caught:
        load(RunManifest, path, SCHEMA, "run manifest")
    assert caught.value.status == 2
    assert path.name in str(caught.value.place)
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cut short"),
        ("{", "cut short"),
        ('{"schema": "capaudit-run-m', "cut short"),
        ("[]", "expected an object"),
        ("null", "expected an object"),
        ('"capaudit-run-manifest/1"', "expected an object"),
        ("{}", "no schema field"),
        ('{"schema": "capaudit-evidence/1"}', "capaudit-evidence/1"),
        ('{"schema": ["capaudit-run-manifest/1"]}', "its schema is"),
        ('{"schema": 1}', "its schema is"),
        ('{"a": NaN}', "NaN"),
        ('{"a": Infinity}', "Infinity"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 10_000 + "}", "thousands of digits"),
        ('{"a": 1, "a": 1}', "stands twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' * 500 + "1" + "}" * 500, "nested too deeply"),
        ("\ufeff{}", "byte-order mark"),
        ("{} trailing", "not JSON"),
    ],
)
def test_hostile_text_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text, encoding="utf-8")
    assert message in refused(path)


def test_other_encodings_are_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    for encoding in ("utf-16", "utf-32"):
        path.write_bytes(dumps(manifest(), SCHEMA).encode(encoding))
        assert "UTF-8" in refused(path)
    path.write_bytes(dumps(manifest(), SCHEMA).replace("capture-1", "é").encode("latin-1"))
    assert "UTF-8" in refused(path)


def test_links_folders_pipes_and_missing_files_are_one_clear_error(tmp_path: Path) -> None:
    import os

    real = tmp_path / "real.json"
    real.write_text(dumps(manifest(), SCHEMA), encoding="utf-8")
    link = tmp_path / "link.json"
    link.symlink_to(real)
    assert "symbolic link" in refused(link)
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    assert "symbolic link" in refused(loop)
    assert "no regular file" in refused(tmp_path)
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    assert "no regular file" in refused(pipe)
    assert "cannot be read" in refused(tmp_path / "missing.json")


def test_a_huge_number_inside_a_manifest_is_named_and_not_printed() -> None:
    text = json.dumps({**document(), "replays": 10**4000})
    with pytest.raises(MalformedError) as caught:
        loads(RunManifest, text, SCHEMA)
    assert "$.replays" in str(caught.value.place)
    assert len(str(caught.value)) < 500


def test_the_schema_agrees_with_the_loader_on_every_simple_corruption() -> None:
    for path in places(document()):
        for value in (None, True, -1, 1.5, "", [], {}):
            whole = document()
            parent = at(whole, path[:-1])
            parent[path[-1]] = value
            try:
                read(whole)
            except MalformedError:
                continue
            assert SCHEMA_OF_MANIFESTS.is_valid(whole), (path, value)
