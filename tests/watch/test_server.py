"""The server of the live page: what it answers, to whom, and that it ends."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.watch._server import serving
from erasurehead.watch._watch import Watch

from ..bounded import PATIENCE, PROMPT


@contextmanager
def served(folder: Path, port: int = 0) -> Generator[tuple[Watch, str, int, str]]:
    """Serve what is in a folder, and yield the watch, host, port and the path of the page."""
    watch = Watch(folder)
    while watch.read():
        pass
    with serving(watch, port) as address:
        parts = urlsplit(address)
        yield watch, str(parts.hostname), int(parts.port or 0), parts.path


def ask(port: int, path: str, method: str = "GET", host: str | None = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.putrequest(method, path, skip_host=host is not None)
    if host:
        connection.putheader("Host", host)
    connection.endheaders()
    return connection.getresponse()


def test_the_page_and_a_view(run_folder: Path) -> None:
    with served(run_folder) as (watch, host, port, path):
        assert host == "127.0.0.1"
        assert len(path) > 32
        answer = ask(port, path)
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert '"live":true' in answer.read().decode()
        end = watch.runs[0].seconds
        view = json.loads(ask(port, f"{path}view?run=0&from={end / 4}&to={end / 2}&low=2&high=5").read())
        assert (view["from"], view["to"], view["low"], view["high"]) == (end / 4, end / 2, 2, 5)


def test_headers_let_nothing_else_run_or_be_read(run_folder: Path) -> None:
    with served(run_folder) as (_, _, port, path):
        for what in ("", "view?run=0"):
            headers = ask(port, path + what).headers
            policy = headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; style-src 'sha256-")
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert headers["Cache-Control"] == "no-store"
            assert "Access-Control-Allow-Origin" not in headers
            assert "Python" not in headers["Server"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "evil.example:80", "localhost.evil.example:1", ""])
def test_a_request_for_another_host_is_refused(run_folder: Path, host: str) -> None:
    with served(run_folder) as (_, _, port, path):
        answer = ask(port, path, host=host)
        assert answer.status in (400, 421)
        assert b"run" not in answer.read()
        assert ask(port, path, host=f"localhost:{port}").status == 200


def test_without_the_token_there_is_nothing(run_folder: Path) -> None:
    with served(run_folder) as (_, _, port, path):
        wrong = f"/{'x' * (len(path) - 2)}/"
        for other in (
            "/",
            "//",
            wrong,
            f"{wrong}view?run=0",
            f"{wrong}events",
            path[:-2] + "/",
            "/%ff%00/",
            f"/x{path}",
        ):
            answer = ask(port, other)
            assert answer.status == 404
            assert b"erasurehead watch" in answer.read()
        assert ask(port, f"{path}other").status == 404
        assert ask(port, f"{path}../../etc/passwd").status == 404


def test_nothing_can_be_changed(run_folder: Path) -> None:
    with served(run_folder) as (_, _, port, path):
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "<script>"):
            assert ask(port, path, method).status == 501


@pytest.mark.parametrize(
    "query", ["run=1", "run=-1", "run=x", "from=nan", "to=inf", "from=1e300", "low=x", "run=1e14", "x=1e16"]
)
def test_a_view_that_cannot_be_is_refused(run_folder: Path, query: str) -> None:
    with served(run_folder) as (_, _, port, path):
        answer = ask(port, f"{path}view?{query}")
        assert (answer.status, answer.read()) == (400, b"There is no such view.")


class Stream:
    """The events that a browser gets."""

    def __init__(self, port: int, path: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.sendall(f"GET {path}events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")

    def next(self) -> dict[str, Any]:
        for line in self.file:
            if line.startswith(b"data: "):
                return dict(json.loads(line.removeprefix(b"data: ")))
        raise EOFError

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def test_events_tell_what_is_new(run_folder: Path, tmp_path: Path) -> None:
    growing = tmp_path / "growing"
    shutil.copytree(run_folder, growing)
    lines = (run_folder / "steps.jsonl").read_bytes().splitlines(keepends=True)
    (growing / "steps.jsonl").write_bytes(b"".join(lines[:10]))
    with served(growing) as (watch, _, port, path):
        one, other = Stream(port, path), Stream(port, path)
        assert one.next()["runs"][0]["steps"] == other.next()["runs"][0]["steps"] == 10
        with (growing / "steps.jsonl").open("ab") as file:
            file.writelines(lines[10:])
        watch.read()
        assert one.next()["runs"][0]["steps"] == 30
        one.close()  # a browser that leaves
        shutil.rmtree(growing)
        watch.read()
        told = other.next()
        assert "cannot be read any more" in told["gone"] or "cannot be read any more" in other.next()["gone"]
        assert ask(port, path).status == 200
    other.close()


def test_two_watches_do_not_disturb_each_other(run_folder: Path) -> None:
    with served(run_folder) as (_, _, port, path), served(run_folder) as (_, _, second, other):
        assert port != second
        assert path != other
        assert ask(port, path).status == ask(second, other).status == 200
        assert ask(port, other).status == 404


def test_a_port_in_use_is_a_sentence(run_folder: Path) -> None:
    with served(run_folder) as (_, _, port, _):
        with pytest.raises(InvalidArgument) as caught, served(run_folder, port):
            pass
        assert str(caught.value) == (
            f"Port {port} cannot be used: Address already in use; name another (--port), or leave it out for a free "
            "one."
        )
    with (
        pytest.raises(InvalidArgument, match="Port 70000 cannot be used: there is no such port"),
        served(run_folder, 70000),
    ):
        pass


def test_nothing_is_left_when_it_ends(run_folder: Path) -> None:
    before = set(threading.enumerate())  # some of which may be at their end
    with served(run_folder) as (_, _, port, path):
        streams = [Stream(port, path) for _ in range(5)]
        for stream in streams:
            stream.next()
        silent = socket.create_connection(("127.0.0.1", port))  # a browser that says nothing
    until = time.monotonic() + PROMPT
    for stream in streams:
        stream.file.read()  # to its end
        stream.close()
    silent.close()
    while set(threading.enumerate()) - before and time.monotonic() < until:
        time.sleep(0.05)
    assert not set(threading.enumerate()) - before
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port))
