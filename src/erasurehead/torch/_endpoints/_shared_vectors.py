"""Vectors in memory of their sender's, which others read where they lie.

A vector is written once, whoever and how many read it, to a *place* in memory that has no name; who is to read it gets
the descriptor. In memory of its own each reader tells how many vectors of each sender it is through with, and which of
those it keeps nevertheless. A place is written to again when nobody has what lies there, or is yet to read it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import weakref
from collections.abc import Callable
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import EngineError
from erasurehead.torch._endpoints._base import MOST_RANKS, Nonsense, vector_type
from erasurehead.torch._endpoints._mapped import File, Mapped

_KEPT = 4  # vectors of one sender that a reader may keep

_TOLD = struct.Struct(f"{1 + _KEPT}q")
"""What a reader tells a sender: how many of its vectors it is through with, and the numbers of those that it keeps."""

_SEALS = (1033, 1034)  # of Linux: add, get
_SHRINK = 2


def _memory(name: str, size: int) -> tuple[int, Mapped]:
    """Return memory that others can be given, and will not shrink while they read it."""
    try:
        fd = os.memfd_create(f"erasurehead-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, _SEALS[0], _SHRINK)
        return fd, Mapped(fd, size)
    except OSError as error:
        raise EngineError(f"cannot get {size / 1e6:.1f} MB of memory for vectors: {error.strerror}.") from error


def _sealed(fd: int) -> bool:
    try:
        return bool(fcntl.fcntl(fd, _SEALS[1]) & _SHRINK)
    except OSError:
        return False


@final
class OwnVectors:
    """This rank's vectors, each in a place of its own.

    Arguments:
        stride: bytes of a place.
        told: returns what a reader tells of the vectors that it was ever sent.
    """

    def __init__(self, stride: int, told: Callable[[int], tuple[int, ...]]) -> None:
        self.stride = stride
        self._told = told
        self.fd, self._map = _memory("vectors", stride)
        self._had: list[weakref.ref[Array] | None] = [None]  # what this rank has itself, by place
        self._unread: dict[int, list[tuple[int, int]]] = {}  # by reader: number of the vector for it, and place

    def room(self, length: int, dtype: np.dtype[Any]) -> Array:
        """Return a vector in a place where nobody reads, which is this rank's as long as there is a reference to it."""
        for reader, unread in self._unread.items():
            if unread:
                through, *kept = self._told(reader)
                unread[:] = [one for one in unread if one[0] > through or one[0] in kept]
        taken = {place for unread in self._unread.values() for _, place in unread}
        free = (n for n, own in enumerate(self._had) if n not in taken and (own is None or own() is None))
        place = next(free, len(self._had))
        if place == len(self._had):
            self._had.append(None)
            os.ftruncate(self.fd, len(self._had) * self.stride)
            self._map = Mapped(self.fd, 0)  # those who have the one before keep it
        vector: Any = np.frombuffer(self._map, dtype, length, place * self.stride)
        self._had[place] = weakref.ref(vector)
        return vector

    def offset(self, vector: Array) -> int:
        """Return where a vector begins that `room` has returned; -1 for any other."""
        return next((n * self.stride for n, own in enumerate(self._had) if own is not None and own() is vector), -1)

    def send(self, offset: int, reader: int, number: int) -> None:
        """Note that a rank is to read what begins somewhere, as so many-th vector that it was ever sent."""
        self._unread.setdefault(reader, []).append((number, offset // self.stride))

    def drop(self, reader: int) -> None:
        """Forget what a rank that is gone was to read."""
        self._unread.pop(reader, None)


@final
class VectorsRead:
    """What this rank is through with, and what it keeps, told in memory that the senders can see."""

    def __init__(self) -> None:
        self.fd, room = _memory("read", _TOLD.size * MOST_RANKS)
        self._told = np.frombuffer(room, np.int64).reshape(MOST_RANKS, 1 + _KEPT)
        self._kept: dict[tuple[int, int], weakref.ref[Array]] = {}

    def count(self, rank: int) -> None:
        """Say that one more vector of a rank was read."""
        self._told[rank, 0] += 1

    def keep(self, rank: int, vector: Array) -> bool:
        """Keep the next vector of a rank that is to be counted as long as anybody has it; False if that is too many."""
        slot = next((slot for slot in range(1, 1 + _KEPT) if not self._told[rank, slot]), 0)
        if slot:
            self._told[rank, slot] = self._told[rank, 0] + 1
            self._kept[rank, slot] = weakref.ref(vector, lambda _: self._let_go(rank, slot))
        return slot > 0

    def _let_go(self, rank: int, slot: int) -> None:
        del self._kept[rank, slot]
        self._told[rank, slot] = 0

    def close(self) -> None:
        """Close the memory."""
        os.close(self.fd)
        self._told = self._told.copy()  # nobody is told what comes of vectors that are still here


@final
class TheirVectors:
    """Another rank's vectors, and what it tells of ours."""

    def __init__(self) -> None:
        self._file: File | None = None  # none yet
        self._map = self._told = b""

    def take(self, fds: list[int], told: bool) -> None:
        """Read vectors from this memory from now on; or, if it is there that it is told, what was read."""
        if len(fds) != 1 or not _sealed(fds[0]):
            raise Nonsense("its memory could shrink while it is read")
        if told:
            if os.fstat(fds[0]).st_size != _TOLD.size * MOST_RANKS:
                raise Nonsense("it tells of other ranks than a team has")
            self._told = mmap.mmap(fds[0], _TOLD.size * MOST_RANKS, prot=mmap.PROT_READ)
            return
        self._file, self._map = File(fds.pop()), b""

    def told(self, rank: int) -> tuple[int, ...]:
        """Return how many vectors of a rank this one is through with, and which it keeps, counted from 1."""
        return _TOLD.unpack_from(self._told, _TOLD.size * rank) if self._told else (0,)

    def vector(self, dtype: int, offset: int, length: int, most: int) -> Array:
        """Return a view of a vector."""
        own = vector_type(dtype)
        nbytes = length * own.itemsize
        if length < 0 or offset < 0 or offset % 64 or nbytes > most:
            raise Nonsense(f"a vector of {nbytes} bytes at {offset}, where at most {most} bytes were agreed on")
        end = offset + nbytes
        if end > len(self._map):
            size = 0 if self._file is None else os.fstat(self._file.fd).st_size
            if self._file is None or end > size:
                raise Nonsense(f"a vector that ends at byte {end} of {size}")
            self._map = Mapped.private(self._file, size)
        return np.frombuffer(self._map, own, length, offset)

    def close(self) -> None:
        """Close the memory; views keep what they show."""
        self._map = self._told = b""
        self._file = None
