"""Carriers: what a captured tick reads and writes stays where it was."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from capaudit.contract import (
    Carrier,
    CarrierManifest,
    MalformedError,
    collector_layout,
    comparison_clones,
    describe,
)
from capaudit.contract.carriers import DRIFT_REASONS
from capaudit.contract.ownership import CaptureViolation
from tests.contract.samples import carriers, ready

REWARD = carriers()["reward"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""), ("name", "   "), ("name", "x" * 257), ("name", "é" * 129), ("name", 3), ("name", "a\nb"),
        ("name", "\ud800"), ("owner", None), ("shape", [8]), ("shape", (0,)), ("shape", (-1,)), ("shape", (True,)),
        ("shape", (8.0,)), ("dtype", "f32"), ("dtype", "object"), ("device", "gpu"), ("device", "cuda:x"),
        ("device", "cuda:"), ("device", "cuda:٣"), ("address", 0), ("address", -5), ("address", True),
        ("address", 2**64), ("role", "state"), ("role", None), ("writers", "step"), ("writers", ("",)),
        ("drift", "weather"), ("strides", (1, 1)),
    ],
)  # fmt: skip
def test_a_malformed_field_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(MalformedError) as caught:
        replace(REWARD, **{field: value})
    assert str(caught.value.place).startswith(field)
    assert caught.value.refusals[0].code == "malformed"


def test_an_identity_of_exactly_256_bytes_is_fine() -> None:
    assert replace(REWARD, name="é" * 128).name == "é" * 128


def test_a_name_is_declared_once() -> None:
    with pytest.raises(MalformedError, match="reward"):
        CarrierManifest((REWARD, replace(REWARD, address=1)))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("address", 4096), ("shape", (9,)), ("dtype", "float64"), ("device", "cuda:1"), ("strides", (2,))],
)
def test_a_change_of_any_attribute_is_drift(attribute: str, value: Any) -> None:
    observed = [replace(item, **{attribute: value}) if item.name == "reward" else item for item in carriers().carriers]
    drift = carriers().drift(observed)
    assert [(item.carrier, item.attribute, item.reason) for item in drift] == [("reward", attribute, "view")]
    assert str(value) in str(drift[0])


def test_an_unchanged_manifest_has_not_drifted_whatever_the_order() -> None:
    assert carriers().drift(tuple(reversed(carriers().carriers))) == ()


def test_a_carrier_that_is_gone_has_drifted_and_a_new_one_has_not() -> None:
    observed = [item for item in carriers().carriers if item.name != "action"]
    drift = carriers().drift([*observed, replace(REWARD, name="new")])
    assert [(item.carrier, item.attribute, item.reason) for item in drift] == [("action", "presence", "policy_io")]


@pytest.mark.parametrize("role", sorted(DRIFT_REASONS))
def test_the_reason_of_a_drift_follows_the_role_unless_the_carrier_names_one(role: Any) -> None:
    moved = replace(REWARD, role=role, address=1)
    assert CarrierManifest((replace(REWARD, role=role),)).drift([moved])[0].reason == DRIFT_REASONS[role]
    named = replace(REWARD, role=role, drift="model")
    assert CarrierManifest((named,)).drift([replace(named, address=1)])[0].reason == "model"


def test_drift_invalidates_before_the_next_replay() -> None:
    life = ready()
    moved = [replace(item, address=4096) if item.name == "action" else item for item in carriers().carriers]
    with pytest.raises(Exception, match="policy_io"):
        life.begin_tick(moved)
    assert life.state == "invalidated"
    assert not life.in_tick
    assert life.snapshot().replays == 0


def test_the_canonical_layout_is_that_of_the_g1_motion_workload() -> None:
    layout = {spec.name: (spec.dtype, spec.shape) for spec in collector_layout(2048)}
    assert layout["action"] == layout["control"] == ("float32", (2048, 29))
    assert layout["observation.actor"] == ("float32", (2048, 160))
    assert layout["observation.critic"] == ("float32", (2048, 289))
    assert layout["reward"] == ("float32", (2048,))
    assert layout["reward_components"] == ("float32", (2048, 11))
    for name in ("terminated", "truncated", "reset_mask", "verdict.finite"):
        assert layout[name] == ("bool", (2048,))
    for kind in ("terminal_observation", "post_reset_observation"):
        assert layout[f"{kind}.actor"] == ("float32", (2048, 160))
        assert layout[f"{kind}.critic"] == ("float32", (2048, 289))
    for slot in (0, 1):
        for column in ("observation.actor", "next_observation.critic", "action", "reward", "done", "truncated"):
            assert layout[f"ingress[{slot}].{column}"][1][0] == 2048
        assert layout[f"ingress[{slot}].terminal_mask"] == ("bool", (2048,))
    assert "receipt" in layout
    assert layout["rng_state"] == ("uint8", (16,))
    assert not any(name.startswith("ingress[2]") for name in layout)


class FakeTensor:
    """As much of a Torch tensor as a declaration reads; anything else is an error."""

    def __init__(self, address: int = 4096, shape: tuple[int, ...] = (4, 2), strides: tuple[int, ...] = (2, 1)) -> None:
        self.address, self.shape, self.strides = address, shape, strides
        self.dtype, self.device = "torch.float32", "cuda:0"

    def data_ptr(self) -> int:
        return self.address

    def is_contiguous(self) -> bool:
        return self.strides == (2, 1)

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def clone(self) -> FakeTensor:
        return FakeTensor(self.address + 65536)


def test_a_tensor_is_declared_without_reading_a_value() -> None:
    carrier = describe("reward", FakeTensor(), owner="env", role="output", writers=["env.step"])
    assert carrier == Carrier("reward", "env", (4, 2), "float32", "cuda:0", 4096, "output", ("env.step",))


def test_a_view_is_declared_with_its_strides() -> None:
    assert describe("view", FakeTensor(strides=(4, 1)), owner="env", role="output").strides == (4, 1)


def test_an_empty_tensor_has_no_fixed_address() -> None:
    assert describe("empty", FakeTensor(address=0), owner="env", role="output").address is None


@pytest.mark.parametrize("thing", [3, [1.0], None, SimpleNamespace(shape=(2,))])
def test_what_is_no_storage_is_refused(thing: Any) -> None:
    with pytest.raises(MalformedError, match="neither a Torch tensor nor a Warp array"):
        describe("thing", thing, owner="env", role="output")


def test_comparison_clones_are_evidence_and_lie_elsewhere() -> None:
    copies, declared = comparison_clones({"reward": FakeTensor()}, owner="gate")
    assert list(copies) == ["reward@evidence"]
    assert [item.role for item in declared] == ["evidence"]
    assert declared[0].address != 4096


def test_comparison_clones_are_never_allocated_inside_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = SimpleNamespace(is_initialized=lambda: True, is_current_stream_capturing=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    with pytest.raises(CaptureViolation):
        comparison_clones({"reward": FakeTensor()}, owner="gate")


def test_real_tensors_and_arrays_are_declared_alike() -> None:
    torch = pytest.importorskip("torch")
    warp = pytest.importorskip("warp")
    warp.init()
    tensor = torch.zeros(4, 3)
    array = warp.from_torch(tensor)
    declared = [describe("x", storage, owner="env", role="output") for storage in (tensor, array)]
    assert declared[0] == declared[1]
    assert (declared[0].shape, declared[0].dtype, declared[0].device) == ((4, 3), "float32", "cpu")
    assert declared[0].address == tensor.data_ptr()
    column = describe("column", tensor[:, 1], owner="env", role="output")
    assert (column.strides, column.address) == ((3,), tensor.data_ptr() + 4)
