"""A recorded run may stand for a new one only if nobody could tell the difference."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from capaudit.cache import replay, store
from capaudit.cli import check as check_module
from capaudit.cli import main as command
from capaudit.cli.start import main
from tests.conftest import ROOT, Outcome

Start = Callable[..., Outcome]

TICK = """\
import torch

from robots.parts import Timers


class Environment:
    def __init__(self) -> None:
        self.timers = Timers(64)

    def step(self, action: torch.Tensor) -> torch.Tensor:  # capaudit: boundary
        self.timers.restart(action)
        return action
"""
PARTS = """\
import torch


class Timers:
    def __init__(self, worlds: int) -> None:
        self.left = torch.ones(worlds, device="cuda")

    def restart(self, ids: torch.Tensor) -> None:
        self.left[ids.long()] = 0.0
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small program with a finding, and an empty cache."""
    monkeypatch.setenv("CAPAUDIT_CACHE_DIR", str(tmp_path / "cache"))
    package = tmp_path / "work" / "src" / "robots"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "tick.py").write_text(TICK)
    (package / "parts.py").write_text(PARTS)
    monkeypatch.chdir(tmp_path / "work")
    return package


@pytest.fixture
def start(capsys: pytest.CaptureFixture[str]) -> Start:
    def call(*arguments: str) -> Outcome:
        status = main(arguments)
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return call


@pytest.fixture
def full_runs(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for every run that no record answered."""
    runs: list[object] = []
    real = command.main
    monkeypatch.setattr(command, "main", lambda words: runs.append(words) or real(words))
    return runs


def age(*paths: Path) -> None:
    """Give files times that lie well back, as in a tree that nobody is editing (their inodes stay young)."""
    for path in paths:
        os.utime(path, (1_000_000_000, 1_000_000_000))


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "src"),
        ("check", "src", "--output", "json", "--operations"),
        ("check", "src", "--verbose", "--exit-zero"),
        ("inventory", "src"),
        ("boundaries", "src"),
        ("check", "src/robots/parts.py", "--output", "json"),
    ],
)
def test_a_second_run_repeats_the_first_byte_for_byte_without_an_audit(
    program: Path, start: Start, full_runs: list[object], arguments: tuple[str, ...]
) -> None:
    assert start(*arguments) == start(*arguments) == start(*arguments, "--no-cache")
    assert len(full_runs) == 2


def test_reports_in_files_are_written_again(program: Path, start: Start, full_runs: list[object]) -> None:
    first = start("check", "src", "--output", "json:report.json", "--output", "text")
    written = Path("report.json").read_bytes()
    assert json.loads(written)["findings"]
    Path("report.json").unlink()
    assert start("check", "src", "--output", "json:report.json", "--output", "text") == first
    assert Path("report.json").read_bytes() == written
    assert len(full_runs) == 1


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
@pytest.mark.parametrize("place", ["/dev/stdout", "link"])
def test_a_report_to_a_device_is_written_every_time(program: Path, place: str) -> None:
    Path("link").symlink_to("/dev/stdout")
    line = [sys.executable, "-m", "capaudit", "check", "src", "--output", f"json:{place}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    first, second = (
        subprocess.run(line, stdout=subprocess.PIPE, env=environment, timeout=120, check=False).stdout for _ in range(2)
    )
    assert json.loads(first) == json.loads(second)


def test_an_edit_within_the_clock_s_resolution_that_keeps_size_and_time_is_seen(program: Path, start: Start) -> None:
    assert start("check", "src").status == 1
    before = (program / "parts.py").stat()
    harmless = PARTS.replace("self.left[ids.long()] = 0.0", "self.left.add_(self.left)  ")
    assert len(harmless) == len(PARTS)
    (program / "parts.py").write_text(harmless)
    os.utime(program / "parts.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert start("check", "src").status == 0


def test_new_times_on_the_same_content_cost_no_audit(program: Path, start: Start, full_runs: list[object]) -> None:
    first = start("check", "src")
    age(*program.iterdir())
    assert start("check", "src") == first
    (program / "__pycache__").mkdir()
    assert start("check", "src") == first
    assert len(full_runs) == 1


def edits(program: Path) -> list[Callable[[random.Random], None]]:
    """Everything that may change what a check says, and some that may not."""
    work = program.parent.parent
    parts, tick = program / "parts.py", program / "tick.py"

    def configure(rng: random.Random) -> None:
        place = rng.choice([work, work / "src", program])
        ignored = rng.choice(["CAP103", "CAP2", "lazy-initialisation"])
        (place / "pyproject.toml").write_text(f'[tool.capaudit]\nignore = ["{ignored}"]\n')

    def forget_configuration(rng: random.Random) -> None:
        for place in (work, work / "src", program):
            (place / "pyproject.toml").unlink(missing_ok=True)

    def change_constant(rng: random.Random) -> None:
        parts.write_text(PARTS.replace("0.0", rng.choice(["0.0", "1.0", "ids", "self.left[0]"])))

    def shift_lines(rng: random.Random) -> None:
        tick.write_text("\n" * rng.randrange(3) + TICK)

    def break_syntax(rng: random.Random) -> None:
        (program / "broken.py").write_text(rng.choice(["def", "x = 1\n", "\N{BYTE ORDER MARK}x = 1\n"]))

    def remove(rng: random.Random) -> None:
        (program / "broken.py").unlink(missing_ok=True)

    def toggle_package(rng: random.Random) -> None:
        marker = rng.choice([program.parent, work]) / "__init__.py"
        marker.unlink() if marker.exists() else marker.touch()

    def suppress(rng: random.Random) -> None:
        reason = rng.choice(["", " -- measured"])
        parts.write_text(PARTS.replace("0.0\n", f"0.0  # capaudit: ignore[CAP103]{reason}\n"))

    def nest(rng: random.Random) -> None:
        folder = program / "deeper"
        if folder.is_dir():
            shutil.rmtree(folder)
        else:
            folder.mkdir()
            (folder / "more.py").write_text(TICK)

    def link(rng: random.Random) -> None:
        outside, name = work / "outside.py", program / "linked.py"
        outside.write_text(TICK)
        if name.is_symlink():
            name.unlink()
        name.symlink_to(rng.choice([outside, tick]))

    def touch_all(rng: random.Random) -> None:
        age(parts, tick)

    return [
        *(configure, forget_configuration, change_constant, shift_lines, break_syntax, remove, toggle_package),
        *(suppress, nest, link, touch_all),
    ]


@pytest.mark.parametrize("seed", range(2))
def test_after_any_edits_the_cached_and_the_uncached_run_agree(program: Path, start: Start, seed: int) -> None:
    rng = random.Random(seed)
    possible = edits(program)
    for _ in range(12):
        for edit in rng.sample(possible, rng.randrange(3)):
            edit(rng)
        arguments = rng.choice([("check", "src"), ("check", "src/robots", "--output", "json")])
        assert start(*arguments) == start(*arguments, "--no-cache")


def test_any_damage_to_the_cache_is_repaired_without_a_word(program: Path, start: Start, tmp_path: Path) -> None:
    first = start("check", "src")
    rng = random.Random(7)
    for _ in range(6):
        for file in (tmp_path / "cache").iterdir():
            data = bytearray(file.read_bytes())
            match rng.randrange(4):
                case 0:
                    data[rng.randrange(len(data))] ^= 0xFF
                case 1:
                    del data[rng.randrange(len(data)) :]
                case 2:
                    data = bytearray(rng.randbytes(len(data)))
                case 3:
                    data = bytearray()
            file.write_bytes(data)
        assert start("check", "src") == first


@pytest.mark.parametrize("blocked", ["file", "read-only"])
def test_a_cache_that_cannot_be_written_changes_nothing(
    program: Path, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocked: str
) -> None:
    place = tmp_path / "blocked"
    if blocked == "file":
        place.touch()
    else:
        place.mkdir(mode=0o500)
    monkeypatch.setenv("CAPAUDIT_CACHE_DIR", str(place))
    assert start("check", "src") == start("check", "src") == start("check", "src", "--no-cache")


def test_without_the_cache_nothing_is_read_or_written(program: Path, start: Start, tmp_path: Path) -> None:
    start("check", "src", "--no-cache")
    assert not (tmp_path / "cache").exists()


def test_failed_runs_are_never_repeated(program: Path, start: Start, full_runs: list[object]) -> None:
    for _ in range(2):
        assert start("check", "src", "--entry", "robots.tick:Nobody.step").status == 2
    assert len(full_runs) == 2


def test_environment_and_program_are_part_of_the_key(
    program: Path, start: Start, full_runs: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    start("check", "src")
    monkeypatch.setenv("NO_COLOR", "1")
    start("check", "src")
    monkeypatch.setattr(replay.stamps, "program_state", lambda _: ["another version"])
    start("check", "src")
    assert len(full_runs) == 3


def test_runs_at_the_same_time_share_one_cache(program: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "capaudit", "check", "src", "--output", "json"]
    several = [subprocess.Popen(line, stdout=subprocess.PIPE, env=environment) for _ in range(4)]
    outputs = {process.communicate(timeout=60)[0] for process in several}
    outputs.add(subprocess.run(line, capture_output=True, env=environment, check=False).stdout)
    assert len(outputs) == 1
    assert json.loads(outputs.pop())["findings"]


def test_an_unchanged_run_imports_no_framework_of_its_own(program: Path, start: Start) -> None:
    start("check", "src")
    code = (
        "import sys\nfrom capaudit.cli.start import main\nstatus = main(['check', 'src'])\n"
        "heavy = {'click', 'ast', 'typing', 'dataclasses', 'pathlib', 'capaudit.audit', 'capaudit.cli.main'}\n"
        "print(status, sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for _ in range(2):  # the first one has a terminal and an environment of its own
        done = subprocess.run(
            [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
    assert done.stderr == "1 []\n"


def test_a_record_serves_no_run_without_standard_output(
    program: Path, start: Start, full_runs: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    status = start("check", "src").status
    monkeypatch.setattr(sys, "stdout", None)
    assert main(("check", "src")) == status
    assert len(full_runs) == 2


def test_every_option_is_either_repeatable_or_known_not_to_be() -> None:
    never = {
        *("--statistics", "--no-cache"),  # another output each time; no record wanted
        *("--fix", "--unsafe-fixes", "--diff", "--add-suppressions"),  # they change or rewrite what they read
        *("--since", "--stdin-filename"),  # their input comes from Git or from a pipe
        *("--show-settings", "--show-files"),  # quick as they are
    }
    options = {name for parameter in check_module.check.params for name in parameter.opts if name.startswith("-")}
    assert options == replay.REPEATABLE["check"] | never, (
        "a new option of check belongs into capaudit/cache/replay.py if its effect depends on the command line and "
        "on files that the run opens alone, else into the list above"
    )


def test_the_folder_stays_within_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPAUDIT_CACHE_SIZE", "1")
    for number in range(40):
        store.write("command", f"{number:040d}", os.urandom(100_000), tmp_path)
        os.utime(tmp_path / f"command-{number:040d}.bin", (number + 1, number + 1))
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1 << 20
    assert kept[-1] == f"command-{39:040d}.bin"
    assert store.read("command", f"{39:040d}", tmp_path) is not None


def test_clean_removes_what_the_cache_wrote_and_nothing_else(program: Path, start: Start, tmp_path: Path) -> None:
    start("check", "src")
    mine = tmp_path / "cache" / "notes-mine.txt"
    mine.touch()
    info = start("cache", "info").out
    assert str(tmp_path / "cache") in info
    assert "files:  4" in info
    assert "removed 4 files" in start("cache", "clean").out
    assert list((tmp_path / "cache").iterdir()) == [mine]
