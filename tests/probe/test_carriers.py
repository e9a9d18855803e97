from __future__ import annotations

import functools
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from capaudit.probe.carriers import as_tensor, find_carriers, matches, resolve  # noqa: E402


@dataclass
class Inner:
    rows: Any = field(default_factory=lambda: torch.zeros(4))


class Slotted:
    __slots__ = ("held", "never")

    def __init__(self) -> None:
        self.held = torch.ones(2)


class Owner:
    def __init__(self) -> None:
        self.cache = Inner()
        self.buffers = {"obs": torch.zeros(3), 1: [torch.ones(1), (torch.ones(2),)]}
        self.slotted = Slotted()
        self.net = torch.nn.Linear(2, 2)
        self.name = "owner"
        self.itself = self

    def step(self) -> Any:
        return self.cache.rows


def names(root: Any) -> set[str]:
    return {carrier.name for carrier in find_carriers(root, "cpu")}


def test_carriers_are_found_through_attributes_items_slots_and_modules() -> None:
    assert names(Owner()) == {
        "cache.rows",
        "buffers['obs']",
        "buffers[1][0]",
        "buffers[1][1][0]",
        "slotted.held",
        "net._parameters['weight']",
        "net._parameters['bias']",
    }


def test_a_bound_method_leads_to_the_carriers_of_its_object() -> None:
    assert names(Owner().step) == names(Owner())


def test_closures_partials_and_globals_that_a_function_names_are_walked() -> None:
    x = torch.ones(2)

    def step(scale: float) -> Any:
        return x * scale

    assert names(step) == {"<x>"}
    assert names(functools.partial(step, scale=2.0)) == {"[0].<x>"}


def test_an_object_with_two_names_is_listed_once_under_the_shorter() -> None:
    x = torch.ones(2)
    assert names(SimpleNamespace(near=x, far=SimpleNamespace(deep=x))) == {"near"}


def test_a_path_leads_back_to_what_is_bound_now() -> None:
    owner = Owner()
    (carrier,) = find_carriers(owner, "cpu", ("cache.rows",))
    fresh = torch.full((4,), 7.0)
    owner.cache.rows = fresh
    assert resolve(owner, carrier.path) is fresh
    del owner.cache.rows
    assert resolve(owner, carrier.path) is None


def test_carriers_of_another_device_are_left_out() -> None:
    assert find_carriers(Owner(), "cuda") == ()


def test_patterns_name_a_carrier_or_everything_below_it() -> None:
    assert matches("buffers['obs']", ("buffers",))
    assert matches("buffers['obs']", ("buffers['obs']",))
    assert matches("a.qpos", ("*.qpos",))
    assert not matches("buffered", ("buffer",))


def test_warp_arrays_are_carriers_and_share_their_memory() -> None:
    wp = pytest.importorskip("warp")
    wp.config.quiet = True
    array = wp.zeros(3, dtype=wp.float32, device="cpu")
    owner = SimpleNamespace(state=array, annotation=wp.array(dtype=wp.float32))
    (carrier,) = find_carriers(owner, "cpu")
    assert (carrier.name, carrier.kind, carrier.address) == ("state", "warp", array.ptr)
    as_tensor(carrier.value).fill_(2.0)
    assert array.numpy().tolist() == [2.0, 2.0, 2.0]


def test_arrays_of_handles_are_never_touched() -> None:
    wp = pytest.importorskip("warp")
    assert as_tensor(wp.zeros(3, dtype=wp.uint64, device="cpu")) is None
