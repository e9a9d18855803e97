"""Boundary, capabilities, preflight: what may be captured is decided from declarations alone."""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import capaudit
from capaudit.contract import (
    AllocatorSnapshot,
    Boundary,
    BoundaryRefusedError,
    Candidate,
    Capabilities,
    CarrierManifest,
    DriverFacts,
    MalformedError,
    Preflight,
    Refusal,
    StreamContract,
    preflight,
)
from capaudit.contract.capabilities import CAPABILITY_NAMES, SEMANTIC_OWNERS
from capaudit.contract.ownership import declared_boundary
from tests.contract.samples import BOUNDARY, LAYOUT, candidate, capabilities, carriers


def codes(verdict: Preflight) -> set[tuple[str, str]]:
    return {(reason.code, reason.subject) for reason in verdict.reasons}


# -- boundary -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 2, -1, 1.0, True, "1", None])
def test_no_boundary_covers_anything_but_one_control_step(k: Any) -> None:
    with pytest.raises(BoundaryRefusedError, match="k ="):
        replace(BOUNDARY, k=k)


@pytest.mark.parametrize("what", ["action_sequence", "speculative"])
def test_action_sequences_and_speculative_ticks_have_no_boundary(what: str) -> None:
    with pytest.raises(BoundaryRefusedError, match=r"sequence|speculative") as caught:
        replace(BOUNDARY, **{what: True})
    assert caught.value.place == BOUNDARY.entry
    assert caught.value.remedy


def test_a_decorator_declares_what_crosses_the_boundary_and_refuses_more_than_one_step() -> None:
    @capaudit.boundary(inputs=("action",), outputs=("reward",))
    def step() -> None: ...

    declared = declared_boundary(step)
    assert declared is not None
    assert (declared.inputs, declared.outputs, declared.k) == (("action",), ("reward",), 1)
    with pytest.raises(BoundaryRefusedError):
        capaudit.boundary(k=2)(step)


def test_the_contract_takes_the_boundary_that_the_decorator_declares() -> None:
    @capaudit.boundary(name="tick", inputs=("action",))
    def step() -> None: ...

    declared = declared_boundary(step)
    assert isinstance(declared, Boundary)
    assert preflight(Candidate(declared, capabilities(), carriers(), LAYOUT)).supported


# -- preflight ----------------------------------------------------------------------------------------------------


def test_a_candidate_that_declares_everything_is_supported_without_a_reason() -> None:
    assert preflight(candidate()) == Preflight(True, ())


@pytest.mark.parametrize("name", CAPABILITY_NAMES)
def test_a_capability_that_is_not_declared_is_unsupported(name: str) -> None:
    verdict = preflight(candidate(**{name: None}))
    assert not verdict.supported
    assert ("capability-missing", name) in codes(verdict)


def test_a_capability_that_nobody_knows_is_unsupported_and_no_wildcard() -> None:
    declared = {name: getattr(capabilities(), name) for name in CAPABILITY_NAMES}
    verdict = preflight(Candidate(BOUNDARY, Capabilities.of({**declared, "everything": True}), carriers(), LAYOUT))
    assert codes(verdict) == {("capability-unknown", "everything")}


@pytest.mark.parametrize(
    ("changes", "code", "subject"),
    [
        ({"contract_version": 2}, "contract-version", "contract_version"),
        ({"requested": False}, "not-requested", "requested"),
        ({"devices": ()}, "device-count", "devices"),
        ({"devices": ("cuda:0", "cuda:1")}, "device-count", "devices"),
        ({"devices": ("cpu",)}, "device-kind", "devices"),
        ({"stable_views": False}, "capability-absent", "stable_views"),
        ({"stepping": False}, "capability-absent", "stepping"),
        ({"masked_reset": "full_refresh"}, "full-refresh", "masked_reset"),
        ({"deferred_validation": False}, "capability-absent", "deferred_validation"),
        ({"generators": ()}, "generator-count", "generators"),
        ({"generators": ("a", "b")}, "generator-count", "generators"),
        ({"driver": DriverFacts("580", "13.0", False)}, "memory-pool", "driver"),
        ({"semantic_owners": ("something_else",)}, "semantic-owner", "something_else"),
        *[({"semantic_owners": (owner,)}, "semantic-owner", owner) for owner in SEMANTIC_OWNERS],
    ],
)
def test_every_requirement_that_fails_is_a_reason_of_its_own(changes: dict[str, Any], code: str, subject: str) -> None:
    verdict = preflight(candidate(**changes))
    assert not verdict.supported
    assert (code, subject) in codes(verdict)


@pytest.mark.parametrize("identifier", [-1, True, 1.5, "7", None, 2**63])
def test_a_stream_id_that_is_not_a_readable_non_negative_integer_is_malformed(identifier: Any) -> None:
    with pytest.raises(MalformedError) as caught:
        StreamContract("collector", identifier)
    assert caught.value.place == "id"


@pytest.mark.parametrize("values", [(-1, 0, 0), (True, 1, 1), (2, 1, 0), (0.0, 1, 1)])
def test_an_allocator_snapshot_holds_non_negative_integers(values: Any) -> None:
    with pytest.raises(MalformedError):
        AllocatorSnapshot(*values)


def test_all_reasons_are_given_at_once_and_in_one_order() -> None:
    changes: dict[str, Any] = {"requested": False, "stepping": False, "generators": None}
    verdict = preflight(candidate(**changes))
    assert codes(verdict) == {
        ("not-requested", "requested"),
        ("capability-absent", "stepping"),
        ("capability-missing", "generators"),
    }
    assert verdict == preflight(candidate(**changes))


def without(name: str) -> CarrierManifest:
    return CarrierManifest(tuple(carrier for carrier in carriers().carriers if carrier.name != name))


def changed(name: str, **values: Any) -> CarrierManifest:
    return CarrierManifest(
        tuple(replace(item, **values) if item.name == name else item for item in carriers().carriers)
    )


@pytest.mark.parametrize(
    ("manifest", "code", "subject"),
    [
        (without("reward"), "carrier-missing", "reward"),
        (changed("reward", shape=(9,)), "carrier-layout", "reward"),
        (changed("reward", dtype="float64"), "carrier-layout", "reward"),
        (changed("reward", address=None), "address-not-fixed", "reward"),
        (changed("reward", device="cuda:1"), "carrier-device", "reward"),
        (changed("reward", device="cpu"), "carrier-device", "reward"),
        (changed("reward", role="evidence"), "evidence-crosses", "reward"),
        (changed("action", role="evidence"), "evidence-crosses", "action"),
        (changed("action", role="output"), "carrier-role", "action"),
        (changed("ingress[1].reward", address=carriers()["ingress[0].reward"].address), "carrier-overlap",
         "ingress[1].reward"),
        (CarrierManifest(()), "carrier-missing", "carriers"),
    ],
)  # fmt: skip
def test_every_carrier_is_declared_fixed_and_in_its_place(manifest: CarrierManifest, code: str, subject: str) -> None:
    verdict = preflight(Candidate(BOUNDARY, capabilities(), manifest, LAYOUT))
    assert (code, subject) in codes(verdict)


def test_views_of_one_storage_are_fine_among_the_ticks_own_carriers() -> None:
    shared = changed("control", address=carriers()["action"].address)
    assert preflight(Candidate(BOUNDARY, capabilities(), shared, LAYOUT)).supported


def test_a_verdict_can_neither_support_with_reasons_nor_refuse_without() -> None:
    with pytest.raises(MalformedError):
        Preflight(True, (Refusal("a", "b", "c"),))
    with pytest.raises(MalformedError):
        Preflight(False, ())


def test_a_rehearsal_takes_the_cpu_for_the_device_and_says_so() -> None:
    on_cpu = CarrierManifest(tuple(replace(item, device="cpu") for item in carriers().carriers))
    declared = Candidate(BOUNDARY, capabilities(devices=("cpu",)), on_cpu, LAYOUT)
    assert not preflight(declared).supported
    assert preflight(declared, rehearsal=True) == Preflight(True, (), rehearsal=True)


def test_preflight_captures_allocates_draws_and_switches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Untouchable:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"preflight asked for {name}")

    for framework in ("torch", "warp", "numpy", "random"):
        monkeypatch.setitem(sys.modules, framework, Untouchable())
    declared = candidate()
    before = {field.name: getattr(declared, field.name) for field in fields(declared)}
    assert preflight(declared).supported
    assert {field.name: getattr(declared, field.name) for field in fields(declared)} == before


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2)
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([*CAPABILITY_NAMES, "extra", "unknown"]), VALUES, max_size=4))
def test_whatever_is_declared_is_refused_with_a_reason_or_malformed(changes: dict[str, Any]) -> None:
    declared = {name: getattr(capabilities(), name) for name in CAPABILITY_NAMES}
    same = all(name in declared and type(declared[name]) is type(value) and declared[name] == value
               for name, value in changes.items())  # fmt: skip
    try:
        found = Capabilities.of({**declared, **changes})
    except MalformedError as error:
        refused = error
    else:
        refused = None
    if refused is not None:
        assert refused.refusals
        assert refused.place
        return
    verdict = preflight(Candidate(BOUNDARY, found, carriers(), LAYOUT))
    harmless = {"generators", "devices"}  # other names of one device or generator may be fine
    assert verdict.supported is bool(not verdict.reasons)
    if not same and not harmless & changes.keys():
        assert not verdict.supported
