"""Processes that were forked themselves: what they may start, and what of their parent's is not theirs."""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing import forkserver
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


os.register_at_fork(after_in_child=_forget_server)
