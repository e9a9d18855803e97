"""``capaudit lsp``: the language server, over stdin and stdout."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capaudit.cli.options import prepare, with_selection
from capaudit.model import InputError

if TYPE_CHECKING:
    from capaudit.audit.editing import Session
    from capaudit.model import Result


@click.command()
@click.option("--stdio", is_flag=True, help="Speak over stdin and stdout, which is the only way (editors pass it).")
@click.option("--config", metavar="FILE", help="Read [tool.capaudit] from this file.")
def lsp(stdio: bool, config: str | None) -> int:
    """Run the language server for an editor: findings while typing, rule pages, suppressions.

    Needs the lsp extra: pip install "capaudit[lsp]". The editor starts it and speaks to it over stdio.
    """
    try:
        from capaudit.lsp.server import build
    except ImportError as error:
        raise InputError(
            f"the language server needs {error.name or 'pygls'}", remedy='pip install "capaudit[lsp]"'
        ) from error
    file = os.path.abspath(config) if config is not None else None

    sessions: dict[Path, Session] = {}

    def audit_folder(folder: Path, unsaved: Mapping[Path, bytes]) -> Result:
        from capaudit.audit.editing import Session
        from capaudit.audit.evidence_files import load_evidence
        from capaudit.audit.gate import Gate, find_baseline, judge

        try:
            os.chdir(folder)  # as if somebody had called `capaudit check` there
        except OSError as error:
            raise InputError(f"the folder cannot be entered: {error.strerror}", place=str(folder)) from error
        options = prepare((), (), None, file, False)
        configuration = with_selection(options.configuration, (), (), ())
        evidence = load_evidence((), configuration, options.working_directory)
        # One process: this one has threads, which a fork would lose.
        options = replace(options, configuration=configuration, unsaved=unsaved, evidence=evidence, jobs=1)
        result = sessions.setdefault(folder, Session()).audit(replace(options, collect_fixes=True))
        return judge(result, options, Gate(find_baseline(None, configuration, options.working_directory)))

    server = build(audit_folder)
    # The protocol owns the real stdout, and closes it in the end; whatever else prints goes to stderr.
    with os.fdopen(os.dup(1), "wb") as wire, contextlib.redirect_stdout(sys.stderr):
        server.start_io(stdout=wire)
    return 0 if server.left else 1
