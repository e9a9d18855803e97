"""Both versions run on the CPU and have to agree in every value and type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.audit.fixes.programs import fixed, program
from tests.audit.fixes.test_rewrites import SAFE, UNSAFE

torch = pytest.importorskip("torch")

MORE = {
    # empty, repeated and negative ids; numbers of other types than the elements
    "i = torch.arange(0, device='cuda')\nself.x[i] = 1.0": "",
    "i = self.ids - 64\nself.rows[i] = 3": "",
    "i = torch.arange(4, device='cuda')\nself.half[i] = 0.1": "",
    "i = torch.arange(4, device='cuda')\nself.count[i] = True": "",
    "i = self.short\nself.rows[i, 1:] = -2.5": "",
    "i = self.flag.nonzero()\nself.x[i] = 2.0": "",
    # special values pass through a mask and through bounds
    "m = self.x > 0\nself.y[3] = float('nan')\nself.x[m] = self.y[m]": "",
    "self.x[5] = float('nan')\nself.y = self.x.clamp(min=torch.tensor(-0.5, device='cuda'))": "",
    "self.half = torch.where(self.flag, self.half, torch.tensor(0.5, device='cuda'))": "",
    "self.count = torch.where(self.flag, self.count, torch.tensor(7, device='cuda'))": "",
    "self.y = self.half.clamp(max=torch.tensor(1, device='cuda'))": "",
}
PROGRAMS = [body for body in (*SAFE, *UNSAFE, *MORE) if "wp." not in body and "CUDAGraph" not in body]


def run(source: str, seed: int) -> dict[str, Any]:
    names: dict[str, Any] = {}
    code = source.replace('"cuda"', '"cpu"').replace("'cuda'", "'cpu'").replace("import warp as wp\n", "")
    exec(compile(code, "robot.py", "exec"), names)
    robot = names["Robot"](seed)
    for _ in range(2):
        robot.step()
    return dict(vars(robot))


@pytest.mark.parametrize("body", PROGRAMS)
def test_the_fixed_program_computes_the_same(tmp_path: Path, body: str) -> None:
    # What the step computes is kept, so that it can be compared.
    before = program(body.replace("a = torch", "self.a = torch").replace("a = self", "self.a = self"))
    rewrite = fixed(tmp_path, before, unsafe=True)
    assert rewrite is not None
    assert rewrite.fixes
    for seed in range(3):
        old, new = run(before, seed), run(rewrite.after.decode(), seed)
        assert old.keys() == new.keys()
        for name, value in old.items():
            if isinstance(value, torch.Tensor):
                assert new[name].dtype == value.dtype, name
                assert torch.equal(torch.nan_to_num(new[name]), torch.nan_to_num(value)), name
                assert torch.equal(new[name].isnan(), value.isnan()), name
            else:
                assert new[name] == value


def test_a_log_entry_reads_the_same_number(tmp_path: Path) -> None:
    source = program('self.log["loss"] = self.x.abs().mean().item()') + (
        "\n    def report(self) -> dict:  # capaudit: completion-owned -- after the replay\n"
        '        return {"loss": self.log["loss"]}\n'
    )
    rewrite = fixed(tmp_path, source, unsafe=True)
    assert rewrite is not None
    numbers = []
    for text in (source, rewrite.after.decode()):
        names: dict[str, Any] = {}
        exec(text.replace('"cuda"', '"cpu"').replace("import warp as wp\n", ""), names)
        robot = names["Robot"](3)
        robot.step()
        numbers.append(robot.report()["loss"])
    assert isinstance(numbers[1], float)
    assert numbers[0] == numbers[1]
