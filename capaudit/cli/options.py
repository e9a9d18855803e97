"""Options that several commands share, and how they become the options of one audit."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from capaudit.audit.configuration import Configuration, find_configuration, load_configuration
from capaudit.audit.selection import Override
from capaudit.cache import store
from capaudit.model import CaptureKind, InputError, Severity

if TYPE_CHECKING:
    from capaudit.audit import AuditOptions

_F = TypeVar("_F", bound=Callable[..., Any])


def _without_cache(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        context.with_resource(store.Disabled())


_SHARED = (
    click.argument("paths", nargs=-1, metavar="[PATHS]..."),
    click.option(
        "--entry",
        "entries",
        multiple=True,
        metavar="ENTRY",
        help="Audit from this function: pkg.mod:Class.method, pkg.mod:function or path/file.py:Class.method. "
        "Repeatable; replaces declared boundaries.",
    ),
    click.option(
        "--capture",
        type=click.Choice(["torch", "warp", "shared"]),
        help="Who starts the capture at --entry (shared: Torch, registered with Warp).",
    ),
    click.option("--config", metavar="FILE", help="Read [tool.capaudit] from this file."),
    click.option("--isolated", is_flag=True, help="Ignore every pyproject.toml."),
    click.option(
        "--no-cache",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_without_cache,
        help="Neither read nor write the cache.",
    ),
)


def audit_arguments(command: _F) -> _F:
    """Add PATHS, --entry, --capture, --config and --isolated to a command."""
    for decorate in reversed(_SHARED):
        command = decorate(command)
    return command


_SELECTION = (
    click.option("--select", multiple=True, metavar="RULE", help="Report only these codes, names or prefixes."),
    click.option("--ignore", multiple=True, metavar="RULE", help="Leave these out."),
    click.option("--extend-select", multiple=True, metavar="RULE", help="Add to the selection."),
)


def selection_options(command: _F) -> _F:
    """Add --select, --ignore and --extend-select to a command."""
    for decorate in reversed(_SELECTION):
        command = decorate(command)
    return command


def evidence_option(command: _F) -> _F:
    """Add ``--evidence``, repeatable."""
    return click.option(
        "--evidence",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Lay this evidence of `probe run`, a file or folder, beside the findings. Repeatable.",
    )(command)


def output_option(formats: tuple[str, ...]) -> Callable[[_F], _F]:
    """Add ``--output FORMAT[:FILE]``, repeatable."""
    return click.option(
        "--output",
        "outputs",
        multiple=True,
        metavar="FORMAT[:FILE]",
        help=f"Write {', '.join(formats)} to stdout or to a file. Repeatable.",
    )


def prepare(
    paths: tuple[str, ...],
    entries: tuple[str, ...],
    capture: CaptureKind | None,
    config: str | None,
    isolated: bool,
) -> AuditOptions:
    """Return the audit's options from the shared ones.

    Without PATHS the configured ``paths`` are taken, without those the working directory. Errors:
    ``InputError`` for a path that is missing or unreadable, ``ConfigurationError`` as its reader says.
    """
    from capaudit.audit import AuditOptions

    if capture is not None and not entries:
        raise click.UsageError("--capture says how the capture at --entry is started; give --entry too.")
    working_directory = _working_directory()
    roots = [_straight(Path(path)) for path in paths]
    for root in roots:
        _require_readable(root)
    configuration = configure(_common_folder(roots), config, isolated)
    if not roots:
        folder = configuration.root or working_directory
        roots = [folder / path for path in configuration.paths] or [Path()]
        for root in roots:
            _require_readable(root)
    return AuditOptions(
        paths=tuple(roots),
        entries=entries,
        capture=capture,
        configuration=configuration,
        working_directory=working_directory,
        jobs=None,
    )


def configure(start: Path, config: str | None, isolated: bool) -> Configuration:
    """Return the configuration that applies at ``start``: the named file, else the nearest, else the defaults."""
    if isolated and config is not None:
        raise click.UsageError("--isolated ignores configuration files and --config names one; give one of them.")
    if isolated:
        return Configuration()
    file = Path(config) if config is not None else find_configuration(start)
    return Configuration() if file is None else load_configuration(file)


def jobs_option(command: _F) -> _F:
    """Add --jobs, which arrives as ``None`` where nobody gave a number."""
    help_text = "Processes for boundaries that do not depend on each other (default: as many as pay; 1: only this one)."
    return click.option("--jobs", type=click.IntRange(1, 64), metavar="N", help=help_text)(command)


def with_selection(
    configuration: Configuration,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    extend_select: tuple[str, ...],
    severity: tuple[str, ...] = (),
) -> Configuration:
    """Return the configuration with the command line's selectors: --select replaces, the others add.

    Errors: ``InputError`` for a selector that fits no rule, with the nearest one.
    """
    weights = dict(_weight(item) for item in split(severity))
    if weights:
        # What the command line says holds for every file, whatever a table says of some.
        last = Override(("*",), severity=weights)
        configuration = replace(configuration, overrides=(*configuration.overrides, last))
    merged = replace(
        configuration,
        select=split(select) or configuration.select,
        ignore=(*configuration.ignore, *split(ignore)),
        extend_select=(*configuration.extend_select, *split(extend_select)),
    )
    if not merged.selectors:
        return merged
    from capaudit.cli.selectors import canonical

    typed = dict.fromkeys((*split(select), *split(ignore), *split(extend_select), *weights))
    configured = [selector for selector in merged.selectors if selector not in typed]
    return merged.with_selectors({**canonical(typed, None), **canonical(configured, merged.source)})


def split(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``("CAP1", "CAP202")`` for ``("CAP1,CAP202",)``: selectors may be repeated or joined by commas."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _weight(text: str) -> tuple[str, Severity]:
    rule, equals, level = text.partition("=")
    if not equals or not rule.strip() or level.strip() not in tuple(Severity):
        levels = ", ".join(Severity)
        raise click.UsageError(f"--severity {text}: write RULE=LEVEL, with one of {levels}.")
    return rule.strip(), Severity(level.strip())


def _common_folder(roots: list[Path]) -> Path:
    if not roots:
        return Path.cwd()
    return Path(os.path.commonpath([root.resolve() for root in roots]))


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise InputError("the working directory does not exist any more", remedy="change to one that does") from error


def _straight(path: Path) -> Path:
    """Take ``a/../b`` as ``b`` where both are the same, so that a file is reported under one name."""
    if ".." not in path.parts:
        return path
    short = Path(os.path.normpath(path))
    try:
        return short if short.samefile(path) else path  # they differ where ``a`` is a link
    except OSError:
        return path


def _require_readable(root: Path) -> None:
    try:
        exists = root.exists()
    except OSError as error:  # a name that is too long, for example
        raise InputError(f"it cannot be used as a path: {error.strerror}", place=str(root)[:200]) from error
    if not exists:
        raise InputError("there is no such file or folder", place=str(root), remedy="check the path")
    if not root.is_dir() and not root.is_file():
        raise InputError("it is neither a folder nor a regular file", place=str(root), remedy="check the path")
    if not os.access(root, os.R_OK | (os.X_OK if root.is_dir() else 0)):
        raise InputError("it cannot be read: permission denied", place=str(root), remedy="grant read access to it")
