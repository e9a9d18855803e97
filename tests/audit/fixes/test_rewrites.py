from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.fixes.programs import findings, fixed, fixed_body, program

SAFE = {
    # a number through integer ids
    "i = self.ids\nself.x[i] = 0.0": "i = self.ids\nself.x.index_fill_(0, i.long(), 0.0)",
    "i = self.x.argsort()[:3]\nself.x[i] = 0.0": "i = self.x.argsort()[:3]\nself.x.index_fill_(0, i, 0.0)",
    "self.x[self.flag.nonzero()] = 1.0": "self.x.index_fill_(0, self.flag.nonzero().flatten(), 1.0)",
    "self.x[torch.arange(3, device='cuda')] = -1.5": "self.x.index_fill_(0, torch.arange(3, device='cuda'), -1.5)",
    "i = torch.arange(3, device='cuda')\nself.rows[i, 1] = 2": (
        "i = torch.arange(3, device='cuda')\nself.rows[:, 1].index_fill_(0, i, 2)"
    ),
    "i = torch.arange(3, device='cuda')\nself.rows[:, i] = 2.0": (
        "i = torch.arange(3, device='cuda')\nself.rows.index_fill_(1, i, 2.0)"
    ),
    "i = torch.arange(2, device='cuda')\nself.cube[i, :, 1:2] = 2.0": (
        "i = torch.arange(2, device='cuda')\nself.cube[:, :, 1:2].index_fill_(0, i, 2.0)"
    ),
    "i = torch.arange(2, device='cuda')\nself.cube[0, i] = 2.0": (
        "i = torch.arange(2, device='cuda')\nself.cube[0, :].index_fill_(0, i, 2.0)"
    ),
    "i = torch.arange(3, device='cuda')\nself.flag[i] = True": (
        "i = torch.arange(3, device='cuda')\nself.flag.index_fill_(0, i, True)"
    ),
    "i = torch.arange(3, device='cuda')\nself.x[i] = 1.0; self.y[i] = 2.0  # both": (
        "i = torch.arange(3, device='cuda')\nself.x.index_fill_(0, i, 1.0); self.y.index_fill_(0, i, 2.0)  # both"
    ),
    # a constant tensor as an operand
    "self.x = torch.where(self.flag, self.x, torch.tensor(0.0, device='cuda'))": (
        "self.x = torch.where(self.flag, self.x, 0.0)"
    ),
    "a = torch.where(self.flag, torch.tensor(1, device='cuda'), self.count)": (
        "a = torch.where(self.flag, 1, self.count)"
    ),
    "a = torch.clamp(self.x, torch.tensor(-1.0, device='cuda'), torch.tensor(1.0, device='cuda'))": (
        "a = torch.clamp(self.x, -1.0, 1.0)"
    ),
    "a = self.x.clamp(min=torch.tensor(0.5, dtype=self.x.dtype, device='cuda'))": "a = self.x.clamp(min=0.5)",
    # a tensor through a mask
    "m = self.x > 0\nself.x[m] = self.y[m]": "m = self.x > 0\nself.x.copy_(torch.where(m, self.y, self.x))",
    "m = self.x > 0\nr = self.rows * 2.0\nself.rows[m] = r[m]": (
        "m = self.x > 0\nr = self.rows * 2.0\nself.rows.copy_(torch.where(m.unsqueeze(-1), r, self.rows))"
    ),
    "m = self.x > 0\nc = self.cube * 2.0\nself.cube[m] = c[m]": (
        "m = self.x > 0\nc = self.cube * 2.0\nself.cube.copy_(torch.where(m[..., None, None], c, self.cube))"
    ),
    "m = self.x > 0\nself.x[m] = self.level": "m = self.x > 0\nself.x.copy_(torch.where(m, self.level, self.x))",
    # positions of a mask that only serve an assignment
    "m = self.x > 0\ni = m.nonzero().squeeze(-1)\nself.x[i] = 0.0": "m = self.x > 0\nself.x.masked_fill_(m, 0.0)",
    "i = torch.nonzero(self.x < 1.0, as_tuple=True)[0]\nself.x[i] = 1.0": ("self.x.masked_fill_(self.x < 1.0, 1.0)"),
    # Warp's stream inside the capture's own block
    "g = torch.cuda.CUDAGraph()": None,
}

UNSAFE = {
    "a = torch.maximum(self.x, torch.tensor(0.0, device='cuda'))": "a = torch.clamp(self.x, min=0.0)",
    "a = self.x.minimum(torch.tensor(1, device='cuda'))": "a = self.x.clamp(max=1)",
    "a = torch.where(self.flag, self.x, torch.tensor(0.1, device='cuda'))": "a = torch.where(self.flag, self.x, 0.1)",
    "i = self.flag.nonzero().flatten()\nself.rows[i] = 0.0": "self.rows.masked_fill_(self.flag.unsqueeze(-1), 0.0)",
    "with wp.ScopedStream(wp.get_stream()):\n    pass": (
        "with wp.ScopedStream(wp.get_stream(), sync_enter=False):\n    pass"
    ),
    "with wp.ScopedStream(\n    wp.get_stream(),  # Torch's\n    sync_enter=True,\n):\n    pass": (
        "with wp.ScopedStream(\n    wp.get_stream(),  # Torch's\n    sync_enter=False,\n):\n    pass"
    ),
}

NEVER = [
    "self.x[[0, 1]] = 0.0",  # a Python list: building the index belongs to the cold path
    "self.x[3] = 0.0",  # a single element is no ids
    "i = self.ids\nself.count[i] = 0.5",  # an integer tensor would cut the number
    "i = self.ids\nself.flag[i] = 2",
    "i = self.ids\nself.x[i, ...] = 0.0",
    "i = self.ids\nself.rows[i, i] = 0.0",
    "i = self.ids\nself.x[i] = self.y[i]",
    "a = b = 0\nself.x[self.ids] = a = 0.0",
    "a = torch.where(self.flag, self.count, torch.tensor(0.0, device='cuda'))",  # would promote the integers alike? no
    "a = torch.where(self.flag, self.level, torch.tensor(0.0, device='cuda'))",  # two 0-dim tensors promote otherwise
    "a = torch.where(self.flag, self.x, torch.tensor([0.0], device='cuda'))",
    "a = torch.where(self.flag, self.x, torch.tensor(0.1, dtype=torch.float16, device='cuda'))",
    "a = torch.where(self.flag, self.x, torch.tensor(0.0, device='cuda', requires_grad=True))",
    "a = torch.clamp(self.x, torch.tensor(0.0, device='cuda'), self.y)",  # clamp takes no mixture
    "a = torch.add(self.x, torch.tensor(0.0, device='cuda'))",
    "m = self.x > 0\nself.x[m] = self.y[self.flag]",  # two masks: rows meet by their order
    "m = self.x > 0\nself.x[m] = torch.randn(64, device='cuda')[m] * 2",
    "m = self.x > 0\nself.x[m] = self.count[m]",  # another kind of element
    "m = self.x > 0\nself.rows[m] = self.y[m]",  # other axes: rows would broadcast
    "i = self.flag.nonzero().squeeze(-1)\nself.x[i] = 0.0\nn = i.shape[0]",
    "self.log['loss'] = self.x.mean().item()",  # no declared owner reads it
]


def marked(source: dict[str, str | None]) -> list[tuple[str, str]]:
    return [(before, after) for before, after in source.items() if after is not None]


@pytest.mark.parametrize(("before", "after"), marked(SAFE))
def test_a_certain_rewrite_is_safe_and_keeps_the_rest(tmp_path: Path, before: str, after: str) -> None:
    assert fixed_body(tmp_path, before) == after


@pytest.mark.parametrize(("before", "after"), marked(UNSAFE))
def test_a_rewrite_that_rests_on_more_waits_for_a_person_and_says_on_what(
    tmp_path: Path, before: str, after: str
) -> None:
    safe = fixed_body(tmp_path, before)
    assert safe is None or "masked_fill_" not in safe
    assert fixed_body(tmp_path, before, unsafe=True) == after
    messages = [f.fix.message for f in findings(tmp_path, program(before)) if f.fix and not f.fix.safe]
    assert all(";" in message for message in messages)


@pytest.mark.parametrize("body", NEVER)
def test_what_is_not_certain_is_not_proposed(tmp_path: Path, body: str) -> None:
    after = fixed_body(tmp_path, body, unsafe=True)
    assert after is None or "index_fill_" in after


def test_ids_from_a_parameter_are_unsafe_and_stay_as_they_are_written(tmp_path: Path) -> None:
    source = program("self.restart(self.x.argsort()[:3])") + (
        "\n    def restart(self, ids: torch.Tensor) -> None:\n        self.x[ids] = 0.0\n"
    )
    assert fixed(tmp_path, source) is None
    rewrite = fixed(tmp_path, source, unsafe=True)
    assert rewrite is not None
    assert "self.x.index_fill_(0, ids, 0.0)" in rewrite.after.decode()


@pytest.mark.parametrize("annotation", ["torch.Tensor | slice", "torch.Tensor | None", "object"])
def test_a_parameter_that_may_be_no_tensor_forbids_the_rewrite(tmp_path: Path, annotation: str) -> None:
    source = program("self.restart(self.x.argsort()[:3])") + (
        f"\n    def restart(self, ids: {annotation}) -> None:\n        rows = ids\n        self.x[rows] = 0.0\n"
    )
    assert fixed(tmp_path, source, unsafe=True) is None


def test_a_second_way_in_that_disagrees_forbids_the_rewrite(tmp_path: Path) -> None:
    source = program("self.restart(self.x.argsort()[:3])\nself.restart(self.x > 0)") + (
        "\n    def restart(self, ids: torch.Tensor) -> None:\n        self.x[ids] = 0.0\n"
    )
    assert fixed(tmp_path, source, unsafe=True) is None


def test_warps_stream_in_the_captures_own_block_is_safe(tmp_path: Path) -> None:
    source = (
        "import torch\nimport warp as wp\n\ngraph = torch.cuda.CUDAGraph()\nx = torch.zeros(4, device='cuda')\n\n\n"
        "def record() -> None:\n    with torch.cuda.graph(graph):\n"
        "        with wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream())):\n            x.add_(1)\n"
    )
    rewrite = fixed(tmp_path, source)
    assert rewrite is not None
    assert "torch.cuda.current_stream()), sync_enter=False):" in rewrite.after.decode()


OWNER = """
    def report(self) -> dict:  # capaudit: completion-owned -- after the replay
        return {"loss": self.log["loss"]}
"""


def test_a_log_entry_is_read_where_its_declared_owner_reads_it(tmp_path: Path) -> None:
    source = program('self.log["loss"] = self.x.abs().mean().item()') + OWNER
    assert fixed(tmp_path, source) is None
    rewrite = fixed(tmp_path, source, unsafe=True)
    assert rewrite is not None
    after = rewrite.after.decode()
    assert 'self.log["loss"] = self.x.abs().mean()\n' in after
    assert '{"loss": self.log["loss"].item()}' in after


@pytest.mark.parametrize(
    "other",
    [
        "\n    def anyone(self) -> float:\n        return self.log['loss']\n",
        "\n    def anyone(self) -> dict:\n        return dict(self.log)\n",
        "\n    def anyone(self) -> None:\n        self.log['loss'] = 1.0\n",
        "\n    def anyone(self) -> None:\n        getattr(self, 'log').clear()\n",
    ],
)
def test_a_log_that_anyone_else_touches_stays(tmp_path: Path, other: str) -> None:
    source = program('self.log["loss"] = self.x.abs().mean().item()') + OWNER + other
    assert fixed(tmp_path, source, unsafe=True) is None


def test_two_boundaries_have_to_agree(tmp_path: Path) -> None:
    source = program("self.restart(self.x.argsort()[:3])") + (
        "\n    def other(self) -> None:  # capaudit: boundary\n        self.restart([0, 1])\n"
        "\n    def restart(self, ids: torch.Tensor) -> None:\n        self.x[ids] = 0.0\n"
    )
    assert fixed(tmp_path, source, unsafe=True) is None
