"""Findings with everything in them that a format has to escape."""

from __future__ import annotations

from dataclasses import replace

from capaudit.model import Hop, Place, RelatedPlace
from tests.report.sample import UPLOAD

NASTY_FILE = "my robots/gr\u00f6\u00dfe, 100%: a[1]#?.py"

NASTY = replace(
    UPLOAD,
    place=Place(NASTY_FILE, 3, 9, 5, 2),
    message="<b>\"x\" & 'y'</b> ]]> | `code` ::error:: 100%\r\n@everyone f[0](1) \x00\x1b[2J \ud800 \uffff \U0001f600",
    call_path=(Hop("T.tick<lambda>", NASTY_FILE, 1), Hop("T.r|e", NASTY_FILE, 2)),
    why=("a\nb", "::set-output name=x::y"),
    remedy="Use [this](https://example.com) ![](x) <script>.",
    related=(RelatedPlace(Place("../outside/a b.py", 7, 1, 7, 4), "bound | here\n"),),
)
