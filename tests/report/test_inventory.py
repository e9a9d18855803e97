from __future__ import annotations

from capaudit.report.inventory import Row, render_markdown, render_text, rows
from capaudit.report.markdown import cell
from tests.report.sample import sample


def test_equal_operations_of_one_owner_are_one_row_with_their_count() -> None:
    assert rows(sample(), "tick") == (
        Row("torch.Tensor.add_", "timers.Timers.tick", "graph-eligible", "device work | fixed shape", 2),
        Row("index-set", "timers.Timers.restart", "rejected", "host-to-device-copy: the number is uploaded", 1),
    )


def test_the_markdown_table_has_a_row_per_operation_and_owner() -> None:
    report = render_markdown(sample())
    assert "| Operation | Owner path | Class | Reason | Count |\n|---|---|---|---|---|\n" in report
    assert (
        "| `torch.Tensor.add_` | `timers.Timers.tick` | graph-eligible | device work \\| fixed shape | 2 |\n" in report
    )


def test_both_forms_close_with_the_count_per_class() -> None:
    totals = "3 operations: 2 graph-eligible, 0 completion-owned, 0 cold-path, 1 rejected, 0 unresolved"
    assert totals in render_text(sample())
    assert totals in render_markdown(sample())


def test_text_columns_are_aligned() -> None:
    lines = [line for line in render_text(sample()).splitlines() if "timers.Timers" in line]
    assert len({line.index("timers.Timers") for line in lines}) == 1


def test_nothing_audited_is_said() -> None:
    empty = sample(boundaries=())
    assert "nothing was audited" in render_text(empty)
    assert "nothing was audited" in render_markdown(empty)


def test_source_text_cannot_break_out_of_a_cell() -> None:
    assert cell("a | b <i> `x<y` __z__") == "a \\| b &lt;i&gt; `x<y` \\_\\_z\\_\\_"
    assert cell("one ` tick\nand a break") == "one \\` tick and a break"
