"""The engine on small programs: what it follows, what it prunes, what it leaves open."""

from __future__ import annotations

from pathlib import Path

import pytest

from capaudit.audit import AuditOptions, audit
from capaudit.model import OwnershipClass, UnresolvedEntryError
from tests.audit.program import audit_text, codes

_BASE = """
import torch
class Env:
    def __init__(self, n: int):
        self.x = torch.zeros(n, device="cuda")
        self.mask = torch.zeros(n, dtype=torch.bool, device="cuda")
"""


def test_a_term_passed_in_a_configuration_is_followed_to_its_line(tmp_path: Path) -> None:
    result = audit_text(
        tmp_path,
        """
import torch
from dataclasses import dataclass, field
from typing import Any, Callable

@dataclass
class TermCfg:
    func: Callable[..., torch.Tensor]
    params: dict[str, Any] = field(default_factory=dict)

def height(env: "Env", scale: float) -> torch.Tensor:
    return env.x * env.x.max().item()

CFG = {"height": TermCfg(func=height, params={"scale": 2.0})}

class Manager:
    def __init__(self, terms: dict[str, TermCfg], env: "Env"):
        self._terms, self._env = terms, env

    def compute(self):
        for term in self._terms.values():
            term.func(self._env, **term.params)

class Env:
    def __init__(self, n: int):
        self.x = torch.zeros(n, device="cuda")
        self.load_managers()

    def load_managers(self):
        self.rewards = Manager(CFG, self)

    def step(self):
        self.rewards.compute()
""",
    )
    assert codes(result) == [(12, "CAP101")]
    assert [hop.function.rpartition("program.")[2] for hop in result.findings[0].call_path] == [
        "Env.step",
        "Manager.compute",
        "height",
    ]


def test_a_base_class_calls_what_a_subclass_overrides(tmp_path: Path) -> None:
    text = (
        _BASE
        + """
        self.terms: list[Base] = []
    def step(self):
        for term in self.terms:
            term.compute(self)
class Base:
    def compute(self, env: Env):
        self._update(env)
    def _update(self, env: Env):
        raise NotImplementedError
class Term(Base):
    def _update(self, env: Env):
        env.x[env.mask] = env.x
def build(env: Env):
    env.terms.append(Term())
"""
    )
    assert [code for _, code in codes(audit_text(tmp_path, text))] == ["CAP201"]


@pytest.mark.parametrize(("stand_in", "found"), [("test_sensor.py", []), ("camera.py", ["CAP101"])])
def test_a_subclass_that_a_test_makes_is_no_receiver(tmp_path: Path, stand_in: str, found: list[str]) -> None:
    (tmp_path / "sensors.py").write_text(
        """
import torch
class Sensor:
    def read(self) -> torch.Tensor:
        raise NotImplementedError

class Plain(Sensor):
    def __init__(self, n: int):
        self.x = torch.zeros(n, device="cuda")
    def read(self) -> torch.Tensor:
        return self.x * 2.0

class Env:
    def __init__(self, sensors: list[Sensor]):
        self.sensors = sensors
    def step(self):
        for sensor in self.sensors:
            sensor.read()
"""
    )
    (tmp_path / stand_in).write_text(
        """
import torch
from sensors import Sensor
class Stub(Sensor):
    def __init__(self, n: int):
        self.x = torch.zeros(n, device="cuda")
    def read(self) -> torch.Tensor:
        return self.x * self.x.max().item()
"""
    )
    result = audit(AuditOptions(paths=(tmp_path,), entries=("sensors:Env.step",), working_directory=tmp_path))
    assert [finding.code for finding in result.findings] == found


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("self.x[self.mask] = 0.0", None),
        ("self.x[self.mask] = self.x[:1]", "CAP201"),
        ("self.x[self.ids] = 0.0", "CAP103"),
        ("self.x[self.ids] = self.x[:3]", None),
        ("self.x[1:3] = 0.0", None),
        ("self.x[[0, 1]].sum()", "CAP103"),
        ("self.x.to(self.device)", None),
        ("assert len(self.x) == 3", None),
        ("assert (self.x > 0).all()", "CAP101"),
    ],
)
def test_index_forms_are_told_apart(tmp_path: Path, statement: str, code: str | None) -> None:
    text = f"""
import torch
class Env:
    def __init__(self, n: int, device: str):
        self.device = device
        self.x = torch.zeros(n, device=device)
        self.mask = torch.zeros(n, dtype=torch.bool, device=device)
        self.ids = torch.arange(3, device=device)
    def step(self):
        {statement}
"""
    assert [found for _, found in codes(audit_text(tmp_path, text))] == ([code] if code else [])


def test_code_that_only_runs_before_a_raise_is_cold(tmp_path: Path) -> None:
    text = (
        _BASE
        + """
        self.limit = n
    def step(self):
        if self.limit < 0:
            raise ValueError(f"worst {self.x.max().item()}")
        self.x.add_(1.0)
"""
    )
    result = audit_text(tmp_path, text)
    assert codes(result) == []
    assert OwnershipClass.COLD_PATH in {operation.ownership for operation in result.operations}


def test_a_read_guarded_by_the_capture_state_is_pruned_and_listed(tmp_path: Path) -> None:
    text = (
        _BASE
        + """
    def step(self):
        if not torch.cuda.is_current_stream_capturing():
            print(self.x.sum().item())
        self.x.add_(1.0)
"""
    )
    result = audit_text(tmp_path, text)
    assert codes(result) == []
    assert [branch.reason for branch in result.pruned] == ["capture-state guard"]


def test_an_unknown_callee_is_listed_and_never_eligible(tmp_path: Path) -> None:
    text = (
        _BASE
        + """
    def step(self, hook):
        hook.fire(self.x)
""".replace("hook):", "hook: object):")
    )
    result = audit_text(tmp_path, text)
    assert [call.place.line for call in result.unresolved] == [9]
    assert OwnershipClass.UNRESOLVED in {operation.ownership for operation in result.operations}


def test_a_call_chain_that_is_cut_is_unresolved(tmp_path: Path) -> None:
    chain = "\n".join(f"    def m{i}(self):\n        return self.m{i + 1}()" for i in range(400))
    text = (
        _BASE
        + f"    def step(self):\n        return self.m0()\n{chain}\n    def m400(self):\n        return self.x.item()\n"
    )
    result = audit_text(tmp_path, text)
    assert result.findings or result.unresolved


def test_a_completion_owned_function_is_not_entered(tmp_path: Path) -> None:
    text = (
        _BASE
        + """
    # capaudit: completion-owned -- read after the replay
    def publish(self):
        return self.x.item()
    def step(self):
        self.x.add_(1.0)
        self.publish()
"""
    )
    result = audit_text(tmp_path, text)
    assert codes(result) == []
    assert "read after the replay" in {operation.reason for operation in result.operations}


def test_a_suppression_needs_a_reason(tmp_path: Path) -> None:
    text = (
        _BASE
        + """
    def step(self):
        a = self.x.item()  # capaudit: ignore[host-scalar-read] -- replaced by a carrier in the next release
        return self.x.item()  # capaudit: ignore[host-scalar-read]
"""
    )
    assert codes(audit_text(tmp_path, text)) == [(10, "CAP101"), (10, "CAP903")] or codes(
        audit_text(tmp_path, text)
    ) == [(10, "CAP903"), (10, "CAP101")]


def test_an_unused_suppression_is_a_finding(tmp_path: Path) -> None:
    text = (
        _BASE
        + """
    def step(self):
        self.x.add_(1.0)  # capaudit: ignore[CAP101] -- was needed once
"""
    )
    assert [code for _, code in codes(audit_text(tmp_path, text))] == ["CAP902"]


@pytest.mark.parametrize(
    "head",
    [
        "    @kept  # capaudit: ignore[CAP101] -- meant for the whole function\n    def step(self):\n",
        "    @kept\n    # capaudit: ignore[CAP101] -- meant for the whole function\n    def step(self):\n",
        "    # capaudit: ignore[CAP101] -- meant for the whole function\n    def step(self):\n",
    ],
)
def test_a_suppression_on_a_head_does_not_cover_the_body_and_says_that_it_is_idle(tmp_path: Path, head: str) -> None:
    text = "def kept(function):\n    return function\n\n\n" + _BASE + head + "        return self.x.item()\n"
    assert sorted(code for _, code in codes(audit_text(tmp_path, text))) == ["CAP101", "CAP902"]


def test_an_entry_that_names_nothing_proposes_what_is_near(tmp_path: Path) -> None:
    with pytest.raises(UnresolvedEntryError, match=r"Env\.step"):
        audit_text(tmp_path, _BASE + "    def step(self):\n        pass\n", entry="Env.stepp")


def test_a_file_that_does_not_parse_is_a_finding_and_the_rest_is_audited(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    good = tmp_path / "good.py"
    good.write_text(_BASE + "    def step(self):\n        return self.x.item()\n")
    result = audit(AuditOptions(paths=(tmp_path,), entries=("good:Env.step",), working_directory=tmp_path))
    assert sorted(finding.code for finding in result.findings) == ["CAP101", "CAP905"]


def test_a_boundary_reports_the_same_alone_and_beside_others(tmp_path: Path) -> None:
    text = (
        _BASE
        + """
        self.count = 0
    def step(self):
        self.count += 1
        self.x.mul_(self.count)
    def other(self):
        self.count += 1
        return self.x.sum().item()
"""
    )
    file = tmp_path / "program.py"
    file.write_text(text)

    def findings(*names: str) -> set[tuple[str, int, str]]:
        entries = tuple(f"program:Env.{name}" for name in names)
        result = audit(AuditOptions(paths=(file,), entries=entries, working_directory=tmp_path))
        return {(f.boundary, f.place.line, f.code) for f in result.findings}

    assert findings("step", "other") == findings("other", "step") == findings("step") | findings("other")


def test_moved_lines_keep_a_finding_s_fingerprint(tmp_path: Path) -> None:
    text = _BASE + "    def step(self):\n        return self.x.item()\n"
    (before,) = audit_text(tmp_path, text).findings
    (after,) = audit_text(tmp_path, "# a new first line\n\n" + text).findings
    assert before.place.line != after.place.line
    assert before.fingerprint == after.fingerprint


def test_a_decorator_on_many_functions_leads_to_each_of_them(tmp_path: Path) -> None:
    number = 12
    lines = ["import functools", "import torch", "", "def scope(fn):", "    @functools.wraps(fn)"]
    lines += ["    def wrapper(*args, **kwargs):", "        return fn(*args, **kwargs)", "    return wrapper", ""]
    for index in range(number):
        lines += ["@scope", f"def part_{index}(x: torch.Tensor) -> float:", "    return x.sum().item()"]
    lines += ["", "def step(x: torch.Tensor) -> None:", *(f"    part_{index}(x)" for index in range(number))]
    result = audit_text(tmp_path, "\n".join(lines) + "\n", "step")
    reads = [number for number, line in enumerate(lines, 1) if "item()" in line]
    assert codes(result) == [(number, "CAP101") for number in reads]


def test_a_finding_is_no_surer_than_what_the_entry_claims(tmp_path: Path) -> None:
    program = """
import warp as wp
class Env:
    def __init__(self, device: str):
        self.device = device
    def step(self):
        wp.force_load(device=self.device)
        wp.set_mempool_release_threshold(self.device, 0)
"""
    found = audit_text(tmp_path, program).findings
    assert [(finding.code, finding.confidence) for finding in found] == [("CAP503", "possible"), ("CAP503", "certain")]


def test_what_a_guard_lets_run_once_is_possible_and_what_may_run_again_is_not(tmp_path: Path) -> None:
    program = """
import torch
class Env:
    def __init__(self, device: str):
        self.x = torch.ones(4, device=device)
        self.ready = False
        self.fresh = False
        self.told = False
    def step(self):
        if not self.ready:
            self.measure()
            self.ready = True
        if not self.fresh:
            self.measure_again()
            self.fresh = True
        self.watch()
        return self.x
    def measure(self):
        self.scale = self.x.max().item()
    def measure_again(self):
        self.offset = self.x.min().item()
        if self.offset > 0:
            self.fresh = True
    def invalidate(self):
        self.fresh = False
    def watch(self):
        if not self.told:
            if self.x.sum().item() > 9:
                self.told = True
"""
    found = [f for f in audit_text(tmp_path, program).findings if f.code == "CAP101"]
    told = {finding.place.line: finding.confidence for finding in found}
    assert told == {19: "possible", 21: "certain", 28: "certain"}


def test_what_a_cache_misses_and_what_starts_once_behind_two_guards_is_possible(tmp_path: Path) -> None:
    source = """import subprocess
import torch

class Env:
    def __init__(self):
        self.x = torch.zeros(4, device="cuda")
        self.process = None
        self.facts = None
        self.columns = None
        self.device = self.x.device

    def start(self):
        if self.process is not None:
            return
        def report(line):
            if line:
                return
            print(line)
        self.process = subprocess.Popen(["worker"])
        self.facts = (report, 1)

    def ask(self):
        if self.facts is None:
            self.start()
        return self.facts

    def column(self, first: tuple, second: tuple):
        key = (first, second)
        cached = self.columns
        if cached is not None and (cached[0], cached[1]) == key:
            return cached[2]
        made = torch.as_tensor(first, device="cuda")
        self.columns = (*key, made)
        return made

    def scale(self, name: str, values: list):
        cached = getattr(self, name, None)
        if cached is not None and cached.device == self.device:
            return cached
        cached = torch.as_tensor(values, device="cuda")
        setattr(self, name, cached)
        return cached

    def step(self, first: tuple, second: tuple, name: str, values: list):
        self.ask()
        self.x.add_(self.column(first, second))
        self.x.mul_(self.scale(name, values))
        self.x.add_(torch.as_tensor(values, device="cuda"))
"""
    found = audit_text(tmp_path, source).findings
    told = {(finding.place.line, finding.code): finding.confidence for finding in found}
    line = {text: n for n, text in enumerate(source.splitlines(), 1)}
    assert told[line['        self.process = subprocess.Popen(["worker"])'], "CAP602"] == "possible"
    assert told[line['        made = torch.as_tensor(first, device="cuda")'], "CAP103"] == "possible"
    assert told[line['        cached = torch.as_tensor(values, device="cuda")'], "CAP103"] == "possible"
    assert told[line['        self.x.add_(torch.as_tensor(values, device="cuda"))'], "CAP103"] == "certain"
    assert not [key for key in told if key[1] == "CAP304"]


def test_a_list_that_only_an_annotation_promises_beside_a_tensor_is_possible(tmp_path: Path) -> None:
    source = """import torch

class Base:
    def __init__(self, rows: slice | torch.Tensor | list[int]):
        self.rows = rows

class Env:
    def __init__(self, actuator: Base):
        self.x = torch.zeros(4, 3, device="cuda")
        self.actuator = actuator

    def step(self):
        chosen = [0, 2]
        self.x[chosen].sum()
        return self.x[self.actuator.rows]
"""
    found = [f for f in audit_text(tmp_path, source).findings if f.code == "CAP103"]
    assert [(finding.place.line, finding.confidence) for finding in found] == [(14, "certain"), (15, "possible")]


def test_an_allocation_for_buffers_that_share_their_storage_is_possible(tmp_path: Path) -> None:
    program = """
import torch
class Env:
    def __init__(self, device: str):
        self.x = torch.ones(4, device=device)
        self.y = torch.ones(4, device=device)
    def step(self):
        if self.x.data_ptr() == self.y.data_ptr():
            self.x.sum().item()
        if self.x.data_ptr() != self.y.data_ptr():
            self.y.sum().item()
        return self.x
"""
    found = [f for f in audit_text(tmp_path, program).findings if f.code == "CAP101"]
    assert [(finding.place.line, finding.confidence) for finding in found] == [(9, "possible"), (11, "certain")]


def test_what_is_only_checked_steers_nothing(tmp_path: Path) -> None:
    program = """
import torch
class Env:
    def __init__(self, device: str):
        self.active = torch.zeros(4, dtype=torch.bool, device=device)
        self.x = torch.ones(4, device=device)
    def step(self):
        rows = self.active.nonzero()
        if rows.shape[0] > 4:
            raise ValueError("too many")
        assert rows.shape[0] < 5
        if rows.shape[0] > 2:
            self.x.mul_(0.5)
        count = self.active.sum().item()
        if count > 4:
            raise ValueError("too many")
        if count > 2:
            self.x.mul_(0.5)
        return self.x
"""
    found = audit_text(tmp_path, program).findings
    assert [(f.place.line, f.code) for f in found if f.code in ("CAP101", "CAP202")] == [
        (12, "CAP202"),
        (14, "CAP101"),
        (17, "CAP202"),
    ]


def test_a_buffer_that_a_view_shows_again_is_not_bound_anew(tmp_path: Path) -> None:
    program = """
import torch
import omni.physics.tensors.impl.api as physx
class Env:
    def __init__(self, view: physx.ArticulationView):
        self.view = view
        self.speed = view.get_dof_velocities()
        self.last = view.get_dof_velocities().clone()
    def step(self):
        change = self.speed - self.last
        self.speed = self.view.get_dof_velocities()[:, :3].unsqueeze(1)
        self.last = self.view.get_dof_velocities().clone()
        return change
"""
    found = audit_text(tmp_path, program).findings
    assert [(f.place.line, f.code) for f in found] == [(11, "CAP402"), (12, "CAP304"), (12, "CAP402")]
