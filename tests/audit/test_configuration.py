from __future__ import annotations

from pathlib import Path

import pytest

from capaudit.audit.configuration import Configuration, find_configuration, load_configuration
from capaudit.model import Boundary, ConfigurationError
from capaudit.program import build_program


def configured(folder: Path, text: str) -> Configuration:
    file = folder / "pyproject.toml"
    file.write_text(text, encoding="utf-8")
    return load_configuration(file)


def test_every_key_is_read(tmp_path: Path) -> None:
    configuration = configured(
        tmp_path,
        """
        [tool.capaudit]
        paths = ["src"]
        follow = ["rsl_rl"]
        exclude = ["src/old"]
        knowledge = ["capture/*.toml"]
        select = ["CAP1"]
        ignore = ["CAP104"]
        extend-select = ["CAP202"]
        strict = true
        evidence = ["evidence"]

        [tool.capaudit.versions]
        torch = "2.11"

        [tool.capaudit.per-file-ignores]
        "scripts/*" = ["CAP102"]

        [[tool.capaudit.boundary]]
        name = "tick"
        entry = "robots.env:Env.step"
        capture = "shared"
        completion-owned = ["robots.log.*"]
        cold-path = ["robots.build"]
        carriers = ["self.left"]
        exclude = ["robots.debug"]
        """,
    )
    assert configuration == Configuration(
        source=tmp_path / "pyproject.toml",
        root=tmp_path,
        paths=("src",),
        follow=("rsl_rl",),
        exclude=("src/old",),
        knowledge=("capture/*.toml",),
        select=("CAP1",),
        ignore=("CAP104",),
        extend_select=("CAP202",),
        per_file_ignores={"scripts/*": ("CAP102",)},
        strict=True,
        versions={"torch": "2.11"},
        evidence=("evidence",),
        boundaries=(
            Boundary(
                name="tick",
                entry="robots.env:Env.step",
                capture="shared",
                origin="configuration",
                completion_owned=("robots.log.*",),
                cold_path=("robots.build",),
                carriers=("self.left",),
                exclude=("robots.debug",),
            ),
        ),
    )


def test_a_boundary_needs_only_its_entry(tmp_path: Path) -> None:
    configuration = configured(tmp_path, '[[tool.capaudit.boundary]]\nentry = "a:B.step"\n')
    assert configuration.boundaries == (Boundary("a:B.step", "a:B.step", "torch", "configuration"),)


def test_a_file_without_the_table_gives_the_defaults(tmp_path: Path) -> None:
    configuration = configured(tmp_path, "[project]\nname = 'x'\n")
    assert configuration == Configuration(source=tmp_path / "pyproject.toml", root=tmp_path)


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("[tool.capaudit]\nselct = []", "unknown key 'tool.capaudit.selct'", "did you mean 'select'?"),
        ("[tool.capaudit]\nper_file_ignores = {}", "'tool.capaudit.per_file_ignores'", "'per-file-ignores'?"),
        (
            "[tool.capaudit]\nzzz = 1",
            "unknown key 'tool.capaudit.zzz'",
            "known keys: audits, baseline, boundary",
        ),
        ("[tool.capaudit]\nstrict = 'yes'", "'tool.capaudit.strict' is 'yes'", "it must be true or false"),
        ("[tool.capaudit]\nstrict = 1", "'tool.capaudit.strict' is 1", "it must be true or false"),
        ("[tool.capaudit]\nselect = 'CAP1'", "'tool.capaudit.select' is 'CAP1'", "a list of strings"),
        ("[tool.capaudit]\nselect = ['CAP1', 2]", "'tool.capaudit.select[1]' is 2", "a non-empty string"),
        ("[tool.capaudit]\npaths = ['']", "'tool.capaudit.paths[0]' is ''", "a non-empty string"),
        ("[tool.capaudit]\nversions = ['torch']", "'tool.capaudit.versions'", "a table of strings"),
        ("[tool.capaudit.versions]\ntorch = 2.1", "'tool.capaudit.versions.torch' is 2.1", "a non-empty string"),
        ("[tool.capaudit.versions]\ntorch = 'main'", "'tool.capaudit.versions.torch' is 'main'", "a version such as"),
        ("[tool.capaudit.per-file-ignores]\n'a' = 'CAP1'", 'per-file-ignores."a"', "a list of strings"),
        ("[tool.capaudit]\nper-file-ignores = []", "per-file-ignores", "a table of lists of strings"),
        ("[tool]\ncapaudit = 3", "'tool.capaudit' is 3", "it must be a table"),
        ("[tool.capaudit.boundary]\nentry = 'a:b'", "'tool.capaudit.boundary'", "[[tool.capaudit.boundary]]"),
        ("[tool.capaudit]\nboundary = ['a:b']", "'tool.capaudit.boundary'", "an array of tables"),
        ("[[tool.capaudit.boundary]]\nname = 'a'", "boundary[0] has no 'entry'", 'entry = "package.module'),
        ("[[tool.capaudit.boundary]]\nentri = 'a'", "'tool.capaudit.boundary[0].entri'", "'entry'?"),
        (
            "[[tool.capaudit.boundary]]\nentry = 'a:b'\ncapture = 'cuda'",
            "'tool.capaudit.boundary[0].capture' is 'cuda'",
            'one of "torch", "warp", "shared"',
        ),
        (
            "[[tool.capaudit.boundary]]\nentry = 'a:b'\ncapture = ['torch']",
            "boundary[0].capture' is ['torch']",
            "one of",
        ),
        (
            "[[tool.capaudit.boundary]]\nentry = 'a:b'\n[[tool.capaudit.boundary]]\nentry = 'a:b'",
            "a second boundary is named 'a:b'",
            "a name of its own",
        ),
        ("[tool.capaudit\n", "not valid TOML", "--isolated"),
        ("x = " + "[" * 20_000, "nested too deeply", "--isolated"),
    ],
)
def test_a_mistake_names_file_key_and_remedy(tmp_path: Path, text: str, message: str, remedy: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, text)
    assert caught.value.place == str(tmp_path / "pyproject.toml")
    assert message in caught.value.message
    assert caught.value.remedy is not None
    assert remedy in caught.value.remedy


def test_a_file_that_is_not_utf_8_is_a_configuration_error(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_bytes(b"[tool.capaudit]\npaths = ['\xff']\n")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load_configuration(file)


def test_a_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_configuration(tmp_path / "absent.toml")


def test_the_nearest_file_with_the_table_is_found(tmp_path: Path) -> None:
    inner = tmp_path / "package" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.capaudit]\n")
    (tmp_path / "package" / "pyproject.toml").write_text("[tool.other]\n")
    (inner / "module.py").write_text("")
    assert find_configuration(inner) == tmp_path / "pyproject.toml"
    assert find_configuration(inner / "module.py") == tmp_path / "pyproject.toml"
    (tmp_path / "package" / "pyproject.toml").write_text("[tool.capaudit]\n")
    assert find_configuration(inner) == tmp_path / "package" / "pyproject.toml"


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({}, True),
        ({"select": ("CAP1",)}, True),
        ({"select": ("host-to-device-copy",)}, True),
        ({"select": ("CAP2",)}, False),
        ({"select": ("CAP2",), "extend_select": ("CAP103",)}, True),
        ({"ignore": ("CAP1",)}, False),
        ({"ignore": ("CAP",)}, False),
        ({"select": ("CAP103",), "ignore": ("CAP1",)}, True),
        ({"select": ("CAP1",), "ignore": ("CAP103",)}, False),
        ({"select": ("CAP103",), "ignore": ("CAP103",)}, False),
        ({"ignore": ("CAP1",), "extend_select": ("CAP103",)}, True),
        ({"per_file_ignores": {"robots/*": ("CAP1",)}}, False),
        ({"per_file_ignores": {"env.py": ("CAP103",)}}, False),
        ({"per_file_ignores": {"scripts/*": ("CAP1",)}}, True),
        ({"per_file_ignores": {"robots/*": ("CAP2",)}}, True),
    ],
)
def test_the_most_specific_selector_decides(settings: dict[str, object], reported: bool) -> None:
    configuration = Configuration(root=Path("/project"), **settings)  # type: ignore[arg-type]
    assert configuration.reports("CAP103", "host-to-device-copy", Path("/project/robots/env.py")) is reported


def test_a_narrow_selection_does_not_hide_that_a_file_was_not_read() -> None:
    assert Configuration(select=("CAP1",)).reports("CAP905", "unparsable-file", Path("a.py"))
    assert not Configuration(ignore=("CAP905",)).reports("CAP905", "unparsable-file", Path("a.py"))


def test_knowledge_patterns_are_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "capture").mkdir()
    for name in ("b.toml", "a.toml", "notes.md"):
        (tmp_path / "capture" / name).write_text("")
    configuration = Configuration(root=tmp_path, knowledge=("capture/*.toml", "capture/a.toml"))
    assert configuration.knowledge_files() == (tmp_path / "capture" / "a.toml", tmp_path / "capture" / "b.toml")


@pytest.mark.parametrize("pattern", ["absent/*.toml", "/absent.toml", "a**b"])
def test_a_knowledge_pattern_without_a_file_is_an_error(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="matches no file"):
        Configuration(root=tmp_path, knowledge=(pattern,)).knowledge_files()


def test_exclude_patterns_refer_to_the_folder_of_the_configuration(tmp_path: Path) -> None:
    source = tmp_path / "src"
    for name in ("kept.py", "legacy/old.py", "legacy/deep/older.py", "vendor/other.py"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x = 1\n", encoding="utf-8")
    settings = tmp_path / "pyproject.toml"
    settings.write_text('[tool.capaudit]\nexclude = ["src/legacy/*", "src/vendor"]\n', encoding="utf-8")
    configuration = load_configuration(settings)
    program = build_program((source,), tmp_path, configuration.excludes)
    assert [module.file for module in program.modules.values()] == ["src/kept.py"]
