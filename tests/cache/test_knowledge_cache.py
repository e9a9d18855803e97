from __future__ import annotations

from pathlib import Path

import pytest

from capaudit.cache import store
from capaudit.knowledge import load


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("knowledge-*.bin"))


def test_the_cache_gives_the_same_knowledge(tmp_path: Path) -> None:
    fresh = load(cache_folder=tmp_path)
    assert len(files(tmp_path)) == 1
    assert load(cache_folder=tmp_path) == fresh


def test_a_corrupt_cache_is_ignored_and_replaced(tmp_path: Path) -> None:
    fresh = load(cache_folder=tmp_path)
    (stored,) = files(tmp_path)
    data = stored.read_bytes()
    stored.write_bytes(data[:200] + b"\xff" + data[201:])
    assert load(cache_folder=tmp_path) == fresh
    assert stored.read_bytes() == data


@pytest.mark.parametrize("data", [b"", b"short", bytes(64)])
def test_a_file_that_is_no_cache_reads_as_nothing(tmp_path: Path, data: bytes) -> None:
    store.write("knowledge", "k", ("value",), tmp_path)
    (stored,) = files(tmp_path)
    stored.write_bytes(data)
    assert store.read("knowledge", "k", tmp_path) is None


def test_a_folder_that_cannot_be_made_changes_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    assert load(cache_folder=blocked / "below").rules


def test_changed_content_has_another_key() -> None:
    assert store.content_key([("a", b"1")]) != store.content_key([("a", b"2")])
    assert store.content_key([("a", b"1")]) != store.content_key([("b", b"1")])
    assert store.content_key([("a", b"12"), ("b", b"")]) != store.content_key([("a", b"1"), ("b", b"2")])


def test_the_environment_chooses_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPAUDIT_CACHE_DIR", str(tmp_path))
    assert store.folder() == str(tmp_path)
    monkeypatch.delenv("CAPAUDIT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.folder() == str(tmp_path / "capaudit")
