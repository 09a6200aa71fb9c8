"""A headless Chromium, driven through two pipes, as its developer tools protocol allows: no port, no driver."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""The program; None if it is not installed."""

_AS_ASKED = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for number, end in zip((3, 4), ends):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Starts a program with two pipes as its descriptors 3 and 4."""

PATIENCE = 120.0  # seconds for an answer, which takes a fraction of one on an idle machine


class Browser:
    """A page of a headless browser.

    Attributes:
        complaints: what was written to its console, and exceptions of scripts.
        requests: the addresses of all that was fetched.
    """

    def __init__(self, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _AS_ASKED,
                str(to_read),
                str(to_write),
                str(CHROMIUM),
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._number, self._rest, self._session = 0, b"", ""
        (page,) = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser, with all its processes."""
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            answer = self._next(until)
            if answer is not None and answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
        raise TimeoutError(f"the browser has not answered to {method}")

    def _next(self, until: float) -> dict[str, Any] | None:
        """Return the next message; None if there is none in time."""
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has ended"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(message["params"]["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if message["params"]["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(message["params"]["args"]))
            case "Log.entryAdded" if message["params"]["entry"]["level"] in ("error", "warning"):
                self.complaints.append(str(message["params"]["entry"]))
        return message

    def open(self, address: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a page, in a window of a size, and in light or dark colours."""
        self.show(width, height, dark)
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def show(self, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show the page that is open in a window of another size, and in light or dark colours."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def ask(self, script: str) -> Any:
        """Return the value of an expression of JavaScript."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> Any:
        """Wait until an expression is true, and return its value."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if value := self.ask(script):
                return value
            time.sleep(0.05)
        raise TimeoutError(f"it does not become true: {script}")

    def drag(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag the pointer from one place of the window to another."""
        steps = [("mouseMoved", begin), ("mousePressed", begin), ("mouseMoved", end), ("mouseReleased", end)]
        for kind, (x, y) in steps:
            held = 1 if kind != "mouseMoved" or (x, y) == end else 0
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=held, clickCount=1)

    def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **({"text": key} if len(key) == 1 else {}))

    def picture(self, path: Path, whole: bool = True) -> None:
        """Save a picture of the page as PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def browser(profile: Path) -> Generator[Browser]:
    """Start a browser, and end it after this block."""
    started = Browser(profile)
    try:
        yield started
    finally:
        started.close()
