"""``capaudit rules``: the list of rules."""

from __future__ import annotations

import click

from capaudit.cli.options import output_option, split
from capaudit.cli.output import parse_targets

_FORMATS = ("text", "json", "markdown")


@click.command()
@click.argument("selectors", nargs=-1, metavar="[RULE]...")
@output_option(_FORMATS)
def rules(selectors: tuple[str, ...], outputs: tuple[str, ...]) -> int:
    """List the rules, all or those with these codes, names or prefixes of codes."""
    from capaudit.cli.selectors import canonical
    from capaudit.knowledge import load
    from capaudit.report import rules as report

    targets = parse_targets(outputs, _FORMATS)
    wanted = tuple(canonical(split(selectors), None).values())
    found = [rule for code, rule in load().rules.items() if not wanted or code.startswith(wanted)]
    renderers = {"text": report.render_text, "json": report.render_json, "markdown": report.render_markdown}
    for target in targets:
        target.write(renderers[target.format](found))
    return 0
