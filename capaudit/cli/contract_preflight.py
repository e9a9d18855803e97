"""``capaudit contract preflight CANDIDATE``: may this be captured at all?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from capaudit.cli.options import output_option, prepare
from capaudit.cli.output import parse_targets
from capaudit.model import Boundary, InputError

_FORMATS = ("text", "json")


@click.command(name="preflight")
@click.argument("candidate", type=click.Path(path_type=Path))
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@click.option("--config", metavar="FILE", help="Read [tool.capaudit] from this file.")
@click.option("--isolated", is_flag=True, help="Ignore every pyproject.toml.")
@click.option("--rehearsal", is_flag=True, help="Let the CPU stand for the CUDA device; supports no claim.")
@output_option(_FORMATS)
def preflight_command(
    candidate: Path,
    paths: tuple[str, ...],
    config: str | None,
    isolated: bool,
    rehearsal: bool,
    outputs: tuple[str, ...],
) -> int:
    """Judge a capaudit-candidate/1 document from its declarations alone; nothing is captured or run.

    A boundary that the document only names is taken from the configuration; its entry, and with PATHS every
    entry, must resolve in the sources. Exit status: 0 supported, 1 unsupported, 2 the document is malformed.
    """
    from capaudit.contract.candidate_documents import load_candidate
    from capaudit.contract.candidates import preflight
    from capaudit.report.gates import preflight_json, preflight_text

    targets = parse_targets(outputs, _FORMATS)
    document = load_candidate(candidate)
    boundary = _boundary(document.boundary, candidate, paths, config, isolated)
    verdict = preflight(document.candidate(boundary), rehearsal=rehearsal)
    for target in targets:
        render = preflight_json if target.format == "json" else preflight_text
        target.write(render(boundary, verdict))
    return 0 if verdict.supported else 1


def _boundary(
    declared: Boundary | str, source: Path, paths: tuple[str, ...], config: str | None, isolated: bool
) -> Boundary:
    """Return the boundary, resolved in the sources. Errors: UnresolvedEntryError, InputError for an unknown name."""
    if isinstance(declared, Boundary) and not paths:
        return declared
    from capaudit.audit import find_boundaries

    options = prepare(paths, (), None, config, isolated)
    if isinstance(declared, Boundary):
        configuration = replace(options.configuration, boundaries=(declared,))
        return find_boundaries(replace(options, configuration=configuration))[0]
    found = {boundary.name: boundary for boundary in find_boundaries(options)}
    if declared not in found:
        known = ", ".join(found) or "none"
        raise InputError(
            f"no boundary is named {declared!r}", place=str(source), remedy=f"boundaries that are declared: {known}"
        )
    return found[declared]
