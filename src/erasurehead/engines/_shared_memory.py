"""Memory that processes share without a name: nothing to clean up, whoever is killed when."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import pickle
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, dtype_of
from erasurehead.engines._base import NoRoom

_POPULATE_WRITE = 23  # advice of Linux that `mmap` has no name for


@dataclass(frozen=True)
class Address:
    """Where another process of this machine finds a file without a name: among the open files of who made it.

    Attributes:
        path: of that open file.
        file: its device and inode; the number may have come to mean another file meanwhile.
    """

    path: str
    file: tuple[int, int]

    @classmethod
    def of(cls, fd: int) -> Address:
        """Return where others find a file that is open here."""
        return cls(f"/proc/{os.getpid()}/fd/{fd}", _identity(fd))

    def open(self, flags: int = os.O_RDWR) -> int:
        """Return a descriptor of the file.

        Arguments:
            flags: of `os.open`.

        Raises:
            OSError: if it is not there any more, or not for us.
        """
        fd = os.open(self.path, flags | os.O_CLOEXEC)
        if _identity(fd) != self.file:
            os.close(fd)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), self.path)
        return fd


def handle_of(fd: int) -> Any:
    """Return what another process finds an open file by: one that is being started is handed it, others look for it.

    Raises:
        OSError: if others cannot find it.
    """
    if get_spawning_popen() is not None:
        return reduction.DupFd(fd)
    if fd < 0 or not os.path.exists(f"/proc/{os.getpid()}/fd/{fd}"):
        raise OSError(errno.EBADF, "this file cannot be found by other processes")
    return Address.of(fd)


def found(handle: Any, flags: int = os.O_RDWR) -> int:
    """Return a descriptor of a file by what `handle_of` returned; the flags are for one that is looked for."""
    return handle.open(flags) if isinstance(handle, Address) else handle.detach()


class SharedBlock:
    """A piece of shared memory that belongs to its file descriptor, not to a name.

    It can be sent to a process while that process is being started, and vanishes with the last process that has it.
    On Linux it is an anonymous memory file: neither `/dev/shm` nor its size limit is involved; and it can be sent, as
    a few bytes, to any process of the same user on this machine, which finds it there until it is closed here: see
    `offer`. Elsewhere it is a mapped temporary file without a name.
    """

    def __init__(self, size: int) -> None:
        self.size = max(int(size), 1)
        self._fd = -1
        try:
            self._fd = _anonymous_file()
            os.ftruncate(self._fd, self.size)
            self._map = mmap.mmap(self._fd, self.size)
        except OSError as error:
            self.close()
            raise NoRoom(f"cannot get {self.size / 1e6:.1f} MB of shared memory: {error.strerror}.") from error

    def __getstate__(self) -> tuple[Any, int]:
        return handle_of(self._fd), self.size

    def __setstate__(self, state: tuple[Any, int]) -> None:
        handle, self.size = state
        self._fd = found(handle)
        self._map = mmap.mmap(self._fd, self.size)
        if isinstance(handle, Address):  # nobody finds it here, and a process may be sent many
            self.close()

    @property
    def buffer(self) -> memoryview:
        """All of the block, writable."""
        return memoryview(self._map)

    def array(self, offset: int, length: int) -> Array:
        """Return a view of float64 elements that begins at a byte offset."""
        return np.frombuffer(self._map, dtype=np.float64, count=length, offset=offset)

    def view(self, offset: int, length: int, dtype: str) -> Array:
        """Return a view of elements of a dtype that begins at a byte offset."""
        return np.frombuffer(self._map, dtype=dtype_of(dtype), count=length, offset=offset)

    def numbers(self, offset: int, length: int) -> memoryview[int]:
        """Return int64 elements that begin at a byte offset, each quicker to get at than an array's."""
        return memoryview(self._map)[offset : offset + 8 * length].cast("q")

    def touch(self, end: int | None = None) -> None:
        """Have the pages of the block mapped here now, rather than one by one when they are first used.

        Pages that nobody has written yet become memory: only what will be used should be touched. Elsewhere than on
        Linux, and before its version 5.14, it does nothing.

        Arguments:
            end: where the first bytes end that are touched; by default it is all of them.
        """
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self._map.madvise(_POPULATE_WRITE, 0, self.size if end is None else end)

    def close(self) -> None:
        """Give back the file descriptor; the memory itself goes when its last view does."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def offer(shared: Any) -> bytes:
    """Return where another process of this machine finds what holds blocks, as `accept` takes it; empty for None.

    It is empty too where it could not be found.
    """
    with contextlib.suppress(OSError):
        return b"" if shared is None else pickle.dumps(shared)
    return b""


def accept(offered: bytes) -> Any:
    """Return what another process has offered; None if it offered nothing, or that is not for us to see."""
    with contextlib.suppress(OSError):
        return pickle.loads(offered) if offered else None
    return None


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("erasurehead", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def align(offset: int, to: int = 64) -> int:
    """Return the smallest multiple of `to` (a cache line) that is at least `offset`."""
    return -(-offset // to) * to
