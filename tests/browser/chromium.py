"""A headless Chromium, driven over its own pipe: no driver, no network, nothing to install but the browser."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

_WIRING = """
import os, sys
commands, answers = os.dup(os.dup(int(sys.argv[1]))), os.dup(os.dup(int(sys.argv[2])))
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_browser() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page of one browser. ``run`` evaluates script, ``key`` presses a key, ``shot`` takes a picture."""

    def __init__(self, folder: Path, *, dark: bool = False, size: tuple[int, int] = (1500, 950)) -> None:
        self.page = Path()  # what a test module opens again and again
        program = find_browser()
        assert program is not None
        # The browser reads commands from descriptor 3 and answers on 4.
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        arguments = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--host-resolver-rules=MAP * ~NOTFOUND",  # a page that needs the network fails here
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={size[0]},{size[1]}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", _WIRING, str(commands), str(answers), *arguments],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._buffer = b""
        self._number = 0
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = next(t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.command(f"{domain}.enable")
        self.command(
            "Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False
        )

    def open(self, page: Path, fragment: str = "") -> None:
        """Load the page and wait until its script has drawn it."""
        self.command("Page.navigate", url="about:blank")  # else a new fragment alone would not load anything
        self.command("Page.navigate", url=page.as_uri() + fragment)
        deadline = time.monotonic() + 20
        while not self.run("document.documentElement?.dataset?.ready"):
            assert time.monotonic() < deadline, f"the page was never ready: {self.errors}"
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        answer = self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def key(self, key: str, code: str = "") -> None:
        text = key if len(key) == 1 else ""
        extra = {"text": text} if text else {}
        self.command("Input.dispatchKeyEvent", type="keyDown", key=key, code=code or key, **extra)
        self.command("Input.dispatchKeyEvent", type="keyUp", key=key, code=code or key)

    def type(self, text: str) -> None:
        self.command("Input.insertText", text=text)

    def shot(self, file: Path) -> None:
        data = self.command("Page.captureScreenshot", format="png")["data"]
        file.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        os.close(self._to)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._call(method, self._session, **parameters)

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        details = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(details["exceptionDetails"])[:600])
            case "Log.entryAdded" if details["entry"]["level"] == "error":
                self.errors.append(details["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(details["request"]["url"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], 30)
            assert ready, "the browser does not answer"
            part = os.read(self._from, 1 << 16)
            assert part, "the browser is gone"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))
