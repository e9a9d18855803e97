"""O14: a run that resumes a checkpoint has to keep its order."""

from __future__ import annotations

from pathlib import Path

import pytest

from capaudit.ordering import ConflictError, NoRecordError, record_entries
from tests.ordering.robots import GO1_BODIES, GO1_BY_KIND, GO1_JOINTS, entry, write_run


def test_o14_another_order_than_the_resumed_checkpoint_s_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    write_run(tmp_path / "old", "model.pt")
    with pytest.raises(ConflictError, match="place 1 was 'FL_thigh_joint' and is 'FR_hip_joint'") as caught:
        record_entries(
            {"robot": entry(GO1_BY_KIND)},
            tmp_path / "new" / "ordering.yaml",
            resumed_from=tmp_path / "old" / "model.pt",
        )
    assert caught.value.status == 7
    assert not (tmp_path / "new").exists()


def test_o14_every_rank_is_stopped(tmp_path: Path) -> None:
    write_run(tmp_path / "old", "model.pt")
    with pytest.raises(ConflictError):
        record_entries({"robot": entry(GO1_BY_KIND)}, tmp_path / "o.yaml", resumed_from=tmp_path / "old", rank=3)


def test_o14_the_same_public_order_on_another_backend_may_resume(tmp_path: Path) -> None:
    write_run(tmp_path / "old", "model.pt", robot=entry(("w_0", "w_1"), ("base",)))
    moved = entry(("w:0", "w:1"), ("base",), backend="newton", backend_joint_names=("w:1", "w:0"))
    assert (
        record_entries({"robot": moved}, tmp_path / "o.yaml", resumed_from=tmp_path / "old" / "model.pt").action
        == "written"
    )


def test_o14_lost_articulations_and_changed_bodies_are_named(tmp_path: Path) -> None:
    write_run(tmp_path / "old", robot=entry(), arm=entry(("a",), ("b",)))
    with pytest.raises(ConflictError, match=r"body names: new \['head'\], gone \[\]; articulation 'arm' is gone"):
        record_entries(
            {"robot": entry(GO1_JOINTS, (*GO1_BODIES, "head"))}, tmp_path / "o.yaml", resumed_from=tmp_path / "old"
        )


def test_o14_a_checkpoint_without_a_record_is_an_error_unless_that_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "old.pt").touch()
    entries = {"robot": entry()}
    with pytest.raises(NoRecordError):
        record_entries(entries, tmp_path / "o.yaml", resumed_from=tmp_path / "old.pt")
    outcome = record_entries(entries, tmp_path / "o.yaml", resumed_from=tmp_path / "old.pt", missing_record="ignore")
    assert outcome.action == "written"


def test_o14_another_actuator_order_is_an_error_where_both_know_it(tmp_path: Path) -> None:
    write_run(tmp_path / "old", robot=entry(("a", "b"), ("base",), actuator_names=("m_a", "m_b")))
    turned = {"robot": entry(("a", "b"), ("base",), actuator_names=("m_b", "m_a"))}
    with pytest.raises(ConflictError, match="actuator order: place 0 was 'm_a' and is 'm_b'"):
        record_entries(turned, tmp_path / "o.yaml", resumed_from=tmp_path / "old")
    record_entries({"robot": entry(("a", "b"), ("base",))}, tmp_path / "o.yaml", resumed_from=tmp_path / "old")
