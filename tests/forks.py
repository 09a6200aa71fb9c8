"""Python processes that are forked from one which has imported the library: they are there in no time.

Starting Python and importing what a run needs takes a second of a processor, and dozens of tests look at what a process
does long after that. What is about the start itself is started truly, with `subprocess`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, final

PRELOADED = (
    "erasurehead.cli._app",
    "erasurehead.cli._train",
    "erasurehead.cli._compare",
    "erasurehead.drills._coordinator",
    "erasurehead.runs._experiment",
    "erasurehead.engines._virtual",
)


@final
class Forked:
    """A process that runs some Python in the current folder; the methods are those of `subprocess.Popen`.

    Arguments:
        code: what it runs, as `python -c` would.
        words: its `sys.argv` after the first.
        env: its environment; by default ours.

    Attributes:
        pid: its number.
        returncode: how it ended, negative for a signal; None while it has not been seen to end.
    """

    def __init__(self, code: str, *words: object, env: Mapping[str, str] | None = None) -> None:
        self.returncode: int | None = None
        pipes = [os.pipe() for _ in range(3)]
        self._out, self._err, self._answer = (reader for reader, _ in pipes)
        writers = [writer for _, writer in pipes]
        asked = {"code": code, "words": [*map(str, words)], "folder": os.getcwd(), "env": dict(env or os.environ)}
        with tempfile.TemporaryFile() as request:
            request.write(json.dumps(asked).encode())
            request.flush()
            socket.send_fds(_server(), [b"."], [request.fileno(), *writers])
        for writer in writers:
            os.close(writer)
        self.pid = int(self._line(60.0))

    def poll(self) -> int | None:
        """Return how it ended, or None if it goes on."""
        if self.returncode is None and select.select([self._answer], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        """Wait for its end, and return how that was."""
        if self.returncode is None:
            self.returncode = int(self._line(timeout))
            os.close(self._answer)
        return self.returncode

    def communicate(self, timeout: float = 60.0) -> tuple[str, str]:
        """Wait for its end, and return what it printed and what it said on stderr."""
        end = time.monotonic() + timeout
        said = {self._out: b"", self._err: b""}
        open_still = set(said)
        while open_still:
            for number in select.select(open_still, [], [], self._left(end))[0]:
                more = os.read(number, 65536)
                said[number] += more
                if not more:
                    open_still.discard(number)
                    os.close(number)
        self.wait(self._left(end))
        return said[self._out].decode(), said[self._err].decode()

    @staticmethod
    def _left(end: float) -> float:
        left = end - time.monotonic()
        if left < 0:
            raise subprocess.TimeoutExpired("a forked process", 0.0)
        return left

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _line(self, timeout: float) -> bytes:
        """Return the next line that its parent tells of it."""
        line, end = b"", time.monotonic() + timeout
        while not line.endswith(b"\n"):
            if not select.select([self._answer], [], [], self._left(end))[0]:
                continue
            one = os.read(self._answer, 1)  # not more: the next line may be there already
            assert one, "the process that waits for it has gone"
            line += one
        return line


@cache
def _server() -> socket.socket:
    """Start the process that forks, and return the end of the connection on which it is asked."""
    here, there = socket.socketpair()
    command = [sys.executable, "-P", __file__, str(there.fileno())]
    process = subprocess.Popen(command, pass_fds=[there.fileno()], start_new_session=True)
    there.close()

    def end() -> None:
        here.close()
        process.wait(30)

    atexit.register(end)
    return here


def _serve(connection: socket.socket) -> str:
    """Fork a process for each request, until nobody can ask any more. Returns in each: the code that it runs."""
    for module in PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # so that the memory stays shared
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how those ended that wait for a process
    while True:
        _, files, _, _ = socket.recv_fds(connection, 1, 4)
        if not files:
            raise SystemExit
        if os.fork() == 0:
            connection.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _wait_for_a_child(*files)
        for file in files:
            os.close(file)


def _wait_for_a_child(request: int, out: int, err: int, answers: int) -> str:
    """Fork the process, and tell its number and how it ended. Returns in that process alone: the code that it runs."""
    child = os.fork()
    if child:
        os.close(out)
        os.close(err)
        os.write(answers, f"{child}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(answers, f"{code}\n".encode())
        os._exit(0)
    os.close(answers)
    with open(request, "rb") as file:
        file.seek(0)
        asked: dict[str, Any] = json.load(file)
    os.setsid()
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for given, usual in ((out, 1), (err, 2)):
        os.dup2(given, usual)
        os.close(given)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["env"])
    tempfile.tempdir = None  # is looked for again, in this environment
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["-c", *asked["words"]]
    return str(asked["code"])


if __name__ == "__main__":
    exec(_serve(socket.socket(fileno=int(sys.argv[1]))), {"__name__": "__main__"})
