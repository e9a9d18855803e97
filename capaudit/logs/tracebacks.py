"""Python tracebacks in a stream of lines: blocks of frames, chained as the interpreter prints them, cause first."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_HEADER: Final = re.compile(r"(?P<before>.*?)Traceback \(most recent call last\):?\s*$")
_FRAME: Final = re.compile(
    r'(?:^|(?<=[\s|+]))File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9})(?:,? in (?P<function>.{1,300}))?'
)
_CARETS: Final = re.compile(r"[\s|]*[~^]+[~^\s]*$")
_CHAIN: Final = (
    "During handling of the above exception, another exception occurred",
    "The above exception was the direct cause of the following exception",
)
_EXCEPTION: Final = re.compile(
    r"[ |]{0,4}(?:[a-z_][\w.]{0,200}\.)?[A-Z_]\w{0,100}"
    r"(?:(?:Error|Exception|Violation|Interrupt|Exit|Warning|Group|Failure|Iteration)\b(?:: ?.*)?|: .*)$"
)

_DIGITS: Final = re.compile(r"\d")

# pytest's short form, IPython's cells and files, and the boxes of rich.
_PYTEST_PLACE: Final = re.compile(
    r"(?P<file>[^\s:][^:]{0,500}\.py):(?P<line>\d{1,9}): ?"
    r"(?P<rest>in (?P<function>\S+)|[A-Za-z_.]*(?:Error|Exception|Violation))?\s*$"
)
_PYTEST_CODE: Final = re.compile(r"(?:>|E) {3,}(?P<code>\S.*)$")
_IPYTHON_PLACE: Final = re.compile(
    r"(?:File )?(?P<file>[^\s:]\S{0,500}\.py):(?P<line>\d{1,9}), in (?P<function>[\w.<>]+)"
    r"|(?P<cell>Cell In ?\[\d+\]), \[?line (?P<row>\d+)"
)
_ARROW: Final = re.compile(r"-{2,}> *(?:\d+|\[\d+\]\(\S*\)) (?P<code>.*)$")
_CRASH: Final = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):")
_RICH_PLACE: Final = re.compile(r"[│|] +(?P<file>\S+\.py):(?P<line>\d+) in (?P<function>[\w<>.]+)")
_RICH_CODE: Final = re.compile(r"[│|] *❱ *\d+ +[│|]?(?P<code>.*?)[│|]?\s*$")

_MOST_FRAMES: Final = 200
_LIBRARY: Final = re.compile(
    r"(?:^|[/\\])(?:site-packages|dist-packages|lib[/\\]python\d[\d.]*|torch[/\\](?:nn|cuda|_inductor|_dynamo|_functorch|"
    r"utils|autograd|optim|_ops|_tensor|distributed)|warp[/\\](?:_src|context|utils|types|torch)|_pytest|pluggy)(?:[/\\.]|$)"
    r"|^<|^/pytorch/|^/usr/lib/python"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a traceback; ``code`` is the source as printed, ``marked`` the part under the carets."""

    file: str
    line: int
    function: str
    code: str = ""
    marked: str = ""

    @property
    def is_library(self) -> bool:
        """Whether the frame lies in an installed package or the interpreter rather than in the user's program."""
        return _LIBRARY.search(self.file) is not None


@dataclass(slots=True)
class Block:
    """One traceback and the exception that ends it. ``chained``: it followed another that it belongs to."""

    chained: bool = False
    frames: list[Frame] = field(default_factory=list)
    exception: str = ""
    line: int = 0
    done: bool = False
    inside_out: bool = False
    """Whether the deepest frame is printed first, as faulthandler does."""

    def add(self, frame: Frame) -> None:
        if self.inside_out:
            del self.frames[: max(len(self.frames) - _MOST_FRAMES + 1, 0)]
            self.frames.insert(0, frame)
            return
        if len(self.frames) == _MOST_FRAMES:  # endless recursion: the ends say what happened
            del self.frames[_MOST_FRAMES // 2]
        self.frames.append(frame)

    @property
    def innermost(self) -> Frame | None:
        """The deepest frame of the user's program, else the deepest of all."""
        placed = [frame for frame in self.frames if frame.file]
        own = [frame for frame in placed if not frame.is_library]
        return own[-1] if own else placed[-1] if placed else None


class Tracebacks:
    """The tracebacks of one writer. ``feed`` takes its lines in order; ``block`` is the one that is being read."""

    def __init__(self) -> None:
        self.block: Block | None = None
        self._chain = False
        self._code = False
        self._before = ""

    def feed(self, number: int, text: str) -> bool:
        """Take one line; return whether a new traceback begins with it."""
        before = self.block
        if "Traceback" in text and _HEADER.match(text):
            self._begin(number)
        elif "most recent call first" in text and _CRASH.search(text):
            self._begin(number)
            assert self.block is not None
            self.block.inside_out = True
        elif "exception" in text and any(phrase in text for phrase in _CHAIN):
            self._chain = True
        elif not self._frame(number, text) and not self._other_form(number, text):
            self._rest(text)
        return self.block is not before

    def _begin(self, number: int) -> None:
        self.block = Block(chained=self._chain and self.block is not None, line=number)
        self._chain, self._code = False, False

    def _open(self, number: int) -> Block:
        """The block that takes the next frame; one without a header begins where the last has ended."""
        if self.block is None or self.block.done:
            self._begin(number)
        assert self.block is not None
        return self.block

    def _frame(self, number: int, text: str) -> bool:
        if 'File "' not in text:
            return False
        if "Found from" in text:  # a compiler's stack, begun on the line of its message
            text = text[text.index('File "') :]
        frame = _FRAME.search(text)
        if frame is None or (frame.start() and _EXCEPTION.match(self._without_prefix(text))):
            return False  # an exception's own text may quote a place
        self._open(number).add(Frame(frame["file"], int(frame["line"]), (frame["function"] or "").strip()))
        self._code = True
        # A logger may put time and level before every line; what follows has as much before it.
        self._before = text[: frame.start()].rstrip()
        return True

    def _rest(self, text: str) -> None:
        """Source, carets and the exception, which belong to the frame before them."""
        block = self.block
        if block is None or block.done or not block.frames:
            return
        text = self._without_prefix(text)
        if _CARETS.match(text):
            self._mark(block, text)
        elif self._code:
            self._code = False
            self._set_code(block, text)
        elif _EXCEPTION.match(text) and not text.startswith("    "):
            self._end(block, text)

    def _without_prefix(self, text: str) -> str:
        """Take off what a logger put before the frame: equally long, and equal but for its digits."""
        before = self._before
        if not before or _DIGITS.sub("0", text[: len(before)]) != _DIGITS.sub("0", before):
            return text
        return text[len(before) :].removeprefix(" ")

    def _set_code(self, block: Block, text: str) -> None:
        last = block.frames[-1]
        if text.startswith((" ", "\t", "|")) and not _CARETS.match(text):
            block.frames[-1] = Frame(last.file, last.line, last.function, text.rstrip())
        elif _EXCEPTION.match(text):
            self._end(block, text)

    @staticmethod
    def _end(block: Block, text: str) -> None:
        block.exception, block.done = text.strip(" |")[:500], True

    def _mark(self, block: Block, text: str) -> None:
        last = block.frames[-1]
        start = min((text.find(sign) for sign in "~^" if sign in text), default=0)
        marked = last.code[start : len(text.rstrip())]
        block.frames[-1] = Frame(last.file, last.line, last.function, last.code, marked)

    def _other_form(self, number: int, text: str) -> bool:
        """Frames as pytest and rich print them."""
        place = _RICH_PLACE.match(text) if "│" in text else _PYTEST_PLACE.match(text) if ".py:" in text else None
        if place is not None:
            block = self._open(number)
            # pytest shows the statement before it says where that is.
            code = block.frames.pop().code if block.frames and not block.frames[-1].file else ""
            block.add(Frame(place["file"], int(place["line"]), place["function"] or "", code))
            rest = place.groupdict().get("rest")
            block.done = bool(rest and not rest.startswith("in "))
            self._code = "│" not in text and not block.done
            return True
        cell = _IPYTHON_PLACE.match(text) if ", in " in text or text.startswith("Cell In") else None
        if cell is not None:
            file, line = (cell["cell"], cell["row"]) if cell["cell"] else (cell["file"], cell["line"])
            self._open(number).add(Frame(file, int(line), cell["function"] or ""))
            self._code = False
            return True
        shown = _RICH_CODE.match(text) if "❱" in text else _ARROW.match(text) if text.startswith("--") else None
        if shown is not None and self.block is not None and self.block.frames:
            last = self.block.frames[-1]
            self.block.frames[-1] = Frame(last.file, last.line, last.function, shown["code"].strip())
            return True
        shown = _PYTEST_CODE.match(text) if text.startswith(">") else None
        if shown is not None:
            self._open(number).add(Frame("", 0, "", shown["code"]))
        return shown is not None
