"""What a peer and an engine for peers agree on: handlers and a port, and nothing else.

An engine calls a peer's handlers one at a time and never twice at once; a peer acts through its port alone. Handlers
rather than generators: what a peer waits for is in its attributes, so that its state can be saved between any two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from erasurehead._internal.arrays import Array


class Message(NamedTuple):
    """What a peer sends to a neighbour.

    Attributes:
        tag: what it is, such as `"offer"`.
        round: of the sender, for those that count rounds.
        data: a few plain numbers, and tuples of them.
        vector: a model, say; never changed after it was sent. None for control messages, which cost a hop and hardly
            any bytes.
    """

    tag: str
    round: int = 0
    data: tuple[Any, ...] = ()
    vector: Array | None = None

    def state(self) -> list[Any]:
        """Return it as plain data."""
        return [self.tag, self.round, self.data, self.vector]

    @classmethod
    def restored(cls, state: Sequence[Any]) -> Message:
        """Return the message that `state` was of."""
        return cls(str(state[0]), int(state[1]), cast("tuple[Any, ...]", tupled(state[2])), state[3])


def tupled(value: Any) -> Any:
    """Return lists as tuples, however deep, as states that were read back have lists."""
    if isinstance(value, list | tuple):
        return tuple(tupled(item) for item in cast("Sequence[Any]", value))
    return value


class Port(ABC):
    """A peer's way to the world. An engine of your own implements it."""

    peer: int
    """The peer's number."""

    @abstractmethod
    def now(self) -> float:
        """Return the seconds since training began, by the clock that peers of one run share."""

    @abstractmethod
    def send(self, to: int, message: Message) -> None:
        """Send a message to a neighbour. Messages of one sender arrive in their order; those to the dead are lost.

        A peer that reads late need not be shown a message with a vector that two newer ones of the same sender have
        overtaken.
        """

    @abstractmethod
    def work(self, model: Array, step: int) -> None:
        """Begin on a stochastic gradient; `Peer.on_work` is called with it when it is there.

        Arguments:
            model: where, which is not changed before then.
            step: that mini-batch and delay are drawn from.
        """

    @abstractmethod
    def drop_work(self) -> None:
        """Give up what `work` began on: it will not be told of."""

    @abstractmethod
    def mixed(self, step: MixedStep) -> None:
        """Say that a step is done, for the records."""


class MixedStep(NamedTuple):
    """One step of a peer.

    Attributes:
        step: of the peer, counted from 0.
        round: the round that it mixed in.
        begun: when it began to compute, in seconds since training began.
        ready: when its gradient was there.
        links: the neighbours whose vectors it took, ascending.
        weights: of them.
        backups: neighbours that it did not wait for.
        hops: of messages that the decision took, one after the other; 0 where nothing had to be decided.
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
    """One who has a model and neighbours. All that it does, it does in these handlers."""

    @abstractmethod
    def begin(self, port: Port) -> None:
        """Begin: to be called once, when all peers have started."""

    @abstractmethod
    def on_work(self, gradient: Array) -> None:
        """The gradient that was asked for is there."""

    @abstractmethod
    def on_message(self, sender: int, message: Message) -> None:
        """A message of a neighbour has come."""

    @abstractmethod
    def settle(self) -> None:
        """Decide: everything that had come by this moment has been told. Called after one or several other handlers."""

    @abstractmethod
    def on_change(self, gone: frozenset[int], sides: tuple[frozenset[int], ...]) -> None:
        """Others have left, or come back, or the network is cut.

        Arguments:
            gone: all who are gone now.
            sides: parts between which no message gets through; empty for none.
        """

    @abstractmethod
    def on_return(self, gone: frozenset[int], sides: tuple[frozenset[int], ...], port: Port) -> None:
        """This peer is back, with nothing but the memory of its graph.

        On engines with real workers it is a new object, whose `begin` was never called.

        Arguments:
            gone, sides: as for `on_change`.
            port: its way to the world.
        """

    @property
    @abstractmethod
    def model(self) -> Array:
        """The current model, shape (n_parameters,)."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs to continue to the bit, but for the port."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any], port: Port) -> None:
        """Continue from a state."""
