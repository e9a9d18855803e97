"""Parsing a file only when it is asked for changes no result, whatever is broken and wherever it stands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import capaudit.audit.engine as engine
from capaudit.audit import AuditOptions, audit
from capaudit.program import Program, build_program, index
from capaudit.program.index import Deferred

TICK = """import torch
from pkg.{helper} import help_out


class Env:
    # capaudit: boundary
    def step(self, x):
        return help_out(x)
"""
HELP = "def help_out(x):\n    return x.sum().item()\n"
FILES = {
    "pkg/__init__.py": "",
    "pkg/tick.py": TICK.format(helper="helper"),
    "pkg/helper.py": HELP,
    "pkg/elsewhere.py": "import torch\n\n\ndef load(x):\n    return x.cpu()\n",
}
BROKEN = "def f(:\n    torch.cuda.set_default_device('cuda')  # capaudit: boundary\n"
REFUSED_BY_THE_COMPILER_ONLY = "def f(a):\n    nonlocal_value = 1\n    global a\n    return a\n"


def written(folder: Path, changes: dict[str, str]) -> AuditOptions:
    for name, text in {**FILES, **changes}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return AuditOptions(paths=(folder,), working_directory=folder, collect_operations=True)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"pkg/elsewhere.py": BROKEN},
        {"pkg/helper.py": BROKEN},
        {"pkg/tick.py": TICK.format(helper="helper") + BROKEN},
        {"pkg/helper.py": BROKEN, "pkg/elsewhere.py": BROKEN, "pkg/other.py": "x = (\n"},
        {"pkg/elsewhere.py": REFUSED_BY_THE_COMPILER_ONLY},
        {"pkg/elsewhere.py": "x = " + "(" * 500 + ")" * 500 + "\n"},
        {"pkg/elsewhere.py": "x = 1\0\n"},
        {"helper.py": BROKEN, "src/helper.py": HELP},
    ],
)
@pytest.mark.parametrize("large", [0, 1000])
def test_the_result_is_that_of_parsing_everything_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], large: int
) -> None:
    monkeypatch.setattr(index, "_LARGE", large)
    (tmp_path / "src").mkdir()
    options = written(tmp_path, changes)
    deferred = audit(options)

    def at_once(options: AuditOptions, deferred: Deferred | None = None) -> Program:
        return build_program(options.paths, options.working_directory)

    monkeypatch.setattr(engine, "_program", at_once)
    whole = audit(options)
    assert untimed(deferred) == untimed(whole)
    assert len(deferred.files) == len({**FILES, **changes})


def test_a_file_that_nobody_asks_for_is_not_parsed_and_still_checked(tmp_path: Path) -> None:
    options = written(tmp_path, {"pkg/alone.py": "def never():\n    return 1\n"})
    deferred = Deferred()
    program = build_program(options.paths, tmp_path, deferred=deferred)
    assert not any(module.is_read for module in program.modules.values())
    assert program.modules["pkg.helper"].functions["help_out"].line == 1
    assert [name for name, module in program.modules.items() if module.is_read] == ["pkg.helper"]
    assert deferred.unread_and_broken(program) == []
    assert {f.code for f in audit(written(tmp_path, {"pkg/alone.py": BROKEN})).findings} == {"CAP101", "CAP905"}


def untimed(result: object) -> object:
    statistics = replace(result.statistics, seconds=0.0)  # type: ignore[attr-defined]
    return replace(result, statistics=statistics)  # type: ignore[type-var]
