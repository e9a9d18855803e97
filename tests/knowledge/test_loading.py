from __future__ import annotations

from pathlib import Path

import pytest

from capaudit.knowledge import Knowledge, load
from capaudit.model import ConfigurationError, InputError

HEADER = '[table]\nlibrary = "mysim"\nversions = ">=1.0"\n'


def load_table(folder: Path, entries: str, header: str = HEADER) -> Knowledge:
    path = folder / "mysim.toml"
    path.write_text(header + entries, encoding="utf-8")
    return load([path])


def test_a_name_is_looked_up_exactly_before_its_family() -> None:
    knowledge = load()
    exact, family = knowledge.operation("math.prod"), knowledge.operation("math.hypot")
    assert exact is not None
    assert family is not None
    assert exact.names == ("math.prod",)
    assert "math.*" in family.names


def test_the_longest_family_wins() -> None:
    operation = load().operation("numpy.random.normal")
    assert operation is not None
    assert "host-rng" in operation.effects


def test_an_unknown_name_is_not_described() -> None:
    assert load().operation("nowhere.to.be.found") is None


@pytest.mark.parametrize("selector", ["CAP103", "cap103", "host-to-device-copy"])
def test_a_rule_is_found_by_code_and_name(selector: str) -> None:
    rule = load().rule(selector)
    assert rule is not None
    assert rule.code == "CAP103"


def test_an_old_name_redirects() -> None:
    rule = load().rule("stale-address")
    assert rule is not None
    assert rule.name == "carrier-rebind"


def test_prose_leaves_out_front_matter_and_examples() -> None:
    rule = load().rules["CAP101"]
    assert "+++" not in rule.prose
    assert "```" not in rule.prose
    assert [example.expects for example in rule.examples] == [True, False]


def test_an_extension_adds_entries(tmp_path: Path) -> None:
    knowledge = load_table(
        tmp_path,
        """
[[op]]
names = ["mysim.Scene.sense", "mysim.Scene.look"]
params = ["self", "mask"]
result = "tuple:tensor bool;list:like view"
cases = [{ when = { mask = "!absent cpu" }, hazard = "CAP103", why = "uploads the mask", versions = "<2" }]
""",
    )
    operation = knowledge.operation("mysim.Scene.look")
    assert operation is not None
    assert operation.name == "mysim.Scene.sense"
    assert operation.result.items[0].flags == frozenset({"bool"})
    assert operation.result.items[1].items[0].kind == "like"
    (case,) = operation.cases
    assert case.when == (("mask", (("absent", True), ("cpu", False))),)
    assert case.versions is not None
    assert not case.versions.contains("2.0")
    assert operation.hazards == ("CAP103",)


OP = '[[op]]\nnames = ["mysim.step"]\nparams = ["self"]\n'


@pytest.mark.parametrize(
    ("entries", "key", "message"),
    [
        (OP + "reslt = 'self'", "op[0].reslt", "unknown key"),
        (OP + "hazard = 'CAP999'", "op[0] (mysim.step).hazard", "CAP999"),
        (OP + "result = 'tensr'", "result", "tensr"),
        (OP + "result = 'arg:other'", "result", "other"),
        (OP + "result = 'tensor green'", "result", "green"),
        (OP + "effect = ['explodes']", "effect", "explodes"),
        (OP + "effect = ['writes:other']", "effect", "other"),
        (OP + "versions = '~2'", "versions", "~2"),
        (OP + "kind = 'cloud'", "kind", "cloud"),
        (OP + "hazard = 'CAP101'\nclass = 'cold-path'", "class", "rejected"),
        (OP + "hazard = 'CAP101'\nconfidence = 'sure'", "confidence", "sure"),
        (OP + "confidence = 'possible'", "confidence", "a hazard of the entry itself"),
        (OP + "cases = [{ when = { self = 'squishy' }, ok = true }]", "cases[0].when.self", "squishy"),
        (OP + "cases = [{ when = { other = 'device' }, ok = true }]", "cases[0].when.other", "no such parameter"),
        (OP + "cases = [{ when = { self = 'device' } }]", "cases[0].hazard", "one of a hazard"),
        (OP + "cases = [{ ok = true }]", "cases[0].when", "always holds"),
        (OP + "cases = [{ capture = ['vulkan'], ok = true }]", "cases[0].capture", "vulkan"),
        ("[[op]]\nparams = []", "names", "at least one"),
        ("[[op]]\nnames = ['my sim']", "names", "dotted name"),
        (OP + OP, "mysim.step", "already has an entry"),
        ("[[op]]\nnames = ['math.prod']", "math.prod", "already has an entry"),
        ("[[operation]]\nnames = ['a']", "operation", "unknown key"),
    ],
)
def test_a_fault_in_a_table_is_named_with_file_and_key(tmp_path: Path, entries: str, key: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_table(tmp_path, entries)
    assert caught.value.place is not None
    assert "mysim.toml" in caught.value.place
    assert key in caught.value.place
    assert message in caught.value.message


def test_a_table_that_is_no_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"mysim\.toml"):
        load_table(tmp_path, "[[op]\n")


def test_a_table_without_a_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"table\.library"):
        load_table(tmp_path, OP, header="[table]\n")


def test_an_extension_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.toml"):
        load([tmp_path / "absent.toml"])


def test_an_extension_that_is_not_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# caf\xe9\n")
    with pytest.raises(InputError, match=r"latin\.toml"):
        load([path])


PAGE = """+++
code = "CAP950"
name = "green-tea"
class = "rejected"
title = "Tea"
message = "tea is hot"
remedy = "wait"
+++
Prose.
"""


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (PAGE.replace("CAP950", "TEA1"), "code"),
        (PAGE.replace("green-tea", "GreenTea"), "name"),
        (PAGE.replace('"rejected"', '"tolerated"'), "class"),
        (PAGE.replace('remedy = "wait"', ""), "remedy"),
        (PAGE.replace("title", "titel"), "titel"),
        ("no front matter", "front matter"),
    ],
)
def test_a_fault_in_a_page_is_named(tmp_path: Path, page: str, message: str) -> None:
    write_folder(tmp_path, {"tea.md": page})
    with pytest.raises(ConfigurationError, match=message):
        load(folder=tmp_path)


def test_two_pages_must_not_share_a_name(tmp_path: Path) -> None:
    write_folder(tmp_path, {"tea.md": PAGE, "coffee.md": PAGE.replace("CAP950", "CAP951")})
    with pytest.raises(ConfigurationError, match="already belongs"):
        load(folder=tmp_path)


def write_folder(folder: Path, pages: dict[str, str]) -> None:
    (folder / "operations").mkdir()
    (folder / "operations" / "tea.toml").write_text('[table]\nlibrary = "tea"\n', encoding="utf-8")
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


def test_a_wildcard_inside_a_name_goes_before_its_package() -> None:
    operation = load().operation("warp.is_cuda_available")
    assert operation is not None
    assert "warp.is_*" in operation.names


def test_every_entry_is_listed_once_in_order() -> None:
    names = [entry.name for entry in load().entries]
    assert names == sorted(names)
    assert len(names) == len(set(names))
