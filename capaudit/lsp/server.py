"""The server over stdio: audits a folder after a pause in typing, and publishes what it finds.

One audit runs at a time, in a thread of its own, on the texts that the editor has not saved yet. What
goes wrong (a configuration with a mistake, an entry that is gone) is told to the user once and never
ends the server.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from capaudit import __version__
from capaudit.knowledge import Knowledge, load
from capaudit.lsp.actions import can_be_suppressed, rewrite, suppression
from capaudit.lsp.diagnostics import SOURCE, Mark, mark_path, marks
from capaudit.lsp.hovers import comment_hover, finding_hover
from capaudit.lsp.positions import split_lines, to_column
from capaudit.model import CapauditError, Result

Audit = Callable[[Path, Mapping[Path, bytes]], Result]
"""Audits a folder with unsaved texts by absolute path. Errors: ``CapauditError``."""

PAUSE: Final = 0.3
"""Seconds without a change before an audit begins."""


@dataclass(slots=True)
class _Folder:
    """A workspace folder: what is published for it, and whether an audit is waiting or running."""

    path: Path
    marks: list[Mark] = field(default_factory=list)
    audited: Mapping[Path, bytes] = field(default_factory=dict)
    published: frozenset[str] = frozenset()
    timer: asyncio.TimerHandle | None = None
    running: bool = False
    stale: bool = False
    told: str = ""


class Server(LanguageServer):
    """The language server; ``audit`` is what it asks for findings."""

    def __init__(self, audit: Audit, pause: float = PAUSE) -> None:
        super().__init__(SOURCE, __version__)
        self.audit = audit
        self.pause = pause
        self.folders: dict[Path, _Folder] = {}
        # The engine keeps state while it works, so two audits must never run side by side.
        self.worker = ThreadPoolExecutor(1, thread_name_prefix="capaudit")
        self._knowledge: Knowledge | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.left = False
        """Whether the client has asked for the end before it went, as the protocol wants it."""

    @property
    def knowledge(self) -> Knowledge:
        if self._knowledge is None:
            self._knowledge = load()
        return self._knowledge

    @property
    def encoding(self) -> str:
        return str(getattr(self.workspace.position_encoding, "value", self.workspace.position_encoding) or "utf-16")

    # -- when to audit -------------------------------------------------------------------------------------------

    def changed(self, uri: str | None = None) -> None:
        """Audit the folder of a file (all folders without one) after a pause."""
        for folder in self.concerned(uri):
            if folder.timer is not None:
                folder.timer.cancel()
            folder.timer = asyncio.get_running_loop().call_later(self.pause, self.begin, folder)

    def concerned(self, uri: str | None) -> list[_Folder]:
        roots = [Path(known) for name in self.workspace.folders if (known := uris.to_fs_path(name))]
        if not roots and self.workspace.root_path:
            roots = [Path(self.workspace.root_path)]
        if uri is not None and not uri.startswith("file:"):
            return []  # a buffer that never was a file
        path = Path(uris.to_fs_path(uri) or "") if uri is not None else None
        if not roots and path is not None:
            roots = [path.parent]  # a single file was opened
        wanted = [root for root in roots if path is None or path.is_relative_to(root)]
        return [self.folders.setdefault(root, _Folder(root)) for root in wanted]

    def begin(self, folder: _Folder) -> None:
        folder.timer = None
        if folder.running:
            folder.stale = True
            return
        task = asyncio.get_running_loop().create_task(self.refresh(folder))
        self._tasks.add(task)  # the loop itself keeps no reference
        task.add_done_callback(self._tasks.discard)

    async def refresh(self, folder: _Folder) -> None:
        """Audit until the result stands for what the editor shows now."""
        folder.running = True
        try:
            while True:
                folder.stale = False
                unsaved = self.unsaved(folder)
                loop = asyncio.get_running_loop()
                try:
                    result = await loop.run_in_executor(self.worker, self.audit, folder.path, unsaved)
                except CapauditError as error:
                    self.tell(folder, str(error))
                except Exception as error:  # a server that is gone helps nobody: say it and wait for the next change
                    self.tell(folder, f"internal error: {type(error).__name__}: {error}")
                else:
                    folder.told = ""
                    folder.audited = unsaved
                    folder.marks = marks(result, folder.path, partial(_text, unsaved=unsaved), self.encoding)
                    self.publish(folder)
                if not folder.stale:
                    # What the audit leaves behind is taken apart now, while nobody waits for an answer.
                    await loop.run_in_executor(self.worker, gc.collect)
                    if not folder.stale:
                        return
        finally:
            folder.running = False

    def unsaved(self, folder: _Folder) -> dict[Path, bytes]:
        found = {}
        for document in self.workspace.text_documents.values():
            path = Path(uris.to_fs_path(document.uri) or "") if document.uri.startswith("file:") else Path()
            if path.suffix == ".py" and path.is_relative_to(folder.path):
                found[path] = document.source.encode("utf-8", errors="surrogatepass")
        return found

    # -- what to show --------------------------------------------------------------------------------------------

    def publish(self, folder: _Folder) -> None:
        grouped: dict[str, list[types.Diagnostic]] = {}
        for mark in folder.marks:
            uri = self.uri(mark.path)
            grouped.setdefault(uri, []).append(mark.diagnostic)
        for uri in sorted(folder.published - grouped.keys()):
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))
        for uri, found in sorted(grouped.items()):
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))
        # Open files without a finding hear of it too: an editor may wait for an answer.
        for uri in sorted(self.workspace.text_documents.keys() - grouped.keys() - folder.published):
            path = Path(uris.to_fs_path(uri) or "")
            if path.is_relative_to(folder.path):
                self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))
        folder.published = frozenset(grouped)

    def uri(self, path: Path) -> str:
        """Return the URI of a file as the editor spells it."""
        for known in self.workspace.text_documents:
            if uris.to_fs_path(known) == str(path):
                return str(known)
        return uris.from_fs_path(str(path)) or path.as_uri()

    def tell(self, folder: _Folder, text: str) -> None:
        if text != folder.told:  # once, and not at every keystroke
            folder.told = text
            message = f"capaudit: {text}"
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, message))

    def at(self, uri: str) -> list[tuple[_Folder, Mark]]:
        path = Path(uris.to_fs_path(uri) or "")
        return [(folder, mark) for folder in self.folders.values() for mark in folder.marks if mark.path == path]

    def current(self, folder: _Folder, path: Path) -> list[str] | None:
        """Return the lines that were audited; ``None`` when the editor shows others by now, so that no edit fits."""
        shown = self.unsaved(folder).get(path)
        if shown != folder.audited.get(path):
            return None
        return split_lines(_text(path, folder.audited))

    def lines(self, uri: str) -> list[str]:
        """Return a document's lines; none where it is closed and cannot be read (a question that came too late)."""
        try:
            return split_lines(self.workspace.get_text_document(uri).source)
        except (OSError, ValueError):
            return []


def build(audit: Audit, pause: float = PAUSE) -> Server:
    """Return a server with its features; ``start_io`` runs it."""
    server = Server(audit, pause)

    @server.feature(types.INITIALIZED)
    def initialized(ls: Server, _: types.InitializedParams) -> None:
        ls.changed()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        ls.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def edited(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        ls.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
        ls.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.changed(params.text_document.uri)  # what was not saved is gone

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(ls: Server, _: types.DidChangeWatchedFilesParams) -> None:
        ls.changed()

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def moved(ls: Server, _: types.DidChangeWorkspaceFoldersParams) -> None:
        ls.changed()

    @server.feature(types.SHUTDOWN)
    def shut_down(ls: Server, _: None) -> None:
        ls.left = True

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
        uri, position = params.text_document.uri, params.position
        found = [mark for _, mark in ls.at(uri) if _holds(mark.diagnostic.range, position)]
        if found:
            text: str | None = finding_hover((mark.finding for mark in found), ls.knowledge)
            where = found[0].diagnostic.range
        else:
            lines = ls.lines(uri)
            line = lines[position.line] if position.line < len(lines) else ""
            text = comment_hover(line, to_column(position, lines, ls.encoding), ls.knowledge)
            where = None
        if text is None:
            return None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), where)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    )
    def actions(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
        only = params.context.only
        if only and not any(types.CodeActionKind.QuickFix.value.startswith(kind) for kind in only):
            return []
        found = [pair for pair in ls.at(params.text_document.uri) if _overlap(pair[1].diagnostic.range, params.range)]
        return [*_fixes(ls, found), *_suppressions(ls, found)]

    return server


def _text(path: Path, unsaved: Mapping[Path, bytes]) -> str:
    try:
        data = unsaved[path] if path in unsaved else path.read_bytes()
    except OSError:
        return ""
    return data.decode("utf-8", errors="replace")


def _fixes(ls: Server, found: list[tuple[_Folder, Mark]]) -> Iterator[types.CodeAction]:
    for folder, mark in found:
        fix = mark.finding.fix
        edits = rewrite(mark.finding, partial(_current, ls, folder), ls.encoding)
        if fix is None or edits is None:
            continue
        doubt = "" if fix.safe else " (look at it: not everything that it rests on is proven)"
        changes = {ls.uri(mark_path(folder.path, file)): changed for file, changed in edits.items()}
        action = _quick_fix(f"{fix.message}{doubt}", mark.diagnostic, changes)
        action.is_preferred = fix.safe
        yield action


def _suppressions(ls: Server, found: list[tuple[_Folder, Mark]]) -> Iterator[types.CodeAction]:
    for folder, mark in found:
        lines = ls.current(folder, mark.path)
        edit = suppression(mark.finding, lines, ls.encoding) if lines and can_be_suppressed(mark.finding) else None
        if edit is not None:
            title = f"Suppress {mark.finding.code} {mark.finding.name} here"
            yield _quick_fix(title, mark.diagnostic, {ls.uri(mark.path): [edit]})


def _current(ls: Server, folder: _Folder, file: str) -> list[str] | None:
    return ls.current(folder, mark_path(folder.path, file))


def _quick_fix(title: str, diagnostic: types.Diagnostic, changes: dict[str, list[types.TextEdit]]) -> types.CodeAction:
    return types.CodeAction(
        title=title,
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic],
        edit=types.WorkspaceEdit(changes=changes),
    )


def _holds(where: types.Range, position: types.Position) -> bool:
    return _before(where.start, position) and _before(position, where.end)


def _overlap(first: types.Range, second: types.Range) -> bool:
    return _before(first.start, second.end) and _before(second.start, first.end)


def _before(first: types.Position, second: types.Position) -> bool:
    return (first.line, first.character) <= (second.line, second.character)
