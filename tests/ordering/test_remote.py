"""O25: records of remote checkpoints, through a callable."""

from __future__ import annotations

from pathlib import Path

import pytest

from capaudit.ordering import (
    ConflictError,
    NoRecordError,
    OrderingUsageError,
    Record,
    RemoteError,
    dump_record,
    fetch_record,
    from_checkpoint,
)
from tests.ordering.robots import GO1_BY_KIND, GO1_JOINTS, entry

URL = "https://example.org/runs/a/model_1.pt"


class Server:
    def __init__(self, files: dict[str, bytes | Exception]) -> None:
        self.files = files
        self.asked: list[str] = []

    def __call__(self, url: str) -> bytes | None:
        self.asked.append(url)
        found = self.files.get(url)
        if isinstance(found, Exception):
            raise found
        return found


def text(joints: tuple[str, ...] = GO1_JOINTS, *applies_to: str) -> bytes:
    return dump_record(Record({"robot": entry(joints)}, applies_to=applies_to)).encode()


def test_o25_the_record_beside_a_remote_checkpoint_is_fetched_into_a_folder_of_its_own(tmp_path: Path) -> None:
    server = Server({"https://example.org/runs/a/params/ordering.yaml": text()})
    found = fetch_record(URL, server, tmp_path)
    other = fetch_record(
        "https://example.org/runs/b/model_1.pt",
        Server({"https://example.org/runs/b/model_1.ordering.yaml": text(GO1_BY_KIND)}),
        tmp_path,
    )
    assert found.status == other.status == "found"
    assert found.path != other.path
    assert Path(str(found.path)).is_file()
    assert from_checkpoint(URL, joint_names=GO1_JOINTS, fetch=server, cache=tmp_path).verdict == "identity"


@pytest.mark.parametrize("gone", [None, FileNotFoundError("404")])
def test_o25_not_found_and_network_error_are_two_things(tmp_path: Path, gone: Exception | None) -> None:
    files = {} if gone is None else {"https://example.org/runs/a/params/ordering.yaml": gone}
    nothing = Server(dict(files))
    assert fetch_record(URL, nothing, tmp_path).status == "not-found"
    with pytest.raises(NoRecordError) as caught:
        from_checkpoint(URL, joint_names=GO1_JOINTS, fetch=nothing, cache=tmp_path)
    assert caught.value.code == "no-record"
    broken = Server({"https://example.org/runs/a/params/ordering.yaml": TimeoutError("slow")})
    assert fetch_record(URL, broken, tmp_path).status == "network-error"
    with pytest.raises(RemoteError, match="TimeoutError: slow") as failed:
        from_checkpoint(URL, joint_names=GO1_JOINTS, fetch=broken, cache=tmp_path)
    assert failed.value.code == "network-error"


def test_o25_a_plain_sibling_counts_only_when_it_names_the_checkpoint(tmp_path: Path) -> None:
    sibling = "https://example.org/runs/a/ordering.yaml"
    assert fetch_record(URL, Server({sibling: text()}), tmp_path).status == "not-found"
    assert fetch_record(URL, Server({sibling: text(GO1_JOINTS, "model_1.pt")}), tmp_path).status == "found"


def test_o25_folders_of_checkpoints_look_at_their_parent(tmp_path: Path) -> None:
    server = Server({"s3://bucket/run/params/ordering.yaml": text()})
    assert fetch_record("s3://bucket/run/checkpoints/agent.pt?versionId=3", server, tmp_path).status == "found"


def test_o25_two_remote_records_that_differ_are_a_conflict(tmp_path: Path) -> None:
    files: dict[str, bytes | Exception] = {
        "https://example.org/runs/a/params/ordering.yaml": text(),
        "https://example.org/runs/a/model_1.ordering.yaml": text(GO1_BY_KIND),
    }
    with pytest.raises(ConflictError):
        fetch_record(URL, Server(files), tmp_path)


def test_o25_without_a_callable_a_url_is_refused() -> None:
    with pytest.raises(OrderingUsageError, match="nothing here opens connections"):
        from_checkpoint(URL, joint_names=GO1_JOINTS)
