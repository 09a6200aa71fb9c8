"""The interface between peers and whatever runs them: handlers and a port, and nothing else.

A peer's handlers are called one at a time, never concurrently; a peer acts only through its port. There are handlers
rather than generators, so that what a peer waits for is in its attributes, and its state can be saved between any two
calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from erasurehead._internal.arrays import Array


class Message(NamedTuple):
    """A message from a peer to a neighbour.

    Attributes:
        tag: kind of the message, such as `"offer"`.
        round: round of the sender, for policies that count rounds.
        data: a few plain numbers, and tuples of them.
        vector: for example a model; never changed after it was sent. None for control messages, which cost a hop and
            hardly any bytes.
    """

    tag: str
    round: int = 0
    data: tuple[Any, ...] = ()
    vector: Array | None = None

    def state(self) -> list[Any]:
        """Return the message as plain data."""
        return [self.tag, self.round, self.data, self.vector]

    @classmethod
    def restored(cls, state: Sequence[Any]) -> Message:
        """Return the message whose `state` is given."""
        return cls(str(state[0]), int(state[1]), cast("tuple[Any, ...]", tupled(state[2])), state[3])


def tupled(value: Any) -> Any:
    """Convert lists to tuples recursively, as states that were read from files have lists."""
    if isinstance(value, list | tuple):
        return tuple(tupled(item) for item in cast("Sequence[Any]", value))
    return value


class Port(ABC):
    """A peer's connection to the others. Implemented by whatever runs peers."""

    peer: int
    """The peer's number."""

    @abstractmethod
    def now(self) -> float:
        """Return the seconds since training began, by the clock that the peers of a run share."""

    @abstractmethod
    def send(self, to: int, message: Message) -> None:
        """Send a message to a neighbour. Messages of one sender arrive in order; those to dead peers are lost.

        A message with a vector may be skipped if the receiver has not read it yet when two newer ones with vectors have
        arrived from the same sender.
        """

    @abstractmethod
    def work(self, model: Array, step: int) -> None:
        """Start computing a stochastic gradient; `Peer.on_work` is called with it when it is ready.

        Arguments:
            model: the point of the gradient, which must not change until then.
            step: number from which mini-batch and delay are drawn.
        """

    @abstractmethod
    def drop_work(self) -> None:
        """Abandon what `work` started: `on_work` will not be called for it."""

    @abstractmethod
    def mixed(self, step: MixedStep) -> None:
        """Report that a step is done, for the records."""


class MixedStep(NamedTuple):
    """One step of a peer.

    Attributes:
        step: number of the peer's step, counted from 0.
        round: the round in which it mixed.
        begun: when it began to compute, in seconds since training began.
        ready: when its gradient was ready.
        links: the neighbours whose vectors it took, ascending.
        weights: their weights.
        backups: neighbours that it did not wait for.
        hops: number of consecutive messages that the decision took; 0 where nothing had to be decided.
    """

    step: int
    round: int
    begun: float
    ready: float
    links: tuple[int, ...]
    weights: tuple[float, ...]
    backups: int
    hops: int = 0


class Peer(ABC):
    """A peer, with a model and neighbours. Everything that it does happens in these handlers."""

    @abstractmethod
    def begin(self, port: Port) -> None:
        """Begin; called once, when all peers have started."""

    @abstractmethod
    def on_work(self, gradient: Array) -> None:
        """The requested gradient is ready."""

    @abstractmethod
    def on_message(self, sender: int, message: Message) -> None:
        """A message from a neighbour has arrived."""

    @abstractmethod
    def settle(self) -> None:
        """Decide, after all events up to this moment. Called after one or several other handlers."""

    @abstractmethod
    def on_change(self, gone: frozenset[int], sides: tuple[frozenset[int], ...], number: int) -> None:
        """Others have left, or come back, or the network is cut.

        A message is only delivered to peers that have heard of all changes of which its sender had heard.

        Arguments:
            gone: all peers that are gone now.
            sides: parts between which no message gets through; empty for none.
            number: ascends whenever `gone` loses a peer or `sides` change, so that a network that is again what it was
                before is told from the earlier one; among changes of one number peers only leave.
        """

    @abstractmethod
    def on_return(self, gone: frozenset[int], sides: tuple[frozenset[int], ...], number: int, port: Port) -> None:
        """This peer is back, and remembers only its graph.

        On engines with real workers it is a new object, whose `begin` was never called.

        Arguments:
            gone, sides, number: as for `on_change`.
            port: its connection to the others.
        """

    @property
    @abstractmethod
    def model(self) -> Array:
        """The current model, shape (n_parameters,)."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs to continue bit for bit, except for the port."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any], port: Port) -> None:
        """Continue from what `state` returned."""
