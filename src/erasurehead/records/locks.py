"""One run at a time in a folder: a lock that the system takes back when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import importlib
import os
from pathlib import Path
from typing import Any

from erasurehead.errors import InvalidArgument


class FolderLock:
    """A lock on a folder, held until it is released or this process ends.

    Arguments:
        path: of the lock file; it is made, names the process that holds it, and is removed when the lock is released.

    Raises:
        InvalidArgument: if a living process holds it.
        OSError: if the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _locked(path)
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let others have the folder; may be called twice."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._file)
            self._file = -1


def check_unlocked(path: Path) -> None:
    """Raise if a living process holds the lock.

    Raises:
        InvalidArgument: naming the process.
    """
    if path.exists():
        with contextlib.suppress(OSError):  # whoever may not write there is told so by what writes
            FolderLock(path).release()


def is_locked(path: Path) -> bool:
    """Return whether a living process holds the lock."""
    try:
        check_unlocked(path)
    except InvalidArgument:
        return True
    return False


def _locked(path: Path) -> int:
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(file, path)
            with contextlib.suppress(FileNotFoundError):
                if os.stat(path).st_ino == os.fstat(file).st_ino:
                    return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # who held it has removed it meanwhile: this is the lock of a file that nobody finds any more


def _lock(file: int, path: Path) -> None:
    try:
        fcntl: Any = importlib.import_module("fcntl")
    except ImportError:  # a system without it
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(file, 32).decode(errors="replace").strip()
        who = f" (process {holder})" if holder.isdigit() else ""
        raise InvalidArgument(
            f"The run in {str(path.parent)!r} is still going on{who}; wait for its end, or end it."
        ) from None
    except OSError:  # a file system without locks
        return
