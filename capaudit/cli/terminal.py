"""What the terminal can show: colours, links, and how wide it is."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from typing import Final

from capaudit.cli.output import Target

# Terminals that are known to read OSC 8; others would print the address.
_WITH_LINKS: Final = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby")
_LINKING: Final = ("KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION", "DOMTERM", "ALACRITTY_WINDOW_ID")
_NARROWEST, _WIDEST = 40, 160


@dataclass(frozen=True, slots=True)
class Terminal:
    """``width`` is ``None`` where no terminal shows the text: then lines are as long as they are."""

    color: bool = False
    links: bool = False
    width: int | None = None


def terminal(no_color: bool, target: Target) -> Terminal:
    """Return what a report to ``target`` may use.

    ``--no-color`` and ``NO_COLOR`` forbid colours, ``FORCE_COLOR`` asks for them where no terminal is seen (in
    a CI log, say); ``FORCE_HYPERLINK`` (1 or 0) decides about links where the terminal is not known.
    """
    if target.file is not None:
        return Terminal()
    shown = sys.stdout is not None and sys.stdout.isatty()
    forbidden = no_color or bool(os.environ.get("NO_COLOR"))
    color = not forbidden and (_forced("FORCE_COLOR") or (shown and os.environ.get("TERM") != "dumb"))
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns)) if shown else None
    return Terminal(color, color and _links(shown), width)


def _links(shown: bool) -> bool:
    wish = os.environ.get("FORCE_HYPERLINK", "")
    if wish:
        return wish != "0"
    if not shown or "CI" in os.environ or "TMUX" in os.environ:
        return False
    vte = os.environ.get("VTE_VERSION", "")
    modern = vte.isdigit() and int(vte) >= 5000
    known = os.environ.get("TERM_PROGRAM") in _WITH_LINKS or any(name in os.environ for name in _LINKING)
    return modern or known or os.environ.get("TERM", "").startswith(("xterm-kitty", "foot", "contour"))


def _forced(name: str) -> bool:
    return os.environ.get(name, "").lower() not in ("", "0", "false")
