"""What is measured: facts read as idioms, selection, fingerprints."""

from dataclasses import replace
from pathlib import Path

import pytest

from capaudit.knowledge.idioms import Idiom
from capaudit.model import InputError
from capaudit.probe.ops_idioms import digest, library, load_facts, select, to_entry

COPY = Idiom(id="copy", op="torch.Tensor.copy_", body="y.copy_(x)", capture="ok", file="")


def test_facts_are_read_as_idioms(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text(
        '{"meta": {"gpu": "some"}}\n'
        '{"name": "late", "setup": "", "body": "y.add_(1)", "capture": "wrong_on_replay", "eager_sync": false}\n'
    )
    (fact,) = load_facts(path)
    assert (fact.id, fact.body, fact.capture) == ("late", "y.add_(1)", "wrong-on-replay")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"name": "x"', "not JSON"),
        ("[]", "is an object"),
        ('{"name": "x", "body": "pass", "capture": "perhaps"}', "'perhaps'"),
        ('{"name": "x", "capture": "ok"}', "'body'"),
        ('{"name": "x", "body": "x =", "capture": "ok"}', "invalid syntax"),
        ('{"name": "first", "body": "pass", "capture": "ok"}', "used twice"),
    ],
)
def test_a_faulty_fact_is_refused_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text('{"name": "first", "body": "pass", "capture": "ok"}\n' + line)
    with pytest.raises(InputError, match=message) as caught:
        load_facts(path)
    assert caught.value.place == f"{path}:2"


def test_selection_takes_prefixes_and_globs() -> None:
    idioms = [replace(COPY, id=name) for name in ("set-item", "set-row", "get-item")]
    assert [idiom.id for idiom in select(idioms, ["set"])] == ["set-item", "set-row"]
    assert [idiom.id for idiom in select(idioms, ["*-item"])] == ["set-item", "get-item"]
    assert len(select(idioms, [])) == 3
    with pytest.raises(InputError, match="nothing matches"):
        select(idioms, ["put"])


def test_the_library_of_a_version_range_follows_the_operation() -> None:
    assert library(replace(COPY, op="warp.launch")) == "warp"
    assert library(replace(COPY, op="python.bool")) == "torch"


def test_a_fingerprint_follows_the_program_alone() -> None:
    assert digest(COPY) == digest(replace(COPY, id="other", capture="fails", op="other"))
    changed = [replace(COPY, setup="pass"), replace(COPY, body="pass"), replace(COPY, mutate="pass")]
    assert len({digest(idiom) for idiom in (COPY, *changed)}) == 4


def test_only_what_is_expected_to_capture_shares_a_process() -> None:
    assert to_entry(COPY)["shareable"] is True
    assert to_entry(replace(COPY, capture="fails"))["shareable"] is False
    assert to_entry(replace(COPY, body="wp.launch(k, dim=64)"))["shareable"] is False
