"""Peer messages between worker processes: words in one pipe a worker, which wake it, and vectors in shared memory.

A write to a pipe of at most `PIPE_BUF` bytes is never torn, whoever else writes: so all write to a worker's one pipe,
and it waits for nothing else. A vector lies in memory that only its sender writes and only its receiver reads, in one
of a few places in turn; the words beside it say in which, and the place says whether it still holds that one.

Whether a worker has ended the system tells each of the others that asks, and wakes it for that: no heartbeats.
"""

from __future__ import annotations

import contextlib
import os
import select
import struct
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array, dtype_name, dtype_of
from erasurehead.engines._base import NoRoom
from erasurehead.engines._peer_channels import COORDINATOR, Endpoint, PeerChannels, PeerMessage, each
from erasurehead.engines._shared_memory import Address, SharedBlock, align
from erasurehead.errors import EngineError

_FRAME = struct.Struct("=iiqq24s")
"""Bytes that follow; sender; number of its vector to us, counted from 1, its length and dtype; all 0 for none."""

_FIRST, _MORE = 1 << 29, 1 << 30
"""Are added to the bytes that follow: a peer message begins here; it continues in the next frame of the sender."""

_MOST = select.PIPE_BUF - _FRAME.size  # bytes of a peer message in one frame
_READ = 1 << 18
_RETRY = 0.002  # seconds until what found a pipe full is tried again
_HEADER = 64  # bytes before a vector: its number
_SMALL = 1 << 20  # bytes of a vector up to which there are four places for it, and else two


class _Outlet:
    """Where peer messages to some workers go out; what finds a pipe full waits here, in order."""

    def __init__(self, pipes: Mapping[int, int]) -> None:
        self.pipes = pipes
        self._waiting: dict[int, deque[bytes]] = {}

    @property
    def waiting(self) -> bool:
        """Whether something has not gone out yet."""
        return bool(self._waiting)

    def send(self, to: int, frames: Iterable[bytes]) -> None:
        """Send frames, or keep them until there is room."""
        queue = self._waiting.setdefault(to, deque())
        queue.extend(frames)
        self._flush(to, queue)

    def flush(self) -> None:
        """Send what has waited, as far as there is room now."""
        for to, queue in list(self._waiting.items()):
            self._flush(to, queue)

    def _flush(self, to: int, queue: deque[bytes]) -> None:
        with contextlib.suppress(BlockingIOError):
            while queue:
                os.write(self.pipes[to], queue[0])
                queue.popleft()
        if not queue:
            self._waiting.pop(to, None)


def _frames(sender: int, head: bytes, number: int = 0, length: int = 0, dtype: str = "") -> Iterator[bytes]:
    """Yield a peer message in pieces that are never torn."""
    for begin in range(0, max(1, len(head)), _MOST):
        piece = head[begin : begin + _MOST]
        flags = (0 if begin else _FIRST) + (_MORE if begin + _MOST < len(head) else 0)
        yield _FRAME.pack(len(piece) + flags, sender, number, length, dtype.encode()) + piece


@final
class SharedChannels(PeerChannels):
    """The pipes and the memory of all workers of one process engine.

    Arguments:
        workers: how many.
        length: float64 elements of a vector, at most, or as many bytes of another type.
        pids: returns the process of each worker that lives.
    """

    def __init__(self, workers: int, length: int, pids: Callable[[], Mapping[int, int]] = dict) -> None:
        self._pids = pids
        if not os.path.isdir("/proc/self/fd"):
            raise EngineError("messages between worker processes need Linux, where one finds another's open files.")
        try:
            os.close(os.pidfd_open(os.getpid()))
        except OSError as error:
            raise EngineError(
                "messages between worker processes need a Linux of 5.3 or later, which tells when one ends: "
                f"{error.strerror}."
            ) from error
        self.length = length
        self.sides = 4 if 8 * length <= _SMALL else 2
        self.room = align(_HEADER + 8 * length)
        # Memory that is never written to is none: most pairs are no neighbours.
        self.block: SharedBlock | None = SharedBlock(workers * workers * self.sides * self.room)
        self.workers = workers
        self._pipes: dict[int, tuple[int, int]] = {}
        try:
            for worker in range(workers):
                outlet, inlet = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                self._pipes[worker] = outlet, inlet
        except OSError as error:
            self.close()
            raise NoRoom(f"cannot open two files a worker for its peer messages: {error.strerror}.") from error
        self.addresses = {worker: Address.of(outlet) for worker, (outlet, _) in self._pipes.items()}
        self._outlet = _Outlet({worker: inlet for worker, (_, inlet) in self._pipes.items()})

    def __getstate__(self) -> dict[str, Any]:
        kept = ("length", "sides", "room", "workers", "block", "addresses")
        return {name: getattr(self, name) for name in kept}

    def place(self, sender: int, to: int) -> int:
        """Return where the places for vectors from one worker to another begin."""
        return (sender * self.workers + to) * self.sides * self.room

    def endpoint(self, worker: int) -> Endpoint:
        return _SharedEndpoint(self, worker)

    def where(self) -> Any:
        return [[worker, pid] for worker, pid in self._pids().items()]

    def tell(self, worker: int, head: bytes) -> None:
        self._outlet.flush()
        self._outlet.send(worker, _frames(COORDINATOR, head))

    def close(self) -> None:
        for ends in self._pipes.values():
            for end in ends:
                os.close(end)
        self._pipes.clear()
        if self.block is not None:
            self.block.close()
            self.block = None


@final
class _SharedEndpoint(Endpoint):
    """A worker's own end of its pipe, and the others' of theirs, opened when they are first written to."""

    def __init__(self, channels: SharedChannels, worker: int) -> None:
        assert channels.block is not None
        self._channels, self._worker, self._block = channels, worker, channels.block
        self._inlet = channels.addresses[worker].open(os.O_RDONLY | os.O_NONBLOCK)
        self._pipes = _Pipes(channels.addresses)
        self._outlet = _Outlet(self._pipes)
        self._unread = b""
        self._parts: dict[int, bytes] = {}  # of peer messages in several pieces
        self._numbers: dict[int, int] = {}  # of the newest vector to each worker
        self._ends = _Ends()

    def learn(self, where: Any) -> None:
        self._ends.learn({int(worker): int(pid) for worker, pid in where})

    def lost(self, workers: Collection[int]) -> frozenset[int]:
        return self._ends.lost(workers)

    def send(self, to: int | Sequence[int], head: bytes, vector: Array | None = None) -> None:
        for worker in each(to):
            if vector is None:
                self._outlet.send(worker, _frames(self._worker, head))
                continue
            number = self._numbers.get(worker) or self._mark(self._worker, worker)[0]
            self._numbers[worker] = number = number + 1
            dtype = dtype_name(vector.dtype)
            mark, room = self._place(self._worker, worker, number, len(vector), dtype)
            mark[0] = -1  # whoever reads the old one now will see that it was overwritten
            room[:] = vector
            mark[0] = number
            self._mark(self._worker, worker)[0] = number
            self._outlet.send(worker, _frames(self._worker, head, number, len(vector), dtype))

    def _mark(self, sender: int, to: int) -> memoryview[int]:
        """Return where the number of the newest vector of a way stands, for who takes the sender's place one day."""
        return self._block.numbers(self._channels.place(sender, to) + 8, 1)

    def _place(self, sender: int, to: int, number: int, length: int, dtype: str) -> tuple[memoryview[int], Array]:
        room = 8 * self._channels.length // dtype_of(dtype).itemsize
        if length > room:
            raise EngineError(f"a peer message's vector has {length} elements, and there is room for {room}.")
        offset = self._channels.place(sender, to) + (number % self._channels.sides) * self._channels.room
        return self._block.numbers(offset, 1), self._block.view(offset + _HEADER, length, dtype)

    def receive(self, copy: bool = True) -> Iterator[PeerMessage]:
        self._outlet.flush()
        with contextlib.suppress(BlockingIOError):
            self._unread += os.read(self._inlet, _READ)
        data, begin = self._unread, 0
        found: list[PeerMessage] = []
        while len(data) - begin >= _FRAME.size:
            size, sender, number, length, dtype = _FRAME.unpack_from(data, begin)
            first, more, size = size & _FIRST, size & _MORE, size & (_FIRST - 1)
            end = begin + _FRAME.size + size
            if len(data) < end:
                break
            before = self._parts.pop(sender, b"")  # of one who died within a peer message it is dropped
            head = (b"" if first else before) + data[begin + _FRAME.size : end]
            begin = end
            if more:
                self._parts[sender] = head
            elif not number:
                found.append(PeerMessage(sender, head, None))
            elif (vector := self._read(sender, number, length, dtype.rstrip(b"\0").decode(), copy)) is not None:
                found.append(PeerMessage(sender, head, vector))
        self._unread = data[begin:]
        yield from found

    def _read(self, sender: int, number: int, length: int, dtype: str, copy: bool) -> Array | None:
        """Return a vector, or a copy of it; None if a newer one has overtaken it."""
        mark, room = self._place(sender, self._worker, number, length, dtype)
        if mark[0] != number:
            return None
        vector = np.array(room) if copy else room
        return vector if mark[0] == number else None

    def wait(self, until: float) -> None:
        longest = until - time.monotonic()
        if self._outlet.waiting:
            longest = min(longest, _RETRY)
        if longest > 0:
            self._ends.wait(self._inlet, longest)

    def close(self) -> None:
        os.close(self._inlet)
        self._pipes.close()
        self._ends.close()


_NOBODY = frozenset[int]()


class _Ends:
    """Who of some processes has ended, by descriptors that the system makes readable when they do."""

    def __init__(self) -> None:
        self._pids: dict[int, int] = {}
        self._open: dict[int, int] = {}  # descriptors, by worker
        self._workers: dict[int, int] = {}  # and back
        self._poll = select.poll()
        self._asked: Collection[int] = ()
        self._lost: set[int] = set()

    def learn(self, pids: Mapping[int, int]) -> None:
        """Take note of the workers' processes."""
        for worker, pid in pids.items():
            if self._pids.get(worker) != pid:
                self._forget(worker)
                self._pids[worker] = pid
                self._lost.discard(worker)
                self._asked = ()

    def lost(self, workers: Collection[int]) -> frozenset[int]:
        """Return those of some workers whose processes have ended; from now on these workers' end a wait."""
        if workers != self._asked:
            self._asked = workers
            for worker in self._open.keys() - set(workers):
                self._forget(worker)
            for worker in workers:
                if worker in self._pids and worker not in self._open and worker not in self._lost:
                    self._watch(worker)
        for fd, _ in self._poll.poll(0):
            worker = self._workers[fd]
            self._forget(worker)
            self._lost.add(worker)
        return frozenset(self._lost.intersection(workers)) if self._lost else _NOBODY

    def _watch(self, worker: int) -> None:
        try:
            fd = os.pidfd_open(self._pids[worker])
        except ProcessLookupError:
            self._lost.add(worker)
            return
        self._open[worker], self._workers[fd] = fd, worker
        self._poll.register(fd, select.POLLIN)

    def wait(self, inlet: int, seconds: float) -> None:
        """Wait until something can be read, or one of those that were asked for last has ended."""
        select.select([inlet, *self._workers], [], [], seconds)  # `poll` would round to milliseconds

    def _forget(self, worker: int) -> None:
        fd = self._open.pop(worker, None)
        if fd is not None:
            del self._workers[fd]
            self._poll.unregister(fd)
            os.close(fd)

    def close(self) -> None:
        """Close all descriptors."""
        for worker in list(self._open):
            self._forget(worker)


class _Pipes(dict[int, int]):
    """The pipes of other workers, opened when they are first asked for."""

    def __init__(self, addresses: Mapping[int, Address]) -> None:
        super().__init__()
        self._addresses = addresses

    def __missing__(self, worker: int) -> int:
        self[worker] = opened = self._addresses[worker].open(os.O_WRONLY | os.O_NONBLOCK)
        return opened

    def close(self) -> None:
        for pipe in self.values():
            os.close(pipe)
        self.clear()
