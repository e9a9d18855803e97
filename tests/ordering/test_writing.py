"""Written once, whole or not at all: O10 to O12."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from capaudit.ordering import (
    CorruptRecordError,
    OrderingUsageError,
    Record,
    WriteConflictError,
    dump_record,
    install_recorder,
    load_record,
    record_entries,
    write_record,
)
from capaudit.ordering import writing as writing_module
from tests.conftest import ROOT
from tests.ordering.robots import GO1_BODIES, GO1_BY_KIND, GO1_JOINTS, entry, write_run

POINTS = 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_o10_a_writer_killed_at_200_points_leaves_no_record_or_a_whole_one(tmp_path: Path) -> None:
    """The child dies before the Nth line that the writer runs; its write calls are cut short to make many lines."""
    subprocess.run(
        [sys.executable, "-m", "tests.ordering.writer_child", str(tmp_path), "1", str(POINTS + 1)],
        check=True,
        cwd=ROOT,
        timeout=120,
    )
    outcomes = {"absent": 0, "whole": 0}
    for point in range(1, POINTS + 1):
        path = tmp_path / f"run_{point}" / "params" / "ordering.yaml"
        status = (tmp_path / f"run_{point}.status").read_text()
        if path.exists():
            assert load_record(path).articulations["robot"].public_joint_names == GO1_BY_KIND
            outcomes["whole"] += 1
        else:
            assert status == "killed"
            outcomes["absent"] += 1
    killed = sum((tmp_path / f"run_{point}.status").read_text() == "killed" for point in range(1, POINTS + 1))
    assert outcomes["absent"] > 50  # the points really lie before the link ...
    assert outcomes["whole"] > 5  # ... and behind it
    assert killed > 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_o10_a_killed_writer_never_costs_the_record_that_stood_there(tmp_path: Path) -> None:
    for point in range(1, 31):
        write_run(tmp_path / f"run_{point}", robot=entry(GO1_JOINTS, GO1_BODIES))
    subprocess.run(
        [sys.executable, "-m", "tests.ordering.writer_child", str(tmp_path), "1", "31"],
        check=False,
        cwd=ROOT,
        timeout=120,
        capture_output=True,
    )
    for point in range(1, 31):
        path = tmp_path / f"run_{point}" / "params" / "ordering.yaml"
        assert load_record(path).articulations["robot"].public_joint_names == GO1_JOINTS


def test_o10_writers_at_the_same_time_leave_one_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "params" / "ordering.yaml"
    orders = [GO1_JOINTS, GO1_BY_KIND]
    results: list[str] = []
    start = threading.Barrier(16)

    def write(index: int) -> None:
        start.wait()
        try:
            results.append("written" if write_record(Record({"robot": entry(orders[index % 2])}), path) else "same")
        except WriteConflictError:
            results.append("conflict")

    threads = [threading.Thread(target=write, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(["written", *["same"] * 7, *["conflict"] * 8])
    assert load_record(path).articulations["robot"].public_joint_names in orders
    assert os.listdir(path.parent) == ["ordering.yaml"]


def test_o10_a_file_system_without_hard_links_is_served_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(writing_module.os, "link", no_links)
    path = tmp_path / "params" / "ordering.yaml"
    assert write_record(Record({"robot": entry()}), path)
    with pytest.raises(WriteConflictError):
        write_record(Record({"robot": entry(GO1_BY_KIND)}), path)
    assert os.listdir(path.parent) == ["ordering.yaml"]


@pytest.mark.parametrize("call", ["write", "fsync", "open", "link", "mkdir"])
def test_o10_a_full_disk_or_a_lost_permission_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing_module.os, call, fail)
    if call == "link":
        monkeypatch.setattr(writing_module.os, "rename", fail)
    path = tmp_path / "params" / "ordering.yaml"
    with pytest.raises(OrderingUsageError, match="No space left"):
        write_record(Record({"robot": entry()}), path)
    monkeypatch.undo()
    assert not path.exists()
    assert not path.parent.exists() or os.listdir(path.parent) == []


def test_o10_only_rank_0_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"robot": entry()}
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        monkeypatch.setenv(name, "3")
        assert record_entries(entries, tmp_path / "ordering.yaml").action == "other-rank"
        monkeypatch.delenv(name)
    assert not (tmp_path / "ordering.yaml").exists()
    # Tasks of a job array are trainings of their own.
    monkeypatch.setenv("SLURM_PROCID", "3")
    assert record_entries(entries, tmp_path / "a" / "ordering.yaml").action == "written"
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert record_entries(entries, tmp_path / "b" / "ordering.yaml").action == "other-rank"
    assert record_entries(entries, tmp_path / "b" / "ordering.yaml", rank=0).action == "written"


def test_o10_torch_s_rank_decides_where_it_is_initialised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 1)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=distributed))
    assert record_entries({"robot": entry()}, tmp_path / "ordering.yaml").action == "other-rank"


def test_o10_recording_before_the_articulation_is_initialised_is_refused(tmp_path: Path) -> None:
    early = SimpleNamespace(is_initialized=False)
    env = SimpleNamespace(scene=SimpleNamespace(articulations={"robot": early}))
    with pytest.raises(OrderingUsageError, match="not initialised yet"):
        install_recorder(env, tmp_path)


def test_o11_the_same_content_again_leaves_the_file_untouched(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    before = path.stat()
    content = path.read_bytes()
    assert record_entries({"robot": entry()}, path, provenance={"task": "another"}).action == "unchanged"
    after = path.stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    assert path.read_bytes() == content


def test_o11_different_content_is_an_error_that_shows_the_differing_fields(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    content = path.read_bytes()
    with pytest.raises(WriteConflictError) as caught:
        record_entries({"robot": entry(GO1_BY_KIND, backend="newton"), "arm": entry(("a",), ("b",))}, path)
    assert set(caught.value.details["differing"]) == {
        "arm (only in one of them)",
        "robot.backend",
        "robot.backend_joint_names",
        "robot.public_joint_names",
    }
    assert caught.value.status == 7
    assert path.read_bytes() == content


def test_o11_a_broken_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "ordering.yaml"
    path.write_text("half a reco")
    with pytest.raises(CorruptRecordError):
        record_entries({"robot": entry()}, path)
    assert path.read_text() == "half a reco"


@pytest.mark.parametrize("folder", ["checkpoints", "nn"])
def test_o12_no_record_goes_into_a_folder_of_checkpoints_unless_asked_to(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "ordering.yaml"
    with pytest.raises(OrderingUsageError, match=r"takes? any file there for a checkpoint"):
        record_entries({"robot": entry()}, path)
    assert not path.parent.exists()
    with pytest.warns(UserWarning, match="any file in this folder for a checkpoint"):
        assert record_entries({"robot": entry()}, path, allow_checkpoint_folder=True).action == "written"


def test_the_record_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    (tmp_path / "other").touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OrderingUsageError, match="Permission denied"):
            write_run(tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "ordering.yaml"
    path.symlink_to(tmp_path / "elsewhere.yaml")
    with pytest.raises(Exception, match="no such file"):
        record_entries({"robot": entry()}, path)
    assert not (tmp_path / "elsewhere.yaml").exists()


def test_the_text_of_a_record_is_the_same_for_the_same_record() -> None:
    record = Record({"robot": entry(), "arm": entry(("a",), ("b",))}, {"created": "x"})
    assert dump_record(record) == dump_record(record)


@pytest.mark.parametrize("folder", ["checkpoints", "nn"])
def test_o12_a_folder_of_checkpoints_is_no_run_folder_either(tmp_path: Path, folder: str) -> None:
    """Nothing looks in ``nn/params``, so a record there would never be found again."""
    path = tmp_path / folder / "params" / "ordering.yaml"
    with pytest.raises(OrderingUsageError, match="not written into"):
        record_entries({"robot": entry()}, path)
    with pytest.warns(UserWarning, match="checkpoint"):
        record_entries({"robot": entry()}, path, allow_checkpoint_folder=True)
