"""``wp.ScopedStream(s)`` -> ``wp.ScopedStream(s, sync_enter=False)`` in a Torch capture.

By default the stream first waits for Warp's previous stream, which the capture does not own. Safe where
the code stands inside the capture's own ``with`` block; elsewhere it may run eagerly too, and then work
that Warp queued before is no longer waited for.
"""

from __future__ import annotations

import ast

from capaudit.audit.fixes.site import Site, between
from capaudit.model import Edit, Fix, Place

NAME = "scoped-stream"
_MESSAGE = "without the wait on entry the block only changes where Warp queues its work"
_EAGER = "; outside a capture the block no longer waits for work that Warp queued before it"


def propose(site: Site) -> Fix | None:
    if site.finding.code != "CAP402" or site.finding.operation != "warp.ScopedStream" or site.capture == "warp":
        return None
    node = site.node(ast.Call)
    if not isinstance(node, ast.Call) or not (node.args or node.keywords):
        return None
    if any(isinstance(argument, ast.Starred) for argument in node.args) or any(k.arg is None for k in node.keywords):
        return None
    edit = _edit(site, node)
    if edit is None:
        return None
    safe = _inside_capture(site, node)
    return Fix(NAME, _MESSAGE + ("" if safe else _EAGER), safe, (edit,))


def _edit(site: Site, node: ast.Call) -> Edit | None:
    given = next((keyword.value for keyword in node.keywords if keyword.arg == "sync_enter"), None)
    if given is None and len(node.args) > 1:
        given = node.args[1]
    if given is not None:
        return Edit(site.place(given), "False") if isinstance(given, ast.Constant) else None
    last = max((site.place(part) for part in (*node.args, *node.keywords)), key=lambda p: (p.end_line, p.end_column))
    whole = site.place(node)
    rest = Place(whole.file, last.end_line, last.end_column, whole.end_line, whole.end_column)
    if between(site.module, rest).split("#")[0].strip(" \t\r\n,") not in (")", ""):
        return None  # the last argument stands in parentheses of its own
    at = Place(whole.file, last.end_line, last.end_column, last.end_line, last.end_column)
    return Edit(at, ", sync_enter=False")


def _inside_capture(site: Site, node: ast.AST) -> bool:
    current = site.parent(node)
    while current is not None and not isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        around = isinstance(current, (ast.With, ast.AsyncWith)) and current is not site.statement(node)
        if around and any(_is_graph(item.context_expr) for item in getattr(current, "items", ())):
            return True
        current = site.parent(current)
    return False


def _is_graph(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.cuda.graph", "cuda.graph")
