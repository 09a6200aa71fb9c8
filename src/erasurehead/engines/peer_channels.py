"""Peer messages between workers, past the coordinator: what engines have beside orders and messages, where they can.

A peer message has a head, some bytes, and perhaps a vector. Nothing blocks but `Endpoint.wait`. Those of one sender
arrive in their order; one with a vector that two newer ones of the same sender have overtaken may be left out: newest
wins. Peer messages with no vector, and the two newest with one, are never left out. Those to a worker that is no more
are lost, and others can ask whether it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from erasurehead._internal.arrays import Array
from erasurehead.engines.base import Engine
from erasurehead.errors import EngineError

COORDINATOR = -1
"""The number of who is no worker, and writes to all of them."""


class PeerMessage(NamedTuple):
    """What one worker writes to another.

    Attributes:
        sender: the worker's number, or `COORDINATOR`.
        head: what the engine has no business to understand.
        vector: float64, the receiver's own copy; None for none.
    """

    sender: int
    head: bytes
    vector: Array | None


class Endpoint(ABC):
    """A worker's end of the channels to other workers."""

    @abstractmethod
    def learn(self, where: Any) -> None:
        """Take note of where the others are now; peer messages to earlier ones of a number are void.

        Arguments:
            where: as `PeerChannels.where` says it.
        """

    @abstractmethod
    def send(self, to: int, head: bytes, vector: Array | None = None) -> None:
        """Send a peer message; never waits. What cannot go out now goes out with later calls."""

    @abstractmethod
    def receive(self) -> Iterator[PeerMessage]:
        """Yield the peer messages that have come; never waits."""

    @abstractmethod
    def wait(self, until: float) -> None:
        """Wait, without using a core, until there may be a peer message, at most until then on `time.monotonic`."""

    @abstractmethod
    def lost(self, workers: Collection[int]) -> frozenset[int]:
        """Return those of some workers that are no more, as this worker sees by itself; never waits.

        It is asked again and again, and the last workers that were asked for end a `wait` when they end. One that
        computes for long, or is stopped, is not lost.
        """

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds."""


class PeerChannels(ABC):
    """The coordinator's side. It is sent to workers within their programs, where `endpoint` opens theirs."""

    @abstractmethod
    def endpoint(self, worker: int) -> Endpoint:
        """Return a worker's end; to be called in the worker itself, when it has its first order."""

    @abstractmethod
    def where(self) -> Any:
        """Return where all workers are now, as plain data that an order may carry, and a peer message as JSON."""

    @abstractmethod
    def tell(self, worker: int, head: bytes) -> None:
        """Write to a worker; never waits. Nothing happens if it is gone."""

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds. May be called twice."""


class PeerMessaging(ABC):
    """What engines have in addition whose workers can write to each other."""

    @abstractmethod
    def peer_channels(self, workers: int, length: int) -> PeerChannels:
        """Return channels between workers that are still to be assigned.

        Arguments:
            workers: how many; they are numbered from 0.
            length: elements of a vector, at most.

        Raises:
            NoRoom: if there is no memory for it.
        """


def peer_messaging(engine: Engine) -> PeerMessaging:
    """Return an engine as one whose workers can write to each other.

    Raises:
        EngineError: if they cannot.
    """
    if not isinstance(engine, PeerMessaging):
        raise EngineError(f"the workers of the engine {engine.name!r} cannot write to each other.")
    return engine
