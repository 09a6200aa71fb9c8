"""Peer messages: from worker to worker, past the coordinator, on engines that support it.

A peer message has a head (some bytes), and optionally a vector. Only `Endpoint.wait` blocks. Peer messages of one
sender arrive in order; one with a vector may be left out once two newer ones with vectors have been sent. Peer messages
without a vector, and the two newest with one, are never left out. Those sent to a dead worker are lost; workers can ask
which others are dead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from erasurehead._internal.arrays import Array
from erasurehead.engines._base import Engine
from erasurehead.errors import EngineError

COORDINATOR = -1
"""The sender number of the coordinator, which is not a worker and can write to all of them."""


class PeerMessage(NamedTuple):
    """A message from one worker to another.

    Attributes:
        sender: the worker's number, or `COORDINATOR`.
        head: bytes that are opaque to the engine.
        vector: of whatever dtype was sent; None for none. The receiver's own copy, unless it asked for views.
    """

    sender: int
    head: bytes
    vector: Array | None


class Endpoint(ABC):
    """A worker's end of the channels to other workers."""

    def learn(self, where: Any) -> None:  # noqa: B027  # not abstract: ends without a coordinator find each other
        """Record where the other workers are now; peer messages to earlier workers of the same number are void.

        Arguments:
            where: as returned by `PeerChannels.where`.
        """

    @abstractmethod
    def send(self, to: int | Sequence[int], head: bytes, vector: Array | None = None) -> None:
        """Send a peer message; never waits. What cannot be sent now is sent by later calls.

        Arguments:
            to: a worker, or several.
            head: what it says.
            vector: of one dimension and any dtype, contiguous; it may change as soon as this returns.
        """

    @abstractmethod
    def receive(self, copy: bool = True) -> Iterator[PeerMessage]:
        """Yield the peer messages that have come; never waits.

        Arguments:
            copy: whether vectors are the receiver's own. Otherwise they may be views of what their sender wrote, which
                stay as they are until it sends its second next vector to us, and must not be written to.
        """

    @abstractmethod
    def wait(self, until: float) -> None:
        """Wait, without using a core, until there may be a peer message, or until a time of `time.monotonic`."""

    @abstractmethod
    def lost(self, workers: Collection[int]) -> frozenset[int]:
        """Return which of the given workers have died, as far as this worker can see by itself; never waits.

        It can be called repeatedly; a `wait` also ends when one of the workers of the last call dies. A worker that
        computes for long, or is stopped, is not lost.
        """

    def silent(self, workers: Collection[int]) -> frozenset[int]:
        """Return which of the given workers are silent for longer than is likely, though nothing proves them dead.

        None ever are where a system tells of each death, and nobody looks for those that hang.
        """
        return frozenset()

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""


def each(to: int | Sequence[int]) -> Sequence[int]:
    """Return the workers that a peer message is for."""
    return (to,) if isinstance(to, int) else to


class PeerChannels(ABC):
    """The coordinator's side. It is sent to workers within their programs, where `endpoint` opens their side."""

    @abstractmethod
    def endpoint(self, worker: int) -> Endpoint:
        """Return a worker's end; to be called in the worker itself, once it has its first order."""

    @abstractmethod
    def where(self) -> Any:
        """Return where all workers are now, as plain data that an order may carry, and a peer message as JSON."""

    @abstractmethod
    def tell(self, worker: int, head: bytes) -> None:
        """Send the bytes of a head to a worker; never waits. Nothing happens if the worker is gone."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources. May be called twice."""


class PeerMessaging(ABC):
    """Implemented by engines whose workers can write to each other."""

    @abstractmethod
    def peer_channels(self, workers: int, length: int) -> PeerChannels:
        """Return channels between workers that are yet to be assigned.

        Arguments:
            workers: number of workers; they are numbered from 0.
            length: greatest number of elements of a vector of float64; of other types there is room for as many bytes.

        Raises:
            NoRoom: if there is not enough memory.
        """


def peer_messaging(engine: Engine) -> PeerMessaging:
    """Return an engine as one with peer messages.

    Raises:
        EngineError: if it has none.
    """
    if not isinstance(engine, PeerMessaging):
        raise EngineError(f"the workers of the engine {engine.name!r} cannot write to each other.")
    return engine
