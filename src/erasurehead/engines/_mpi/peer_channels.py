"""Peer messages between the ranks of a job, point to point, over a communicator of their own.

MPI has no wait that sleeps, so a rank that waits for peer messages sleeps between two looks: it uses no core.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, final

from erasurehead._internal.arrays import Array, dtype_name, dtype_of
from erasurehead.engines._mpi.backoff import ALERT, BUSY, Backoff
from erasurehead.engines._mpi.transport import Frame, Gone, Link, Receiving, Sending, Tag, frame_of, read_head, reap
from erasurehead.engines._peer_channels import COORDINATOR, Endpoint, PeerChannels, PeerMessage, each
from erasurehead.errors import EngineError

_UNDER_WAY = 8
"""Peer messages to one rank that MPI is given at once; of vectors that have to wait, only the two newest go out."""

_limbo: list[object] = []
"""What was on its way when an endpoint was closed, or a rank was lost: MPI may not have let go of the memory yet."""

_opened: list[Link] = []


def open_channels(link: Link) -> None:
    """Let this process, a rank that serves, write to others over a link."""
    _opened[:] = [link]


def _framed(sender: int, head: bytes, vector: Array | None) -> Frame:
    told = (-1, "") if vector is None else (len(vector), dtype_name(vector.dtype))
    frame = frame_of((sender, *told, head), 0 if vector is None else vector.nbytes)
    if vector is not None:
        _, start = read_head(frame)
        frame[start : start + vector.nbytes].view(vector.dtype)[:] = vector
    return frame


@final
class RankChannels(PeerChannels):
    """Peer messages between the ranks that workers run on.

    Arguments:
        ranks: returns the rank of each worker that lives.
        tell: sends a frame to a rank, from the coordinator.
    """

    def __init__(self, ranks: Callable[[], Mapping[int, int]], tell: Callable[[int, Frame], None]) -> None:
        self._ranks, self._tell = ranks, tell

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def endpoint(self, worker: int) -> Endpoint:
        if not _opened:
            raise EngineError("this process is not a rank that serves.")
        return _RankEndpoint(worker, _opened[0])

    def where(self) -> Any:
        return [[worker, rank] for worker, rank in self._ranks().items()]

    def tell(self, worker: int, head: bytes) -> None:
        rank = self._ranks().get(worker)
        if rank is not None:
            self._tell(rank, _framed(COORDINATOR, head, None))

    def close(self) -> None:
        return


@final
class _RankEndpoint(Endpoint):
    """One rank's peer messages."""

    def __init__(self, worker: int, link: Link) -> None:
        self._worker, self._link = worker, link
        self._ranks: dict[int, int] = {}
        self._lost: set[int] = set()
        self._waiting: dict[int, deque[tuple[bool, Frame]]] = {}  # by rank: whether it has a vector, the peer message
        self._sendings: dict[int, deque[Sending]] = {}
        self._receivings: dict[int, deque[Receiving]] = {0: deque()}
        self._backoff = Backoff(ALERT)

    def learn(self, where: Any) -> None:
        self._ranks |= {int(worker): int(rank) for worker, rank in where}
        for rank in self._ranks.values():
            if rank != self._link.comm.Get_rank() and rank not in self._lost:
                self._receivings.setdefault(rank, deque())

    def lost(self, workers: Collection[int]) -> frozenset[int]:
        return frozenset(worker for worker in workers if self._ranks.get(worker) in self._lost)

    def send(self, to: int | Sequence[int], head: bytes, vector: Array | None = None) -> None:
        ranks = [rank for rank in map(self._ranks.get, each(to)) if rank is not None and rank not in self._lost]
        frame = _framed(self._worker, head, vector) if ranks else None
        for rank in ranks:
            queue = self._waiting.setdefault(rank, deque())
            if vector is not None:
                waiting = [place for place, (has_vector, _) in enumerate(queue) if has_vector]
                if len(waiting) > 1:
                    del queue[waiting[0]]
            assert frame is not None
            queue.append((vector is not None, frame))
            self._flush(rank)

    def _flush(self, rank: int) -> None:
        under_way, queue = self._sendings.setdefault(rank, deque()), self._waiting.get(rank, deque())
        try:
            reap(under_way)
            while queue and len(under_way) < _UNDER_WAY:
                under_way.append(self._link.send(queue[0][1], rank, Tag.PEER_MESSAGE))
                queue.popleft()
        except Gone:
            self._lose(rank)

    def _lose(self, rank: int) -> None:
        """Give up what is on its way to and from a rank that is no more."""
        _limbo.extend((self._sendings.pop(rank, None), self._receivings.pop(rank, None)))
        self._waiting.pop(rank, None)
        self._lost.add(rank)

    def receive(self, copy: bool = True) -> Iterator[PeerMessage]:
        for rank in list(self._sendings):
            self._flush(rank)
        for rank in list(self._receivings):
            try:
                coming = self._receivings[rank]
                while (receiving := self._link.receive(rank, Tag.PEER_MESSAGE)) is not None:
                    coming.append(receiving)
                while coming and coming[0].done():
                    yield self._opened(coming.popleft().frame)
            except Gone:
                self._lose(rank)

    def _opened(self, frame: Frame) -> PeerMessage:
        self._backoff.reset()
        (sender, length, dtype, head), start = read_head(frame)
        vector = None
        if length >= 0:
            own = dtype_of(dtype)
            vector = frame[start : start + own.itemsize * length].view(own)
        return PeerMessage(int(sender), head, vector)

    def wait(self, until: float) -> None:
        left = until - time.monotonic()
        if left > 0:
            busy = any(self._sendings.values()) or any(self._receivings.values())
            self._backoff.sleep(min(left, BUSY) if busy else left)

    def close(self) -> None:
        for rank in list(self._sendings):
            with contextlib.suppress(Gone):
                reap(self._sendings[rank])
        _limbo.extend((self._sendings, self._receivings))
