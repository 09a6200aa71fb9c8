"""Processes that are forked: what they may start, what of their parent's is not theirs, and where there is no room."""

from __future__ import annotations

import contextlib
import errno
import inspect
import multiprocessing
import os
import threading
from multiprocessing import forkserver, popen_forkserver
from multiprocessing.context import ForkServerProcess
from typing import Any

from erasurehead.errors import EngineError


def check_may_start() -> None:
    """Raise if this process may not start others, as those of `multiprocessing.Pool` may not.

    Raises:
        EngineError: saying what works in its place.
    """
    if multiprocessing.current_process().daemon:
        raise EngineError(
            "a worker of multiprocessing.Pool may not start processes of its own; take the engine virtual there, or "
            "concurrent.futures.ProcessPoolExecutor, whose workers may."
        )


def _forget_server() -> None:
    """Have a forked process start a server of its own: the one that it knows is its parent's child, and not its."""
    server: Any = getattr(forkserver, "_forkserver", None)
    if server is not None:
        server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None
        server._lock = threading.Lock()


def survive_failed_forks() -> None:
    """Have this process, the server of workers, tell the coordinator the error where a process cannot be forked.

    The server of the standard library ends then, with a traceback, and all its workers with it. A number of a process
    that is below 0 says which error it was: see `WorkerProcess`.
    """
    fork = os.fork

    def told() -> int:
        try:
            return fork()
        except OSError as error:
            frame = inspect.currentframe()
            names = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}
            if not {"child_r", "child_w", "fds"} <= set(names):  # not that of the server's loop
                raise
            write: Any = forkserver.write_signed
            with contextlib.suppress(OSError):
                write(names["child_w"], -(error.errno or errno.EAGAIN))
            for file in (names["child_r"], names["child_w"], *names["fds"]):
                os.close(file)
            raise ConnectionAbortedError(
                errno.ECONNABORTED, "no process for a client"
            ) from error  # served nevertheless

    os.fork = told


class WorkerProcess(ForkServerProcess):
    """A process that is forked from the server; `start` raises the server's `OSError` if it could not be."""

    @staticmethod
    def _Popen(process_obj: Any) -> _Popen:
        return _Popen(process_obj)


class _Popen(popen_forkserver.Popen):
    def _launch(self, process_obj: Any) -> None:
        launch: Any = getattr(super(), "_launch")  # noqa: B009  # not declared
        launch(process_obj)
        if self.pid < 0:  # no number to send signals to
            self.returncode = 1
            self.finalizer()
            raise OSError(-self.pid, os.strerror(-self.pid))


os.register_at_fork(after_in_child=_forget_server)
