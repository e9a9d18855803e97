"""The registry check finds what it is there to find: each test plants one fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from capaudit.evidence import Environment, Evidence, Record
from capaudit.knowledge import load
from capaudit.knowledge.idioms import Idiom, load_idioms
from capaudit.knowledge.lint import main, problems
from capaudit.knowledge.query import idioms_of, nearest_operations, operations_with
from capaudit.model import ConfigurationError

PAGE = """+++
code = "CAP101"
name = "host-read"
class = "rejected"
title = "A read"
message = "reading waits"
remedy = "do not read"
evidence = ["bad"]
+++
A page that explains in thirty words or more why a value on the device cannot be read while a stream is capturing, and
what a program should do instead of reading it there and then.

```python
x = 1  # expect: CAP101
```

```python
x = 2
```
"""
TABLE = """# What the toy library does.
[table]
library = "torch"
versions = ">=2.0"

[[op]]
names = ["toy.read"]
params = ["x"]
evidence = ["good"]
cases = [{ when = { x = "device" }, hazard = "CAP101", why = "reads", versions = "<2.5", evidence = ["bad"] }]
"""
IDIOMS = """
[[idiom]]
id = "good"
op = "toy.read"
body = "pass"
capture = "ok"
twin = "bad"

[[idiom]]
id = "bad"
op = "toy.read"
body = "pass"
capture = "fails"
hazard = "CAP101"
twin = "good"
"""

Check = Callable[..., list[str]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Write a small registry, with replacements that plant faults, and return its problems."""

    def run(page: tuple[str, str] = ("", ""), table: tuple[str, str] = ("", ""), idioms: tuple[str, str] = ("", ""),
            evidence: tuple[tuple[str, Evidence], ...] = ()) -> list[str]:  # fmt: skip
        for folder in ("operations", "idioms"):
            (tmp_path / folder).mkdir()
        write(tmp_path / "host-read.md", PAGE, page)
        write(tmp_path / "operations" / "toy.toml", TABLE, table)
        write(tmp_path / "idioms" / "toy.toml", IDIOMS, idioms)
        return list(problems(load(folder=tmp_path), load_idioms(tmp_path / "idioms"), evidence))

    return run


def write(path: Path, text: str, change: tuple[str, str]) -> None:
    assert not change[0] or change[0] in text
    path.write_text(text.replace(*change) if change[0] else text, encoding="utf-8")


def test_a_registry_that_is_whole_has_no_problems(check: Check) -> None:
    assert check() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("# What the toy library does.\n", ""), "no prose"),
        (('evidence = ["good"]\n', 'evidence = ["gone"]\n'), "there is no idiom 'gone'"),
        (('evidence = ["good"]\n', 'evidence = ["bad"]\n'), "not the declared verdict"),
        ((', evidence = ["bad"]', ""), "neither evidence nor inferred"),
        ((', evidence = ["bad"]', ', evidence = ["good"]'), "not the declared verdict"),
        ((', why = "reads"', ""), "a hazard without why"),
        (("toy.read", "toy.other"), "no entry describes 'toy.read'"),
    ],
)
def test_a_fault_in_a_table_is_found(check: Check, change: tuple[str, str], message: str) -> None:
    assert any(message in problem for problem in check(table=change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('hazard = "CAP101"\n', ""), "needs its hazard"),
        (('hazard = "CAP101"\n', 'hazard = "CAP777"\n'), "unknown hazard 'CAP777'"),
        (('twin = "good"', 'twin = "gone"'), "there is no twin 'gone'"),
        (('twin = "good"', 'twin = "bad"'), "of the same kind"),
    ],
)
def test_a_fault_in_an_idiom_is_found(check: Check, change: tuple[str, str], message: str) -> None:
    assert any(message in problem for problem in check(idioms=change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("host-read", "device-read"), "not called after the rule"),
        (("A page that explains in thirty words or more", "A page"), "explains too little"),
        (("  # expect: CAP101", ""), "a bad example and its good twin"),
        (("# expect: CAP101", "# expect: CAP102"), "expects other codes"),
        (('evidence = ["bad"]', 'evidence = ["gone"]'), "there is no idiom 'gone'"),
    ],
)
def test_a_fault_in_a_page_is_found(check: Check, change: tuple[str, str], message: str) -> None:
    assert any(message in problem for problem in check(page=change))


@pytest.mark.parametrize(("torch", "count"), [("2.4.1", 0), ("2.11.0+cu130", 1), (None, 0)])
def test_a_run_outside_of_the_range_that_rests_on_it_is_found(check: Check, torch: str | None, count: int) -> None:
    environment = Environment(python="3.12", platform="linux", torch=torch)
    record = Record(id="bad", subject="toy.read", outcome="fails", expected="fails", hazard="CAP101")
    document = Evidence("ops", "2026-01-01T00:00:00+00:00", environment, {}, "idioms", {}, "agrees", records=(record,))
    found = check(evidence=(("run.json", document),))
    assert len([problem for problem in found if "outside of <2.5" in problem]) == count


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (("capture = 'ok'", ""), "capture"),
        (("body = 'pass'", "body = 'if:'"), "body"),
        (("capture = 'ok'", "capture = 'perhaps'"), "capture"),
        (("body", "bodies"), "bodies"),
        (("body = 'pass'", "body = 'pass'\nversions = '~1'"), "versions"),
    ],
)
def test_an_idiom_that_does_not_validate_is_named(tmp_path: Path, change: tuple[str, str], key: str) -> None:
    write(tmp_path / "toy.toml", "[[idiom]]\nid = 'a'\nop = 'toy.read'\nbody = 'pass'\ncapture = 'ok'\n", change)
    with pytest.raises(ConfigurationError, match=rf"toy\.toml: idiom\[0\].*{key}"):
        load_idioms(tmp_path)


def test_two_idioms_must_not_share_an_id(tmp_path: Path) -> None:
    for name in ("a.toml", "b.toml"):
        write(tmp_path / name, IDIOMS, ("", ""))
    with pytest.raises(ConfigurationError, match="already stands in"):
        load_idioms(tmp_path)


def test_the_shipped_knowledge_passes_as_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().out


def test_queries_find_entries_and_their_idioms() -> None:
    knowledge, idioms = load(), load_idioms()
    operation = knowledge.operation("python.setitem")
    assert operation is not None
    assert operation in operations_with(knowledge, "CAP103")
    found: list[Idiom] = list(idioms_of(operation, idioms.values()))
    assert "py-set-int-index-scalar" in {idiom.id for idiom in found}
    assert "torch.Tensor.item" in nearest_operations(knowledge, "item")
    assert nearest_operations(knowledge, "python.setitm")[0] == "python.setitem"
