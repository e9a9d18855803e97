"""Idioms and facts as data: what is read, what is refused, and where the error points."""

from pathlib import Path

import pytest

from capaudit.model import InputError
from capaudit.probe.ops_idioms import Idiom, load_facts, load_idioms, select


def write(folder: Path, text: str) -> Path:
    (folder / "some.toml").write_text(text)
    return folder


def test_the_shipped_idioms_load() -> None:
    idioms = load_idioms()
    assert len({idiom.id for idiom in idioms}) == len(idioms) > 0


def test_an_idiom_is_read_whole(tmp_path: Path) -> None:
    text = """
[[idiom]]
id = "read"
op = "torch.Tensor.item"
setup = "z = x + 1"
body = "z.item()"
mutate = "z.zero_()"
capture = "fails"
hazard = "CAP101"
twin = "kept"
versions = ">=2.0,<3"
"""
    assert load_idioms(write(tmp_path, text)) == (
        Idiom(
            id="read",
            op="torch.Tensor.item",
            setup="z = x + 1",
            body="z.item()",
            mutate="z.zero_()",
            capture="fails",
            hazard="CAP101",
            twin="kept",
            versions=">=2.0,<3",
        ),
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('id = "a"\nbody = "pass"\ncapture = "perhaps"', "'perhaps'"),
        ('id = "a"\ncapture = "ok"', "'body' is missing"),
        ('id = "a"\nbody = "pass"\ncapture = "ok"\ncolour = "red"', "'colour'"),
        ('id = "a"\nbody = 3\ncapture = "ok"', "'body' is a string"),
        ('id = "a"\nbody = "x ="\ncapture = "ok"', "a: invalid syntax"),
        ('id = "a"\nbody = "pass"\ncapture = "ok"\nversions = "new"', "not a version bound"),
    ],
)
def test_a_faulty_idiom_is_refused_with_its_place(entry: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_idioms(write(tmp_path, f"[[idiom]]\n{entry}\n"))
    assert caught.value.place is not None
    assert caught.value.place.endswith("some.toml: idiom[0]")


@pytest.mark.parametrize("text", ["[[idiom]", "idiom = 3", ""])
def test_a_file_that_holds_no_idioms_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        load_idioms(write(tmp_path, text))


def test_an_id_is_used_once(tmp_path: Path) -> None:
    entry = '[[idiom]]\nid = "a"\nbody = "pass"\ncapture = "ok"\n'
    with pytest.raises(InputError, match="used twice"):
        load_idioms(write(tmp_path, entry * 2))


def test_facts_are_read_as_idioms(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text(
        '{"meta": {"gpu": "some"}}\n'
        '{"name": "late", "setup": "", "body": "y.add_(1)", "capture": "wrong_on_replay", "eager_sync": false}\n'
    )
    assert load_facts(path) == (Idiom("late", "y.add_(1)", "wrong-on-replay"),)


def test_a_faulty_fact_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text('{"meta": {}}\n{"name": "x"')
    with pytest.raises(InputError) as caught:
        load_facts(path)
    assert caught.value.place == f"{path}:2"


def test_selection_takes_prefixes_and_globs() -> None:
    idioms = [Idiom(name, "pass", "ok") for name in ("set-item", "set-row", "get-item")]
    assert [idiom.id for idiom in select(idioms, ["set"])] == ["set-item", "set-row"]
    assert [idiom.id for idiom in select(idioms, ["*-item"])] == ["set-item", "get-item"]
    assert len(select(idioms, [])) == 3
    with pytest.raises(InputError, match="nothing matches"):
        select(idioms, ["put"])


def test_the_library_of_a_version_range_follows_the_operation() -> None:
    assert Idiom("a", "pass", "ok", op="warp.launch").library == "warp"
    assert Idiom("a", "pass", "ok", op="python.bool").library == "torch"
