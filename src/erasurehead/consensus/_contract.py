"""The interface between peers and what runs them: event handlers (`Peer`) and a port through which peers act (`Port`).

The handlers of a peer are never called concurrently. They are handlers rather than coroutines, so that all state of a
peer is in its attributes, and can be saved between any two calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import Entries, PlainData
from erasurehead.consensus._graphs import Sides
from erasurehead.consensus._rows import PeerRow


class Message(NamedTuple):
    """A message from a peer to a neighbour.

    Attributes:
        tag: kind of the message, such as `"offer"`.
        round: round of the sender, for policies that have rounds.
        data: a few numbers, and tuples of them.
        vector: for example a model, which must not change after it was sent; None for control messages, which cost
            latency but hardly any bandwidth.
    """

    tag: str
    round: int = 0
    data: tuple[Any, ...] = ()
    vector: Array | None = None


def tupled(value: Any) -> Any:
    """Convert lists to tuples recursively, as JSON has no tuples."""
    if isinstance(value, list | tuple):
        return tuple(tupled(item) for item in cast("Sequence[Any]", value))
    return value


class Port(ABC):
    """What a peer can do: send messages, and compute gradients. Implemented by what runs peers."""

    peer: int
    """The peer's number."""

    @abstractmethod
    def now(self) -> float:
        """Return the seconds since training began, by the clock that all peers share."""

    @abstractmethod
    def send(self, to: int, message: Message) -> None:
        """Send a message to a neighbour.

        Messages of one sender arrive in order; those to dead peers are lost. An unread message with a vector may be
        dropped when two newer ones with vectors have arrived from the same sender.
        """

    @abstractmethod
    def work(self, model: Array, step: int) -> None:
        """Start computing a stochastic gradient; `Peer.on_work` is called with it when it is ready.

        Arguments:
            model: where the gradient is taken, shape (n_parameters,); must not change until then.
            step: number from which the mini-batch and the delay are drawn.
        """

    @abstractmethod
    def drop_work(self) -> None:
        """Abandon the gradient in progress: `on_work` will not be called for it."""

    @abstractmethod
    def mixed(self, row: PeerRow) -> None:
        """Record a step that has just ended."""


class Peer(ABC):
    """A peer: a worker with a model of its own, which acts only in these event handlers."""

    @abstractmethod
    def begin(self, port: Port) -> None:
        """Called once, when all peers have started."""

    @abstractmethod
    def on_work(self, gradient: Array) -> None:
        """Called when the requested gradient is ready."""

    @abstractmethod
    def on_message(self, sender: int, message: Message) -> None:
        """Called for each message, which tells its sender, a neighbour."""

    @abstractmethod
    def settle(self) -> None:
        """Called after the handlers of all simultaneous events, so that the peer decides with all of them known."""

    @abstractmethod
    def on_view_change(self, gone: frozenset[int], sides: Sides, number: int) -> None:
        """Called when peers have left or rejoined, or a network partition has begun or healed.

        A message is delivered only after its receiver has been told of all changes that its sender knew of.

        Arguments:
            gone: all peers that are gone now.
            sides: the sides of a network partition, between which no message gets through; empty for none.
            number: the view number. It increases with every rejoin and every change of `sides`, so that views of the
                same network before and after such a change differ. Among views with the same number, peers only leave.
        """

    @abstractmethod
    def on_rejoin(self, gone: frozenset[int], sides: Sides, number: int, port: Port) -> None:
        """Called instead of `begin` when this peer rejoins after a crash, without any of its state but the graph.

        On engines with real workers it is called on a new object.

        Arguments:
            gone, sides, number: as for `on_view_change`.
            port: the peer's new port.
        """

    @property
    @abstractmethod
    def model(self) -> Array:
        """The current model, shape (n_parameters,)."""

    @abstractmethod
    def state(self) -> PlainData:
        """Return everything that `restore` needs to continue bit for bit, as plain data; without the port."""

    @abstractmethod
    def restore(self, state: Entries, port: Port) -> None:
        """Continue from what `state` returned, with a new port."""
