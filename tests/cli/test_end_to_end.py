"""The command with the real engine, on programs and surroundings that are odd or broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import ANY

import pytest

from tests.conftest import ROOT

Run = Callable[..., object]

ENVIRONMENT = """\
import torch


class Environment:
    def __init__(self, device="cuda"):
        self.x = torch.zeros(64, device=device)

    def step(self):
        return self.x.item()


def tick(x: torch.Tensor):
    return x.sum().item()
"""


@pytest.fixture
def program(folder: Path) -> Path:
    package = folder / "robots"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "env.py").write_text(ENVIRONMENT)
    return folder


def findings(text: str) -> list[tuple[str, str, int]]:
    return [(found["code"], found["file"], found["line"]) for found in json.loads(text)["findings"]]


def test_the_demo_shows_what_the_readme_promises() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "capaudit", "check", "fixtures/demo"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("boundary ")
    for part in ("reached by: ", "instead: ", "capaudit explain "):
        assert part in done.stdout


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ("robots.env:Environment.step", 9),
        ("robots.env:tick", 13),
        ("robots/env.py:Environment.step", 9),
        ("./robots/env.py:tick", 13),
    ],
)
@pytest.mark.parametrize("paths", [("robots",), (".",), (), ("robots/env.py",)])
def test_an_entry_may_be_written_in_every_documented_form(
    program: Path, run: Run, entry: str, line: int, paths: tuple[str, ...]
) -> None:
    outcome = run("check", *paths, "--entry", entry, "--output", "json")
    assert outcome.status == 1, outcome.err
    assert findings(outcome.out) == [("CAP101", "robots/env.py", line)]


def test_an_entry_may_lie_in_an_absolute_file_outside_the_working_directory(
    folder: Path, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("elsewhere") / "env.py"
    file.write_text(ENVIRONMENT)
    # Reports name files relative to the working directory, wherever they lie and however they were written.
    shown = Path(os.path.relpath(file, folder)).as_posix()
    for written in (file.as_posix(), shown):
        outcome = run("check", "--entry", f"{written}:Environment.step", "--output", "json")
        assert findings(outcome.out) == [("CAP101", shown, 9)]


def test_every_entry_becomes_a_boundary_with_the_capture_of_the_command_line(program: Path, run: Run) -> None:
    outcome = run(
        "check", "--entry", "robots.env:Environment.step", "--entry", "robots.env:tick", "--capture", "warp",
        "--output", "json",
    )  # fmt: skip
    boundaries = json.loads(outcome.out)["boundaries"]
    assert [(found["name"], found["capture"]) for found in boundaries] == [
        ("robots.env:Environment.step", "warp"),
        ("robots.env:tick", "warp"),
    ]


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ("robots.env:Environment.stp", "Environment.step"),
        ("robots.evn:tick", "did you mean robots.env"),
        ("robots.env:Environment", "Environment.step"),
        ("nowhere.py:tick", "names a file that does not exist"),
        ("robots.env", "write pkg.mod:Class.method"),
        ("", "write pkg.mod:Class.method"),
        (":", "write pkg.mod:Class.method"),
    ],
)
def test_an_entry_that_names_nothing_is_status_2_with_a_hint(program: Path, run: Run, entry: str, hint: str) -> None:
    outcome = run("check", "--entry", entry)
    assert (outcome.status, outcome.out) == (2, "")
    assert "CAP904" in outcome.err
    assert hint in outcome.err


def test_a_syntax_error_elsewhere_is_a_finding_and_the_rest_is_audited(program: Path, run: Run) -> None:
    (program / "robots" / "broken.py").write_text("def f(:\n")
    outcome = run("check", "--entry", "robots.env:tick", "--output", "json")
    assert outcome.status == 1
    assert sorted(findings(outcome.out)) == [("CAP101", "robots/env.py", 13), ("CAP905", "robots/broken.py", 1)]


@pytest.mark.parametrize("entry", ["robots.broken:f", "robots/broken.py:f"])
def test_a_syntax_error_in_the_entry_s_own_module_is_status_2(program: Path, run: Run, entry: str) -> None:
    (program / "robots" / "broken.py").write_text("def f(:\n")
    outcome = run("check", "--entry", entry)
    assert (outcome.status, outcome.out) == (2, "")
    assert "robots/broken.py:1:" in outcome.err


@pytest.mark.parametrize(
    "source",
    [
        ENVIRONMENT.encode().replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + ENVIRONMENT.encode(),
        b"# -*- coding: latin-1 -*-\n" + ENVIRONMENT.encode() + b"NAME = '\xe9'\n",
        ENVIRONMENT.encode() + "größe = '日本語'\n".encode(),
    ],
    ids=["crlf", "byte-order-mark", "latin-1", "utf-8"],
)
def test_sources_are_read_as_python_reads_them(program: Path, run: Run, source: bytes) -> None:
    (program / "robots" / "env.py").write_bytes(source)
    outcome = run("check", "--entry", "robots.env:tick", "--output", "json")
    assert [code for code, _, _ in findings(outcome.out)] == ["CAP101"]


@pytest.mark.parametrize(
    "source",
    [
        ENVIRONMENT.encode() + b"NAME = '\xe9'\n",
        ENVIRONMENT.encode() + b"\0\n",
        b"# coding: no-such-codec\n" + ENVIRONMENT.encode(),
        b"# coding: hex\n" + ENVIRONMENT.encode(),
        b"a = " + b"(" * 3000 + b"1" + b")" * 3000 + b"\n",
        b"a = " + b"+".join([b"b"] * 5000) + b"\n",
        b"if a:\n    pass\n" + b"elif b:\n    pass\n" * 10_000,
        bytes(range(128, 192)) + b"\0\xff",
    ],
    ids=["undeclared-latin-1", "nul", "codec", "hex", "parentheses", "sum", "elif", "binary"],
)
def test_what_cannot_be_parsed_is_one_finding(program: Path, run: Run, source: bytes) -> None:
    (program / "robots" / "odd.py").write_bytes(source)
    outcome = run("check", "--entry", "robots.env:tick", "--output", "json")
    assert outcome.status == 1, outcome.err
    assert sorted(findings(outcome.out)) == [("CAP101", "robots/env.py", 13), ("CAP905", "robots/odd.py", ANY)]
    assert run("check", "--entry", "robots.env:tick").status == 1


def test_links_that_loop_or_dangle_and_folders_named_like_files_are_no_obstacle(program: Path, run: Run) -> None:
    package = program / "robots"
    (package / "loop").symlink_to(package)
    (package / "dangling.py").symlink_to("nowhere")
    (package / "folder.py").mkdir()
    outcome = run("check", "--entry", "robots.env:tick", "--output", "json")
    assert set(findings(outcome.out)) == {("CAP101", "robots/env.py", 13), ("CAP905", "robots/dangling.py", 1)}


def test_an_empty_folder_and_an_empty_package_say_that_nothing_was_audited(folder: Path, run: Run) -> None:
    (folder / "nothing").mkdir()
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").touch()
    for path in ("nothing", "package"):
        outcome = run("check", path)
        assert outcome.status == 0
        assert "nothing was audited" in outcome.out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_root_that_is_no_regular_file_is_refused(folder: Path, run: Run) -> None:
    os.mkfifo(folder / "pipe.py")
    outcome = run("check", "pipe.py")
    assert outcome.status == 2
    assert "pipe.py: it is neither a folder nor a regular file" in outcome.err


def test_a_file_has_one_name_however_its_root_is_written(program: Path, run: Run) -> None:
    reports = {
        run("check", root, "--entry", "robots.env:tick", "--output", "json", "--operations").out
        for root in ("robots", "./robots/", "robots/../robots", str(program / "robots"))
    }
    assert len(reports) == 1


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ("[[tool.capaudit.boundary]]\nentry = 'robots.env:tik'\n", "did you mean tick?"),
        ("[[tool.capaudit.boundary]]\nname = 'x'\n", "has no 'entry'"),
        ("[[tool.capaudit.boundary]]\nentry = 'robots.env:tick'\ncapture = 'cuda'\n", '"torch", "warp", "shared"'),
        ("[tool.capaudit]\nknowledge = ['nothing/*.toml']\n", "matches no file"),
        ("[tool.capaudit]\npaths = ['nowhere']\n", "there is no such file or folder"),
        ("[tool.capaudit\n", "not valid TOML"),
    ],
)
def test_a_wrong_configuration_is_status_2(program: Path, run: Run, configuration: str, message: str) -> None:
    (program / "pyproject.toml").write_text(configuration)
    outcome = run("check")
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err


def test_the_inventory_and_the_boundaries_come_from_the_same_audit(program: Path, run: Run) -> None:
    entry = ("--entry", "robots.env:tick")
    assert run("boundaries", *entry).out == (
        "robots.env:tick: robots.env:tick at robots/env.py:12 (torch capture; command line)\n"
    )
    table = run("inventory", *entry, "--output", "markdown").out
    assert "| `robots.env.tick` | rejected |" in table


@pytest.mark.parametrize("streams", ["<&-", ">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_status(program: Path, streams: str) -> None:
    def status(entry: str) -> int:
        line = f'"{sys.executable}" -m capaudit check --entry {entry} {streams}'
        return subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=False, env=environment).returncode

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert (status("robots.env:tick"), status("robots.env:tik")) == (1, 2)


def test_a_working_directory_that_is_gone_is_one_message(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> Path:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "cwd", gone)
    outcome = run("check")
    assert outcome.status == 2
    assert "the working directory does not exist any more" in outcome.err


@pytest.mark.parametrize("content", ["garbage", ""])
def test_a_spoilt_knowledge_cache_is_made_anew(
    program: Path, run: Run, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setenv("CAPAUDIT_CACHE_DIR", str(program / "cache"))
    first = run("check", "robots", "--entry", "robots.env:tick")
    for file in (program / "cache").rglob("*"):
        if file.is_file():
            file.write_text(content)
    assert run("check", "robots", "--entry", "robots.env:tick") == first


@pytest.mark.parametrize("arguments", [("ops",), ("ops", "--opinfo"), ("matrix",), ("run", "mjwarp:humanoid")])
def test_a_probe_without_a_cuda_device_is_status_3(folder: Path, run: Run, arguments: tuple[str, ...]) -> None:
    # A child sees no device where the driver is told to show none, and says the same where torch is missing.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", "capaudit", "probe", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 3
    assert "capaudit: error: " in done.stderr
    assert "remedy: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_same_input_gives_the_same_bytes_under_another_hash_seed(seed: str) -> None:
    def report(seed: str, *paths: str) -> bytes:
        return subprocess.run(
            [sys.executable, "-m", "capaudit", "check", *paths, "--isolated", "--operations", "--output", "json"],
            capture_output=True,
            cwd=ROOT / "fixtures",
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            check=False,
        ).stdout

    expected = report("0", "demo", "carrier-rebind")
    assert expected
    assert report(seed, "carrier-rebind", "demo") == expected
