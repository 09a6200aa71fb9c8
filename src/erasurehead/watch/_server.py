"""The server of the live page: on this machine only, for whoever knows its address, and with nothing to be changed.

It listens on the loopback interface. A page of another site cannot read it: its address holds a random token, and a
request must name this machine as its host, so that a name that was made to lead here is of no use.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from erasurehead.errors import InvalidArgument
from erasurehead.runs._jsonl import to_line
from erasurehead.watch._metrics import KIND
from erasurehead.watch._page import page, policy
from erasurehead.watch._runs import Excerpt
from erasurehead.watch._watch import Watch

_HOST = "127.0.0.1"
_PATIENCE = 30.0  # seconds in which a browser must send or take something
_PAUSE = 0.5  # seconds between two events
_SILENCE = 10.0  # seconds without an event, after which it is seen whether the browser is still there

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class PageServer(ThreadingTCPServer):  # a server of the standard library for HTTP asks name servers for its own name
    """Serves the page of what is watched.

    Arguments:
        watch: what is watched; somebody else reads what is new.
        port: to listen on; 0 for a free one.

    Attributes:
        address: of the page.

    Raises:
        InvalidArgument: if the port cannot be had.
    """

    daemon_threads = allow_reuse_address = True

    def __init__(self, watch: Watch, port: int = 0) -> None:
        self.watch = watch
        self.token = secrets.token_urlsafe(24)
        try:
            super().__init__((_HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "there is no such port"
            sentence = f"Port {port} cannot be used: {why}; name another (--port), or leave it out for a free one."
            raise InvalidArgument("port", "must be free", port, sentence=sentence) from None
        taken = self.socket.getsockname()[1]
        self.hosts = {f"{name}:{taken}" for name in (_HOST, "localhost")}
        self.address = f"http://{_HOST}:{taken}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has left."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: PageServer  # pyright: ignore[reportIncompatibleVariableOverride]
    timeout = _PATIENCE
    server_version, sys_version = "erasurehead", ""

    def do_GET(self) -> None:
        """Answer with the page, a view of a run, figures for Prometheus, or the stream of events."""
        asked, watch = urlsplit(self.path), self.server.watch
        token, _, what = asked.path.removeprefix("/").partition("/")
        if self.headers.get("Host") not in self.server.hosts:
            self._answer(421, "This page is for this machine only.")
        elif not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            self._answer(404, "There is nothing here: take the address that erasurehead watch printed.")
        elif what == "":
            self._answer(200, page({"live": True, "about": watch.about()}), "text/html")
        elif what == "view":
            try:
                number, window = _window(parse_qs(asked.query))
                found = watch.view(number, window)
            except (ValueError, IndexError, OverflowError):
                self._answer(400, "There is no such view.")
            else:
                self._answer(200, to_line(found), "application/json")
        elif what == "metrics":
            self._answer(200, watch.metrics(), KIND)
        elif what == "events":
            self._stream(watch)
        else:
            self._answer(404, "There is nothing here.")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of requests."""

    def _stream(self, watch: Watch) -> None:
        """Send how all runs stand whenever there is something new, until the browser leaves or the watch ends."""
        self._begin(200, "text/event-stream")
        seen = -1
        while not watch.closing:
            version = watch.wait(seen, _SILENCE)
            said = f"data: {to_line(watch.about())}\n" if version != seen else ": still here\n\n"
            self.wfile.write(said.encode())
            seen = version
            time.sleep(_PAUSE)

    def _begin(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Security-Policy", f"{policy()}; frame-ancestors 'none'")
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def _answer(self, status: int, content: str, kind: str = "text/plain") -> None:
        self._begin(status, kind)
        self.wfile.write(content.encode())


def _window(query: Mapping[str, Sequence[str]]) -> tuple[int, Excerpt]:
    """Return the number of the run that is asked for, and what part of it.

    Raises:
        ValueError: if it is not a number, or no run or part has it.
    """
    asked = {name: float(values[0]) for name, values in query.items()}
    if not all(0.0 <= abs(value) < 1e15 for value in asked.values()) or asked.get("run", 0.0) < 0.0:
        raise ValueError(query)
    return int(asked.get("run", 0.0)), Excerpt(asked.get("from"), asked.get("to"), asked.get("low"), asked.get("high"))


@contextlib.contextmanager
def serving(watch: Watch, port: int = 0) -> Generator[str]:
    """Serve the page in the background while this block runs, and yield its address.

    Arguments:
        watch: what is watched.
        port: to listen on; 0 for a free one.

    Raises:
        InvalidArgument: if the port cannot be had.
    """
    server = PageServer(watch, port)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        watch.close()
        server.shutdown()
        server.server_close()
        thread.join()
