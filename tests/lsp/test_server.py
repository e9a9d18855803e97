"""The server as an editor meets it: started as a command, spoken to over stdio by a real client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls", reason="needs the lsp extra")

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from tests.conftest import ROOT
from tests.gate.project import BAD, GOOD

PATIENCE = 60.0


class Editor(LanguageClient):
    """A client that remembers what the server has published and said."""

    def __init__(self, folder: Path) -> None:
        super().__init__("editor", "1")
        self.folder = folder
        self.published: dict[str, list[types.Diagnostic]] = {}
        self.messages: list[str] = []
        self.version = 0
        self._news = asyncio.Event()

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published[params.uri] = list(params.diagnostics)
            self._news.set()

        @self.feature(types.WINDOW_SHOW_MESSAGE)
        def show(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)
            self._news.set()

    async def start(self, encodings: list[types.PositionEncodingKind] | None = None) -> types.InitializeResult:
        await self.start_io(sys.executable, "-m", "capaudit", "lsp", "--stdio", cwd=ROOT)
        general = types.GeneralClientCapabilities(position_encodings=encodings)
        folder = types.WorkspaceFolder(self.folder.as_uri(), self.folder.name)
        parameters = types.InitializeParams(
            capabilities=types.ClientCapabilities(general=general),
            root_uri=self.folder.as_uri(),
            workspace_folders=[folder],
        )
        result = await self.initialize_async(parameters)
        self.initialized(types.InitializedParams())
        return result

    def uri(self, file: str) -> str:
        return (self.folder / file).as_uri()

    def open(self, file: str) -> None:
        text = (self.folder / file).read_text(encoding="utf-8")
        self.text_document_did_open(
            types.DidOpenTextDocumentParams(types.TextDocumentItem(self.uri(file), "python", 0, text))
        )

    def type(self, file: str, text: str) -> None:
        self.version += 1
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self.version, self.uri(file)),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not holds():
                self._news.clear()
                await self._news.wait()

        await asyncio.wait_for(wait(), PATIENCE)

    def codes(self, file: str) -> list[str] | None:
        found = self.published.get(self.uri(file))
        return None if found is None else [str(diagnostic.code) for diagnostic in found]

    async def leave(self) -> int:
        await self.shutdown_async(None)
        self.exit(None)
        assert self._server is not None
        return await asyncio.wait_for(self._server.wait(), PATIENCE)


FILE = "robots/timers.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "robots").mkdir()
    (tmp_path / "robots" / "__init__.py").touch()
    (tmp_path / FILE).write_text(BAD, encoding="utf-8")
    return tmp_path


def session(folder: Path, talk: Callable[[Editor], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        editor = Editor(folder)
        await editor.start(**options)
        try:
            await asyncio.wait_for(talk(editor), 2 * PATIENCE)
        finally:
            status = await editor.leave()
        assert status == 0

    asyncio.run(run())


def test_findings_follow_what_is_typed_and_nothing_is_saved(project: Path) -> None:
    async def talk(editor: Editor) -> None:
        await editor.until(lambda: editor.codes(FILE) == ["CAP103"])  # without a file open
        editor.open(FILE)
        editor.type(FILE, GOOD)
        await editor.until(lambda: editor.codes(FILE) == [])
        for half in ("def (", BAD + "\n    x = (", "\0", "x" * 10, "class"):
            editor.type(FILE, half)
        await editor.until(lambda: editor.codes(FILE) not in ([], ["CAP103"]) or bool(editor.messages))
        editor.type(FILE, BAD)
        await editor.until(lambda: editor.codes(FILE) == ["CAP103"])
        assert (project / FILE).read_text(encoding="utf-8") == BAD

    session(project, talk)


def test_a_finding_carries_its_call_path_its_page_and_a_suppression(project: Path) -> None:
    nested = BAD.replace("    def tick", "    def restart").replace("  # capaudit: boundary", "")
    nested += "\n    def tick(self, ids):  # capaudit: boundary\n        self.restart(ids)\n"
    (project / FILE).write_text(nested, encoding="utf-8")

    async def talk(editor: Editor) -> None:
        editor.open(FILE)
        await editor.until(lambda: editor.codes(FILE) == ["CAP103"])
        (found,) = editor.published[editor.uri(FILE)]
        assert (found.source, found.severity) == ("capaudit", types.DiagnosticSeverity.Error)
        assert (found.range.start.line, found.range.start.character) == (8, 8)
        path = [(info.location.range.start.line, info.message) for info in found.related_information or ()]
        assert [line for line, _ in path] == [10, 11]
        assert path[1][1].endswith("Timers.restart")

        document = types.TextDocumentIdentifier(editor.uri(FILE))
        hover = await editor.text_document_hover_async(types.HoverParams(document, types.Position(8, 10)))
        assert hover is not None
        assert isinstance(hover.contents, types.MarkupContent)
        assert "CAP103 host-to-device-copy" in hover.contents.value
        assert "```python" in hover.contents.value
        assert await editor.text_document_hover_async(types.HoverParams(document, types.Position(0, 0))) is None

        context = types.CodeActionContext(diagnostics=[found])
        actions = await editor.text_document_code_action_async(types.CodeActionParams(document, found.range, context))
        made = [action for action in actions or () if isinstance(action, types.CodeAction)]
        (action,) = [action for action in made if action.title.startswith("Suppress ")]
        assert action.kind == types.CodeActionKind.QuickFix
        assert action.edit is not None
        (edit,) = (action.edit.changes or {})[editor.uri(FILE)]
        lines = nested.split("\n")
        assert edit.range.start == edit.range.end == types.Position(8, len(lines[8]))
        lines[8] += edit.new_text
        editor.type(FILE, "\n".join(lines))
        await editor.until(lambda: editor.codes(FILE) == [])
        column = lines[8].index("host-to-device-copy") + 3
        hover = await editor.text_document_hover_async(types.HoverParams(document, types.Position(8, column)))
        assert hover is not None, "the page of a rule that a comment names"

    session(project, talk)


def test_columns_are_in_the_encoding_that_was_agreed_on(project: Path) -> None:
    source = BAD.replace("self.left[ids] = 0.0", "'\U0001f600\u00e9'; self.left[ids] = 0.0")
    (project / FILE).write_text(source, encoding="utf-8")

    async def talk(editor: Editor) -> None:
        await editor.until(lambda: editor.codes(FILE) == ["CAP103"])
        (found,) = editor.published[editor.uri(FILE)]
        assert found.range.start.character == len("        '\U0001f600\u00e9'; ".encode())

    session(project, talk, encodings=[types.PositionEncodingKind.Utf8])


def test_a_mistake_in_the_configuration_is_told_and_its_repair_noticed(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.capaudit]\nselct = []\n")

    async def talk(editor: Editor) -> None:
        await editor.until(lambda: bool(editor.messages))
        assert "selct" in editor.messages[0]
        (project / "pyproject.toml").write_text("[tool.capaudit]\n")
        editor.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([]))
        await editor.until(lambda: editor.codes(FILE) == ["CAP103"])
        assert len(editor.messages) == 1

    session(project, talk)


def test_a_fix_is_offered_for_audited_text_alone_and_takes_the_finding_away(project: Path) -> None:
    made_here = 'self.ids = torch.arange(4, device="cuda")'
    source = BAD.replace("\n\n    def tick(self, ids)", f"\n        {made_here}\n\n    def tick(self)")
    source = source.replace("[ids]", "[self.ids]")
    (project / FILE).write_text(source, encoding="utf-8")

    async def talk(editor: Editor) -> None:
        editor.open(FILE)
        await editor.until(lambda: editor.codes(FILE) == ["CAP103"])
        (found,) = editor.published[editor.uri(FILE)]
        document = types.TextDocumentIdentifier(editor.uri(FILE))
        parameters = types.CodeActionParams(document, found.range, types.CodeActionContext(diagnostics=[found]))
        actions = await editor.text_document_code_action_async(parameters)
        made = [action for action in actions or () if isinstance(action, types.CodeAction)]
        fix = next(action for action in made if not action.title.startswith("Suppress "))
        assert fix.edit is not None
        (edit,) = (fix.edit.changes or {})[editor.uri(FILE)]
        lines = source.split("\n")
        row = edit.range.start.line
        assert edit.range.end.line == row
        lines[row] = lines[row][: edit.range.start.character] + edit.new_text + lines[row][edit.range.end.character :]
        assert "index_fill_" in lines[row]
        editor.type(FILE, "\n" * 5 + source)
        assert not await editor.text_document_code_action_async(parameters), "not for text that was not audited yet"
        editor.type(FILE, "\n".join(lines))
        await editor.until(lambda: editor.codes(FILE) == [])

    session(project, talk)


def test_buffers_and_folders_that_are_none_end_nothing(project: Path) -> None:
    async def talk(editor: Editor) -> None:
        await editor.until(lambda: editor.codes(FILE) == ["CAP103"])
        for uri in (
            "untitled:Untitled-1",
            "git:/a.py?ref",
            "file:///",
            "vscode-notebook-cell:/a.ipynb#x",
            "file:///absent/a.py",
        ):
            item = types.TextDocumentItem(uri, "python", 0, "x = (")
            editor.text_document_did_open(types.DidOpenTextDocumentParams(item))
            document, start = types.TextDocumentIdentifier(uri), types.Position(5, 900)
            assert await editor.text_document_hover_async(types.HoverParams(document, start)) is None
            context = types.CodeActionContext(diagnostics=[])
            parameters = types.CodeActionParams(document, types.Range(start, start), context)
            assert not await editor.text_document_code_action_async(parameters)
            editor.text_document_did_close(types.DidCloseTextDocumentParams(document))
            assert await editor.text_document_hover_async(types.HoverParams(document, start)) is None
        (project / FILE).unlink()
        (project / "robots" / "__init__.py").unlink()
        (project / "robots").rmdir()
        project.rmdir()
        editor.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([]))
        await editor.until(lambda: any("cannot be entered" in message for message in editor.messages))
        project.mkdir()
        (project / "a.py").write_text("def step(x): return x", encoding="utf-8")
        editor.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([]))
        await editor.until(lambda: editor.codes(FILE) == [])

    session(project, talk)


def test_without_pygls_the_command_says_what_to_install(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "capaudit.lsp.server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    outcome = run("lsp")
    assert (outcome.status, outcome.out) == (2, "")
    assert 'pip install "capaudit[lsp]"' in outcome.err
