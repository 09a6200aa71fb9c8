"""The server that workers are forked from, without a name in the file system: nothing to remove, whoever is killed.

The standard library's server listens at a socket in a folder of its own, which is removed when the process that has
made it ends by itself; where it is killed, the folder stays. A socket is found by whoever holds its file open, too, and
then it needs no name any more.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Generator
from multiprocessing import forkserver, process, util
from pathlib import Path
from typing import Any

_OPEN = "/proc/self/fd"
_server: Any = getattr(forkserver, "_forkserver", None)
_held = -1

_LONGEST = 60  # bytes of the folder for temporary files; the path of a socket may have 107
_END = 5.0  # seconds that a server which answers nobody any more gets until it has ended
_GLANCE = 0.001  # seconds between two looks at it


def ensure_running() -> None:
    """See to it that the server runs, and take its name away, where the system lets us find it without."""
    global _held
    with _short_folder():
        forkserver.ensure_running()
        address = getattr(_server, "_forkserver_address", None)
        held = isinstance(address, str) and os.path.basename(os.path.dirname(address)) == "fd"
        if not isinstance(address, str) or held or address.startswith("\0") or not os.path.isdir(_OPEN):
            return
        before, _held = _held, os.open(address, os.O_PATH | os.O_CLOEXEC)
        if before >= 0:  # of a server that has ended
            os.close(before)
        _server._forkserver_address = f"{_OPEN}/{_held}"
        with contextlib.suppress(OSError):
            os.unlink(address)
            _forget(Path(address).parent)


@contextlib.contextmanager
def _short_folder() -> Generator[None]:
    """Have the folder of the server's socket under a short name meanwhile, where its own is too long for a socket."""
    config: dict[str, Any] = getattr(process.current_process(), "_config", {})
    short = len(os.fsencode(tempfile.gettempdir())) <= _LONGEST
    if short or config.get("tempdir") is not None or not os.path.isdir(_OPEN):
        yield
        return
    folder = tempfile.mkdtemp(prefix="pymp-")
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    config["tempdir"] = f"{_OPEN}/{descriptor}"
    try:
        yield
    finally:
        config["tempdir"] = None
        os.close(descriptor)
        with contextlib.suppress(OSError):  # what could not be started may have left its socket
            os.rmdir(folder)


def await_end() -> None:
    """Wait until a server that has hung up has ended, too, as a new one is started only then.

    A process that is killed closes its files first and can be seen to have ended a moment later; on a busy machine
    that moment is long enough to be asked a second time for a worker.
    """
    pid = getattr(_server, "_forkserver_pid", None)
    if pid is None:
        return
    deadline = time.monotonic() + _END
    with contextlib.suppress(ChildProcessError):
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and time.monotonic() < deadline:
            time.sleep(_GLANCE)


def _forget(folder: Path) -> None:
    """Remove the library's folder for temporary files, if nothing else is in it; it makes another one on demand."""
    config: dict[str, Any] = getattr(process.current_process(), "_config", {})
    if str(folder) != config.get("tempdir"):
        return
    folder.rmdir()
    config["tempdir"] = None
    registry: dict[Any, Any] = getattr(util, "_finalizer_registry", {})
    for finalizer in list(registry.values()):  # it would remove the folder at the end, and miss it
        if str(folder) in (getattr(finalizer, "_args", None) or ()):
            finalizer.cancel()
