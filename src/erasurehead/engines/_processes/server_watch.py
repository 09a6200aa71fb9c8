"""No wait for the server that workers are forked from is without end: it may have been stopped, or hang."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Generator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from typing import Any

from erasurehead.engines._process_state import is_stopped

_server: Any = getattr(forkserver, "_forkserver", None)

PATIENCE = 1.0
"""Seconds after which a server that has not answered is looked at; one that is stopped is told to go on."""

LONGEST = 300.0
"""Seconds after which one that still has not answered is killed; another takes its place, with all its workers."""


def let_go_on() -> bool:
    """Let the server go on, if it was stopped; return whether it was."""
    pid = getattr(_server, "_forkserver_pid", None)
    if pid is None or not is_stopped(pid):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    return True


@contextlib.contextmanager
def watched() -> Generator[None]:
    """Watch the server while this block asks it for a process, so that it ends by an error if it is never answered.

    Raises:
        RuntimeError: if there is no thread for that.
    """
    done = threading.Event()
    thread = threading.Thread(target=_watch, args=(done,), name="erasurehead-server-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()


def _watch(done: threading.Event) -> None:
    deadline = time.monotonic() + LONGEST
    while not done.wait(PATIENCE):
        let_go_on()
        pid = getattr(_server, "_forkserver_pid", None)
        if time.monotonic() > deadline and pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + LONGEST  # for the next one


def join(process: ForkServerProcess, seconds: float) -> bool:
    """Wait until the server says that a process has ended; return whether it did.

    One that is stopped cannot say so, and is told to go on.
    """
    process.join(seconds)
    if process.is_alive() and let_go_on():
        process.join(max(seconds, PATIENCE))
    return not process.is_alive()
