"""Which evidence an audit is given: files and folders from the command line, else those of the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from capaudit.audit.configuration import Configuration
from capaudit.evidence import Evidence, load
from capaudit.model import ConfigurationError, InputError
from capaudit.program.index import shown_path

NamedEvidence = tuple[str, Evidence]


def load_evidence(
    given: Sequence[Path], configuration: Configuration, working_directory: Path
) -> tuple[NamedEvidence, ...]:
    """Return the documents of ``probe run`` by name, in the order of their names.

    ``given`` replaces what the configuration names. A folder stands for the evidence of runs among its
    ``*.json`` files. Errors: ``InputError`` for a file that is missing, cut short or something else,
    ``ConfigurationError`` for a configured place that is not there.
    """
    found: dict[Path, Evidence] = {}
    for path in given:
        found.update(_from_path(path))
    if not given:
        for text in configuration.evidence:
            found.update(_from_configuration(text, configuration))
    named = [(shown_path(path, working_directory), evidence) for path, evidence in found.items()]
    return tuple(sorted(named, key=lambda pair: pair[0]))


def _from_path(path: Path) -> Iterable[tuple[Path, Evidence]]:
    if path.is_dir():
        runs = [pair for pair in _folder(path) if pair[1].kind == "run"]
        if not runs:
            raise InputError(
                "the folder holds no evidence of a run",
                place=str(path),
                remedy="write some with `capaudit probe run TARGET --output FOLDER`",
            )
        return runs
    if not path.exists():
        raise InputError("there is no such evidence file or folder", place=str(path), remedy="check the path")
    evidence = load(path)
    if evidence.kind != "run":
        raise InputError(
            f"this is evidence of kind {evidence.kind!r}, which speaks of no program",
            place=str(path),
            remedy="name a file that `capaudit probe run` has written",
        )
    return [(path, evidence)]


def _from_configuration(text: str, configuration: Configuration) -> Iterable[tuple[Path, Evidence]]:
    root = configuration.root or Path.cwd()
    try:
        paths = [root / text] if (root / text).exists() else sorted(root.glob(text))
    except (OSError, ValueError, NotImplementedError):
        paths = []
    if not paths:
        raise ConfigurationError(
            f"'tool.capaudit.evidence' names {text!r}, which matches no file or folder",
            place=str(configuration.source) if configuration.source else None,
            remedy=f"correct it; it is relative to {root}",
        )
    found: list[tuple[Path, Evidence]] = []
    for path in paths:
        found += [pair for pair in (_folder(path) if path.is_dir() else [(path, load(path))]) if pair[1].kind == "run"]
    return found


def _folder(folder: Path) -> list[tuple[Path, Evidence]]:
    return [(path, load(path)) for path in sorted(folder.glob("*.json")) if path.is_file()]
