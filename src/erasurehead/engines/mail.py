"""Letters between workers, past the coordinator: what engines have beside orders and messages, where they can.

A letter has a head, some bytes, and perhaps a vector. Nothing blocks but `Post.wait`. Letters of one sender arrive in
their order; one with a vector that two newer ones of the same sender have overtaken may be left out: newest wins.
Letters with no vector, and the two newest with one, are never left out. Those to a worker that is no more are lost,
and others can ask whether it is.
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


class Received(NamedTuple):
    """What one worker writes to another.

    Attributes:
        sender: the worker's number, or `COORDINATOR`.
        head: what the engine has no business to understand.
        vector: float64, the receiver's own copy; None for none.
    """

    sender: int
    head: bytes
    vector: Array | None


class Post(ABC):
    """A worker's way to other workers."""

    @abstractmethod
    def learn(self, where: Any) -> None:
        """Take note of where the others are now, as `Mail.where` says; letters to earlier ones of a number are void."""

    @abstractmethod
    def send(self, to: int, head: bytes, vector: Array | None = None) -> None:
        """Send a letter; never waits. What cannot go out now goes out with later calls."""

    @abstractmethod
    def letters(self) -> Iterator[Received]:
        """Yield all that has come; never waits."""

    @abstractmethod
    def wait(self, until: float) -> None:
        """Wait, without using a core, until there may be a letter, at most until then on `time.monotonic`."""

    @abstractmethod
    def lost(self, workers: Collection[int]) -> frozenset[int]:
        """Return those of some workers that are no more, as this worker sees by itself; never waits.

        It is asked again and again, and the last workers that were asked for end a `wait` when they end. One that
        computes for long, or is stopped, is not lost.
        """

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds."""


class Mail(ABC):
    """The coordinator's side. It is sent to workers within their programs, where `post` opens it."""

    @abstractmethod
    def post(self, worker: int) -> Post:
        """Return a worker's way to the others; to be called in the worker itself, when it has its first order."""

    @abstractmethod
    def where(self) -> Any:
        """Return where all workers are now, as plain data that an order may carry, and a letter as JSON."""

    @abstractmethod
    def tell(self, worker: int, head: bytes) -> None:
        """Write to a worker; never waits. Nothing happens if it is gone."""

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds. May be called twice."""


class Correspondence(ABC):
    """What engines have in addition whose workers can write to each other."""

    @abstractmethod
    def mail(self, workers: int, length: int) -> Mail:
        """Return a mail between workers that are still to be assigned.

        Arguments:
            workers: how many; they are numbered from 0.
            length: elements of a vector, at most.

        Raises:
            NoRoom: if there is no memory for it.
        """


def correspondence(engine: Engine) -> Correspondence:
    """Return an engine as one whose workers can write to each other.

    Raises:
        EngineError: if they cannot.
    """
    if not isinstance(engine, Correspondence):
        raise EngineError(f"the workers of the engine {engine.name!r} cannot write to each other.")
    return engine
