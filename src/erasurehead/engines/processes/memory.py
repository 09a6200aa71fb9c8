"""Memory that processes share without a name: nothing to clean up, whoever is killed when."""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing import reduction
from typing import Any

import numpy as np

from erasurehead.arrays import Array, IntArray
from erasurehead.engines.base import NoRoom


class Block:
    """A piece of shared memory that belongs to its file descriptor, not to a name.

    It can be sent to a process while that process is being started, and vanishes with the last process that has it.
    On Linux it is an anonymous memory file: neither `/dev/shm` nor its size limit is involved. Elsewhere it is a
    mapped temporary file without a name.
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
        return reduction.DupFd(self._fd), self.size

    def __setstate__(self, state: tuple[Any, int]) -> None:
        handle, self.size = state
        self._fd = handle.detach()
        self._map = mmap.mmap(self._fd, self.size)

    @property
    def buffer(self) -> memoryview:
        """All of the block, writable."""
        return memoryview(self._map)

    def array(self, offset: int, length: int) -> Array:
        """Return a view of float64 elements that begins at a byte offset."""
        return np.frombuffer(self._map, dtype=np.float64, count=length, offset=offset)

    def view(self, offset: int, length: int, dtype: str) -> Array:
        """Return a view of elements of a dtype that begins at a byte offset."""
        return np.frombuffer(self._map, dtype=np.dtype(dtype), count=length, offset=offset)

    def integers(self, offset: int, length: int) -> IntArray:
        """Return a view of int64 elements that begins at a byte offset."""
        return np.frombuffer(self._map, dtype=np.int64, count=length, offset=offset)

    def close(self) -> None:
        """Give back the file descriptor; the memory itself goes when its last view does."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("erasurehead", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def align(offset: int, to: int = 64) -> int:
    """Return the smallest multiple of `to` (a cache line) that is at least `offset`."""
    return -(-offset // to) * to
