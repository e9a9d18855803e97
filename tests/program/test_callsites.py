"""The index of calls finds what a walk over every tree finds, in the same order."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from capaudit.program import Module, Program, build_program
from capaudit.program.callsites import CallIndex
from capaudit.program.symbols import dotted_text
from capaudit.program.words import Words

ROOT = Path(__file__).parents[2]

ODD = """from m import made as other
x = made(1); y = made(2); z = [made(n) for n in (
    1, made(3))]; made(4)
@made(5)
@partial(made, 6)
class C(made(7), metaclass=made(8)):
    a = made(9); b = made(
        10)

    @made(11)
    def f(self, x=made(12)): made(13); return lambda: made(14)(made(15))

    class D:
        def g(self):
            def h():
                return self.made(16), other(17)
            return h
if x:
    def k(): made \\
        (18)
'''made(19)''' + f"{made(20)} unmade(21)"
"""


def walked(module: Module, name: str) -> list[ast.Call]:
    calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    calls.sort(key=lambda c: (c.lineno, c.col_offset, -(c.end_col_offset or 0)))
    found = []
    for call in calls:
        last = dotted_text(call.func).rpartition(".")[2]
        found += [call] * (last == name)
        found += [call] * (last == "partial" and bool(call.args) and dotted_text(call.args[0]).endswith(name))
    return found


def last_part(call: ast.Call) -> str:
    return dotted_text(call.func).rpartition(".")[2]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_way_of_writing_a_call_is_found_in_order(tmp_path: Path, newline: str) -> None:
    (tmp_path / "odd.py").write_bytes(ODD.replace("\n", newline).encode())
    program = build_program((tmp_path,), tmp_path)
    module = program.modules["odd"]
    sites = CallIndex([module], Words([module])).find("made", "")
    plain = [call for _, call, _ in sites if dotted_text(call.func) != "other"]
    assert plain == walked(module, "made")
    assert [call.lineno for _, call, _ in sites if dotted_text(call.func) == "other"] == [16]
    owners = {ast.unparse(call): owner.qualname if owner else None for _, call, owner in sites}
    assert owners["made(13)"] == "C.f"
    assert owners["self.made(16)"] == "C.D.g"
    assert owners["made(18)"] == "k"
    assert owners["made(9)"] is None


def test_the_product_itself_gives_the_same_calls_as_a_walk(program: Program) -> None:
    modules = program.productive
    index = CallIndex(modules, Words(modules))
    names = [name for module in modules for name in module.functions]
    for name in names[::3]:
        expected = []
        for module in modules:
            if name in module.source and (f"{name}(" in module.source or "partial(" in module.source):
                expected += [
                    call for call in walked(module, name) if dotted_text(call.func).split(".")[-1] != "partial"
                ]
        aliases = {
            alias for m in modules for alias, imported in m.imports.items() if imported.attribute == name != alias
        }
        found = [call for _, call, _ in index.find(name, "")]
        found = [call for call in found if last_part(call) not in ("partial", *aliases)]
        assert found == expected, name


@pytest.fixture(scope="module")
def program() -> Program:
    return build_program((ROOT / "capaudit" / "audit",), ROOT)
