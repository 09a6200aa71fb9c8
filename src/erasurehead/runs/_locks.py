"""One run at a time in a folder: a lock that the system releases when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import importlib
import os
from pathlib import Path
from typing import Any

from erasurehead._internal.storage.access import Access
from erasurehead._internal.storage.folders import Folder
from erasurehead.errors import InvalidArgument


class FolderLock:
    """A lock on a folder, held until it is released or this process ends.

    Arguments:
        path: path of the lock file; it is created, names the process that holds it, and is removed upon release.
        access: who may read it.

    Raises:
        InvalidArgument: if a living process holds it.
        OSError: if the file cannot be created, or something else is in its place.
    """

    def __init__(self, path: Path, access: Access = "private") -> None:
        self._name = path.name
        self._folder = Folder.open(path.parent, access)
        try:
            self._file = _locked(self._folder, path)
        except BaseException:
            self._folder.close()
            raise
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Release the folder; may be called twice."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                self._folder.remove(self._name)
            os.close(self._file)
            self._folder.close()
            self._file = -1


def check_unlocked(path: Path) -> None:
    """Raise if a living process holds the lock. Nothing is created, changed or removed.

    Raises:
        InvalidArgument: if so; the error names the process.
    """
    with contextlib.suppress(OSError):  # what cannot be read is not our lock; taking it will raise the reason
        with Folder.open(path.parent) as folder:
            file = folder.opened(path.name)
        try:
            _lock(file, path, shared=True)
        finally:
            os.close(file)


def is_locked(path: Path) -> bool:
    """Return whether a living process holds the lock."""
    try:
        check_unlocked(path)
    except InvalidArgument:
        return True
    return False


def _locked(folder: Folder, path: Path) -> int:
    while True:
        file = folder.writable(path.name)
        try:
            _lock(file, path)
            if folder.same(path.name, file):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # its holder has removed it meanwhile: this file is not visible any more


def _lock(file: int, path: Path, shared: bool = False) -> None:
    try:
        fcntl: Any = importlib.import_module("fcntl")
    except ImportError:  # a system without it
        return
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(file, 32).decode(errors="replace").strip()
        who = f" (process {holder})" if holder.isdigit() else ""
        sentence = f"The run in {str(path.parent)!r} is still going on{who}; wait until it ends, or stop it."
        raise InvalidArgument("folder", "must not be in use", str(path.parent), sentence=sentence) from None
    except OSError:  # a file system without locks
        return
