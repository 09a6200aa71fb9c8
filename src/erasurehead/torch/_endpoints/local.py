"""Ranks beside each other on one host: words in sockets without a name in the file system, vectors in shared memory.

A rank listens at an abstract address made of its user, its team and its number, and writes to each other rank over a
connection of its own; the system says whose process is at the other end, and other users' are turned away. Vectors lie
in memory of their sender's that has no name either (`_shared_vectors`). So nothing is left of a rank, whoever is killed
when, and a connection that the system has closed is proof that its rank has ended.

While there are two vectors that a reader has not read, newer ones wait at their sender, where of more than two the
oldest is left out.
"""

from __future__ import annotations

import array
import contextlib
import errno
import hashlib
import logging
import mmap
import os
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.engines._peer_channels import PeerMessage, each
from erasurehead.engines._shared_memory import align
from erasurehead.errors import EngineError
from erasurehead.torch._endpoints._base import (
    MOST_RANKS,
    UNREAD,
    VERSION,
    Nonsense,
    RankEndpoint,
    check_head,
    forget_in_forked,
    leave_oldest_out,
    number_of,
)
from erasurehead.torch._endpoints._shared_vectors import OwnVectors, TheirVectors, VectorsRead
from erasurehead.torch._launchers import END

logger = logging.getLogger("erasurehead")

_MAGIC = b"eht\x01"
_HELLO = struct.Struct("<4sII")
"""Who writes here from now on: magic, version and rank."""

_FRAME = struct.Struct("<BB6xqq")
"""What it is, type of the elements of the vector, where it begins in the sender's memory, and its elements."""

_WORDS, _VECTOR, _MEMORY, _READ = range(4)
_REFUSED = b"eht-refused:"

_MOST = 1 << 16  # bytes that are read at once: one message
_AT_ONCE = 256  # messages of one rank, before others are heard
_WAITING = 1 << 12  # connections that wait to be let in
_RETRY = 0.02  # seconds until what could not be reached is tried again
_GLANCE = 0.002  # seconds until it is seen that a reader is through
_CREDENTIALS = struct.Struct("3i")


class _Gone(Exception):
    """The connection is closed."""


class _Inlet:
    """What one process writes to us: its connection, and its memory."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.rank = -1  # not told yet
        self.vectors = TheirVectors()
        self.early: bytes | None = None  # a vector that came before it was agreed how large they are
        self.ended = False

    def read(self) -> tuple[bytes, list[int]]:
        """Return one message, and descriptors that came with it.

        Raises:
            _Gone: if there are no more, and will be none.
            BlockingIOError: if there is none now.
        """
        try:
            data, more, flags, _ = self.connection.recvmsg(_MOST, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            raise _Gone from None
        fds: list[int] = []
        for level, kind, content in more:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds += array.array("i", content[: len(content) // 4 * 4])
        if not data:
            raise _Gone
        if flags & socket.MSG_TRUNC:
            _close(fds)
            raise Nonsense(f"a message has more than {_MOST} bytes")
        return data, fds

    def close(self) -> None:
        self.connection.close()
        self.vectors.close()


class _Waiting(NamedTuple):
    """A message that waits to be sent."""

    frame: bytes
    places: OwnVectors | None = None  # where its vector is that the reader is to read
    vector: Array | None = None  # that must wait


class _Outlet:
    """What we write to one rank: the connection to its process, and what waits for it."""

    def __init__(self) -> None:
        self.connection: socket.socket | None = None
        self.pid = 0
        self.waiting: deque[_Waiting] = deque()
        self.places: OwnVectors | None = None  # that it knows of
        self.vectors = 0  # that it was sent
        self.retry = 0.0  # when to try again to reach it

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection, self.places = None, None


@final
class LocalEndpoint(RankEndpoint):
    """A rank's end of the ways to others on this host.

    Arguments:
        team: equal for all ranks of the team, and for no other team of this user here.
        rank: number of this rank.
        size: ranks 0 to `size` - 1 are looked for; of others we hear when they come.
        ends: a pipe in which the launcher writes the numbers of ranks whose processes have ended, also of those that
            never came.

    Raises:
        EngineError: if the rank runs already, or the system lacks what this needs.
    """

    def __init__(self, team: str, rank: int, size: int, ends: str | None = None) -> None:
        if sys.platform != "linux":
            raise EngineError(f"ranks beside each other on one host need Linux, and this is {sys.platform}.")
        self.rank = rank
        self._address = f"\0erasurehead/{os.getuid()}/{hashlib.sha256(team.encode()).hexdigest()[:32]}/"
        self._most = 0
        self._places: OwnVectors | None = None
        self._read = VectorsRead()
        self._reading: tuple[int, Array] | None = None
        self._outlets: dict[int, _Outlet] = {}
        self._inlets: dict[int, _Inlet] = {}  # by rank
        self._strangers: list[_Inlet] = []  # have not said who they are
        self._lost: set[int] = set()
        self.team_ended = False
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._ends: int | None = None
        self._open = True
        self._watch(self._bell, self._hush)
        self._listener = self._listening()
        self._watch(self._listener.fileno(), self._admit)
        if ends is not None:
            with contextlib.suppress(OSError):  # a launcher that is gone, or of another host
                self._ends = os.open(ends, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                self._watch(self._ends, self._hear_of_ends)
        self._found: deque[PeerMessage] = deque()
        forget_in_forked(self)
        try:
            for other in range(size):
                if other != rank:
                    self._reach(other)
        except EngineError:
            self.close()
            raise

    def _listening(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            listener.bind(f"{self._address}{self.rank}".encode())
        except OSError as error:
            listener.close()
            self.close()
            if error.errno != errno.EADDRINUSE:
                raise
            raise EngineError(f"rank {self.rank} of this team runs on this host already{self._by()}.") from None
        listener.listen(_WAITING)
        return listener

    def _by(self) -> str:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
            other.connect(f"{self._address}{self.rank}".encode())
            pid, uid = _credentials(other)
            if pid == os.getpid():
                return f": it is process {pid}. That is this one: call join() once, and go on with the team it returned"
            return f": it is process {pid}" if uid == os.getuid() else f": process {pid} of user {uid} has its address"
        return ""

    def _watch(self, fd: int, handler: Callable[[], None]) -> None:
        self._handlers[fd] = handler
        self._poll.register(fd, select.EPOLLIN)

    def _unwatch(self, fd: int) -> None:
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _hush(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)

    @property
    def others(self) -> Collection[int]:
        return self._outlets.keys() - {self.rank}

    def alone(self, beside: Collection[int] = ()) -> bool:
        there = {rank for rank, outlet in self._outlets.items() if outlet.connection is not None}
        return there | {rank for rank, inlet in self._inlets.items() if not inlet.ended} <= {*beside}

    # What goes out

    def reserve(self, nbytes: int) -> None:
        self._most = max(self._most, nbytes)
        for inlet in self._inlets.values():
            if inlet.early is not None:
                self._watch(inlet.connection.fileno(), partial(self._on_inlet, inlet))
                self._on_inlet(inlet)

    def send(self, to: int | Sequence[int], head: bytes, vector: Array | None = None) -> None:
        check_head(head)
        ranks = [rank for rank in each(to) if rank != self.rank and rank not in self._lost]
        if vector is None:
            for rank in ranks:
                self._outlet(rank).waiting.append(_Waiting(_FRAME.pack(_WORDS, 0, 0, 0) + head))
        elif ranks:
            vector = self._placed(vector)
            for rank in ranks:
                waiting = self._outlet(rank).waiting
                if not waiting and self._ready(rank):
                    waiting.append(self._written(rank, head, vector))
                else:
                    leave_oldest_out(waiting)
                    waiting.append(_Waiting(head, None, vector))
        for rank in ranks:
            self._flush(rank, self._outlet(rank))

    def room(self, length: int, dtype: np.dtype[Any]) -> Array:
        number_of(dtype)
        places, nbytes = self._places, length * dtype.itemsize
        if places is None or nbytes > places.stride:
            if places is not None:
                os.close(places.fd)
            places = self._places = OwnVectors(align(max(nbytes, self._most, 1), mmap.PAGESIZE), self._told)
        return places.room(length, dtype)

    def _placed(self, vector: Array) -> Array:
        """Return a vector where others can read it."""
        if self._places is not None and self._places.offset(vector) >= 0:
            return vector
        placed = self.room(len(vector), vector.dtype)
        placed[:] = vector
        return placed

    def _ready(self, rank: int) -> bool:
        """Whether a rank is through with most of what it was sent, so that it may be sent more."""
        return self._outlet(rank).vectors - self._told(rank)[0] < UNREAD

    def _told(self, rank: int) -> tuple[int, ...]:
        """Return how many of our vectors a rank is through with, and which it keeps."""
        return self._inlets[rank].vectors.told(self.rank) if rank in self._inlets else (0,)

    def _written(self, rank: int, head: bytes, vector: Array) -> _Waiting:
        """Return a message with a vector that a rank is to read."""
        vector = self._placed(vector)
        places, outlet = self._places, self._outlet(rank)
        assert places is not None
        offset = places.offset(vector)
        outlet.vectors += 1
        places.send(offset, rank, outlet.vectors)
        return _Waiting(_FRAME.pack(_VECTOR, number_of(vector.dtype), offset, len(vector)) + head, places)

    def _outlet(self, rank: int) -> _Outlet:
        outlet = self._outlets.get(rank)
        if outlet is None:
            outlet = self._outlets[rank] = _Outlet()
        return outlet

    def _reach(self, rank: int) -> None:
        """Connect to a rank, if it is there."""
        outlet = self._outlet(rank)
        outlet.retry = time.monotonic() + _RETRY
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            connection.connect(f"{self._address}{rank}".encode())
            outlet.pid, uid = _credentials(connection)
            if uid != os.getuid():
                connection.close()
                raise EngineError(
                    f"the address of rank {rank} of this team was taken by process {outlet.pid} of user {uid}, who is "
                    "not to be trusted: give the team another name, or ask that user to end the process."
                )
            connection.send(_HELLO.pack(_MAGIC, VERSION, self.rank))
            _give(connection, _READ, self._read.fd)
        except OSError:  # nobody listens, or not yet
            connection.close()
            return
        outlet.connection = connection
        self._watch(connection.fileno(), partial(self._on_outlet, rank, outlet))
        self._flush(rank, outlet)

    def _flush(self, rank: int, outlet: _Outlet) -> None:
        """Send what waits, as far as there is room."""
        connection = outlet.connection
        if connection is None:
            return
        try:
            while outlet.waiting:
                frame, places, vector = outlet.waiting[0]
                if vector is not None:
                    if not self._ready(rank):
                        break
                    outlet.waiting[0] = frame, places, _ = self._written(rank, frame, vector)
                if places is not None and outlet.places is not places:
                    _give(connection, _MEMORY, places.fd)
                    outlet.places = places
                connection.send(frame)
                outlet.waiting.popleft()
        except BlockingIOError:
            self._poll.modify(connection.fileno(), select.EPOLLIN | select.EPOLLOUT)
            return
        except OSError:  # its end is seen where it writes to us
            self._close_outlet(outlet)
            return
        self._poll.modify(connection.fileno(), select.EPOLLIN)

    def _on_outlet(self, rank: int, outlet: _Outlet) -> None:
        """Send what waits; or see that a rank has refused us, or ended."""
        connection = outlet.connection
        if connection is None:
            return
        said = b""
        for _ in range(2):  # where it closed with something unread, that is told first
            try:
                said = connection.recv(_MOST)
                break
            except BlockingIOError:
                self._flush(rank, outlet)
                return
            except OSError:
                continue
        self._close_outlet(outlet)
        if said.startswith(_REFUSED):
            why = said.removeprefix(_REFUSED).decode(errors="replace")
            raise EngineError(f"rank {rank} has refused this one, rank {self.rank}: {why}.")
        if rank not in self._inlets:  # it has never written to us, and ended
            self._lose(rank)

    def _close_outlet(self, outlet: _Outlet) -> None:
        if outlet.connection is not None:
            self._unwatch(outlet.connection.fileno())
        outlet.close()

    # What comes in

    def _admit(self) -> None:
        """Let in who connects, if it is a process of our user."""
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self._listener.accept()
                connection.setblocking(False)
                if _credentials(connection)[1] != os.getuid():
                    connection.close()
                    continue
                inlet = _Inlet(connection)
                self._strangers.append(inlet)
                self._watch(connection.fileno(), partial(self._on_stranger, inlet))

    def _on_stranger(self, inlet: _Inlet) -> None:
        """Hear who it is that has connected."""
        try:
            data, fds = inlet.read()
            _close(fds)
            if len(data) != _HELLO.size or not data.startswith(_MAGIC):
                raise Nonsense("that is no greeting")
            _, version, rank = _HELLO.unpack(data)
            if version != VERSION:
                raise Nonsense(
                    f"it speaks version {VERSION} of what ranks say, and not {version}; install the same version of "
                    "erasurehead for all ranks"
                )
            if rank == self.rank or rank >= MOST_RANKS:
                raise Nonsense(f"a team has no other rank {rank}")
            if rank in self._inlets or rank in self._lost:
                raise Nonsense(f"there was a rank {rank} before, and one that comes later needs a number of its own")
        except BlockingIOError:
            return
        except (_Gone, Nonsense) as error:
            self._turn_away(inlet, str(error))
            self._strangers.remove(inlet)
            return
        self._strangers.remove(inlet)
        self._unwatch(inlet.connection.fileno())
        inlet.rank, self._inlets[rank] = rank, inlet
        self._watch(inlet.connection.fileno(), partial(self._on_inlet, inlet))
        if self._outlet(rank).connection is None:
            self._reach(rank)

    def _hear_of_ends(self) -> None:
        """Learn from the launcher whose process has ended: of a rank that never came nothing else tells."""
        assert self._ends is not None
        try:
            told = os.read(self._ends, END.size * 1024)
        except BlockingIOError:
            return
        if not told:
            self._unwatch(self._ends)
        self._admit()  # whoever has come before its end is heard out
        for stranger in tuple(self._strangers):
            self._on_stranger(stranger)
        for rank, through in END.iter_unpack(told):
            self.team_ended |= through
            if rank not in self._inlets and rank != self.rank:
                self._lose(rank)

    def _turn_away(self, inlet: _Inlet, why: str) -> None:
        self._unwatch(inlet.connection.fileno())
        with contextlib.suppress(OSError):
            if why:
                inlet.connection.send(_REFUSED + why.encode())
        inlet.close()

    def _on_inlet(self, inlet: _Inlet) -> None:
        """Read all that a rank has written."""
        fds: list[int] = []
        try:
            for _ in range(_AT_ONCE):
                if inlet.early is not None:
                    data, inlet.early = inlet.early, None
                else:
                    data, fds = inlet.read()
                if len(data) < _FRAME.size:
                    raise Nonsense(f"a message of {len(data)} bytes")
                kind, dtype, offset, length = _FRAME.unpack_from(data)
                if kind == _VECTOR and not self._most:  # its sender waits
                    inlet.early = data
                    self._unwatch(inlet.connection.fileno())
                    return
                if kind in (_MEMORY, _READ):
                    inlet.vectors.take(fds, told=kind == _READ)
                elif kind in (_WORDS, _VECTOR):
                    vector = inlet.vectors.vector(dtype, offset, length, self._most) if kind == _VECTOR else None
                    self._found.append(PeerMessage(inlet.rank, data[_FRAME.size :], vector))
                else:
                    raise Nonsense(f"a message of kind {kind}")
                _close(fds)
            return
        except BlockingIOError:
            return
        except _Gone:
            self._unwatch(inlet.connection.fileno())
            self._lose(inlet.rank)
        except Nonsense as error:
            logger.warning("rank %s is not listened to any more: %s.", inlet.rank, error)
            self._turn_away(inlet, str(error))
            self._close_outlet(self._outlet(inlet.rank))  # no proof of an end: others may go on with it
        _close(fds)
        inlet.ended = True
        inlet.close()

    def _lose(self, rank: int) -> None:
        outlet = self._outlet(rank)
        self._close_outlet(outlet)
        outlet.waiting.clear()
        outlet.vectors = 0
        if self._places is not None:
            self._places.drop(rank)
        self._lost.add(rank)

    def receive(self, copy: bool = True) -> Iterator[PeerMessage]:
        now = time.monotonic()
        for fd, _ in self._poll.poll(0):
            handler = self._handlers.get(fd)
            if handler is not None:
                handler()
        for rank, inlet in self._inlets.items():
            outlet = self._outlet(rank)
            if not inlet.ended and outlet.connection is None and now >= outlet.retry:
                self._reach(rank)
            if outlet.waiting:
                self._flush(rank, outlet)
        while self._found:
            message = self._found.popleft()
            if message.vector is None:
                yield message
                continue
            try:
                self._reading = message.sender, message.vector
                yield message._replace(vector=message.vector.copy()) if copy else message
            finally:
                self._reading = None
                self._read.count(message.sender)

    def keep(self, vector: Array) -> Array:
        if self._reading is None or self._reading[1] is not vector:
            return vector
        return vector if self._read.keep(*self._reading) else vector.copy()

    # Who is there

    def lost(self, workers: Collection[int]) -> frozenset[int]:
        return frozenset(self._lost.intersection(workers))

    def wait(self, until: float) -> None:
        seconds = until - time.monotonic()
        if any(not inlet.ended and self._outlet(rank).connection is None for rank, inlet in self._inlets.items()):
            seconds = min(seconds, _RETRY)
        if any(outlet.waiting and outlet.waiting[0].vector is not None for outlet in self._outlets.values()):
            seconds = min(seconds, _GLANCE)
        if seconds > 0 and not self._found:
            self._poll.poll(seconds)

    def wake(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._bell, 1)

    def forget(self) -> None:
        self.close()

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._handlers.clear()
        self._poll.close()
        os.close(self._bell)
        if self._ends is not None:
            os.close(self._ends)
        if hasattr(self, "_listener"):
            self._listener.close()
        for inlet in [*self._inlets.values(), *self._strangers]:
            inlet.close()
        for outlet in self._outlets.values():
            outlet.close()
            outlet.waiting.clear()
        self._read.close()
        if self._places is not None:
            os.close(self._places.fd)
            self._places = None


def _give(connection: socket.socket, what: int, fd: int) -> None:
    """Give memory to the other end of a connection."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
    connection.sendmsg([_FRAME.pack(what, 0, 0, 0)], rights)


def _credentials(connection: socket.socket) -> tuple[int, int]:
    """Return process and user at the other end of a connection, by the system's word."""
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid


def _close(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())
