"""The base class of all peers, whatever their policy: model, gradients, measured speed, view changes and rejoins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.resumable import as_present, from_plain, to_plain
from erasurehead.consensus._algorithms import Algorithm, Memory
from erasurehead.consensus._contract import Message, Peer, Port
from erasurehead.consensus._graphs import Sides
from erasurehead.consensus._mixing import Mixing, mixed
from erasurehead.consensus._rows import PeerRow
from erasurehead.consensus._views import NetworkView
from erasurehead.optimizers import Schedule

_SMOOTHING = 0.3
"""Weight of the newest step in the moving average of the seconds per step."""


@dataclass(frozen=True)
class Setup:
    """The arguments from which a peer is constructed.

    Attributes:
        peer: number of the peer.
        view: its first view of the network.
        mixing: the mixing weights for that view.
        algorithm: how its model moves.
        rate: step size by the peer's own steps.
        x: its first model, shape (n_parameters,); the same for all peers.
        preempt: whether a gradient that nobody waits for any more is dropped; otherwise it is finished.
        seed: seed of the policy's random choices.
        policy: its policy.
        steps: number of steps that its earlier incarnations have taken; 0 if it has not crashed.
    """

    peer: int
    view: NetworkView
    mixing: Mixing
    algorithm: Algorithm
    rate: Schedule
    x: Array
    preempt: bool = False
    seed: int = 0
    policy: Any = None
    steps: int = 0


class LocalPeer(Peer):
    """A peer that computes a gradient, offers the resulting vector, and mixes when its policy says so.

    The peer of a policy of your own implements `offer`, `on_message` and `settle`, calls `finish` with the realised
    links, and lists the attributes that are part of its state in `checkpointed`. Its `setup` is made by the run.
    """

    checkpointed: tuple[str, ...] = ()
    """Names of further attributes, plain data and arrays, that a checkpoint must contain."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.peer = setup.peer
        self.view = setup.view
        self.mixing = setup.mixing
        self.algorithm = setup.algorithm
        self.neighbours: tuple[int, ...] = setup.view.neighbours[setup.peer]
        self.memory: Memory = setup.algorithm.begin(setup.x)
        self.round = 0
        self.steps = self.attempts = setup.steps
        self.begun = 0.0
        self.ready: float | None = None
        self.mean_seconds = float("nan")
        self.vector: Array = setup.x
        self.pending_models: dict[int, tuple[int, Array | None]] = {}  # of a rejoin: neighbours' rounds and models
        self.rejoining = False

    @property
    def model(self) -> Array:
        return self.memory["x"]

    def begin(self, port: Port) -> None:
        self.port = port
        self.start()

    def start(self) -> None:
        """Start the next gradient."""
        self.begun, self.ready = self.port.now(), None
        self.attempts += 1
        self.port.work(self.memory["x"], self.attempts - 1)

    def on_work(self, gradient: Array) -> None:
        self.ready = now = self.port.now()
        took, mean = now - self.begun, self.mean_seconds
        self.mean_seconds = took if mean != mean else mean + _SMOOTHING * (took - mean)
        self.vector = self.algorithm.step(self.memory, gradient, self.setup.rate(self.steps))
        self.offer()

    @abstractmethod
    def offer(self) -> None:
        """Offer the new `vector` to the neighbours."""

    def pace(self) -> float:
        """Return the measured seconds of a gradient: a moving average, or those of the current one if more."""
        elapsed = 0.0 if self.ready is not None else self.port.now() - self.begun
        return elapsed if self.mean_seconds != self.mean_seconds or elapsed > self.mean_seconds else self.mean_seconds

    def finish(self, links: Sequence[tuple[int, float, Array]], round: int, hops: int = 0) -> None:
        """Mix, record the step, and start the next one.

        Arguments:
            links: neighbour, weight and vector of each realised link, ascending by neighbour.
            round: the round in which it mixes.
            hops: number of consecutive messages that the decision took.
        """
        assert self.ready is not None
        if links:
            average = mixed(self.vector, self.peer, links)
            self.algorithm.adopt(self.memory, average, self.setup.rate(self.steps))
        else:
            self.algorithm.adopt(self.memory, self.vector, self.setup.rate(self.steps))
        row = PeerRow(
            self.peer,
            self.steps,
            round,
            self.begun,
            self.ready,
            self.port.now(),
            [link[0] for link in links],
            [link[1] for link in links],
            len(self.neighbours) - len(links),
            hops,
        )
        self.steps += 1
        self.port.mixed(row)
        self.start()

    def adopt_view(self, gone: frozenset[int], sides: Sides, number: int) -> tuple[int, ...]:
        """Adopt a new view of the network.

        Arguments:
            gone, sides, number: as for `on_view_change`.

        Returns:
            The former neighbours that are no longer neighbours, ascending.
        """
        before = self.neighbours
        self.view = self.view.changed(gone, sides, number)
        self.neighbours = self.view.neighbours[self.peer]
        self.mixing = self.setup.mixing.on(self.view.graph, self.view.links)
        return tuple(peer for peer in before if peer not in self.neighbours)

    def on_view_change(self, gone: frozenset[int], sides: Sides, number: int) -> None:
        lost = self.adopt_view(gone, sides, number)
        if self.rejoining:
            for peer in lost:
                self.pending_models.pop(peer, None)
            self._finish_rejoin()
            return
        for peer in lost:
            self.on_neighbour_gone(peer)
        for peer in self.neighbours:
            self.resend(peer)

    def resend(self, peer: int) -> None:
        """Resend to a neighbour what still holds, such as the current offer.

        Called for each neighbour after each view change, as it may be new, or earlier messages may have been lost.
        Handling a message twice must change nothing.
        """
        return

    def on_neighbour_gone(self, peer: int) -> None:
        """Stop waiting for a peer that is no longer a neighbour."""
        return

    def on_rejoin(self, gone: frozenset[int], sides: Sides, number: int, port: Port) -> None:
        self.port = port
        self.adopt_view(gone, sides, number)
        for name, value in vars(type(self)(self.setup)).items():  # the policy's state is reset
            if name in self.checkpointed:
                setattr(self, name, value)
        self.ready, self.rejoining = None, True
        self.pending_models = dict.fromkeys(self.neighbours, (-1, None))
        for peer in self.neighbours:
            self.port.send(peer, Message("join"))
        self._finish_rejoin()

    def handle_rejoin(self, sender: int, message: Message) -> bool:
        """Handle a message of the rejoin protocol from its sender; return whether it was one.

        A peer that rejoins asks its neighbours for their models by `join`, which they answer by `model`.
        """
        if message.tag == "join":
            self.port.send(sender, Message("model", self.round, (), self.model))
            return True
        if message.tag == "model":
            if self.rejoining and sender in self.pending_models:
                self.pending_models[sender] = (message.round, message.vector)
                self._finish_rejoin()
            return True
        if self.rejoining and message.vector is not None and self.pending_models.get(sender, (0, message))[1] is None:
            self.port.send(sender, Message("join"))  # newer vectors may have replaced the requested model
        return False

    def _finish_rejoin(self) -> None:
        """Once the models of all neighbours have arrived, start training at their mean."""
        models = [vector for _, (_, vector) in sorted(self.pending_models.items())]
        if any(vector is None for vector in models):
            return
        if models:
            self.memory = self.algorithm.begin(np.mean(np.array(models), axis=0))
            self.round = max(self.round, *(round for round, _ in self.pending_models.values()))
        self.rejoining, self.pending_models = False, {}
        self.start()

    _COMMON = ("round", "steps", "attempts", "begun", "ready", "mean_seconds", "vector", "rejoining", "pending_models")

    def state(self) -> PlainData:
        view = self.view
        return {
            "attributes": {name: to_plain(getattr(self, name)) for name in (*self._COMMON, *self.checkpointed)},
            "memory": dict(self.memory),
            "view": to_plain((view.gone, view.sides, view.number)),
        }

    def restore(self, state: Entries, port: Port) -> None:
        self.port = port
        gone, sides, number = from_plain(state["view"])
        if number:
            self.adopt_view(gone, sides, number)
        self.vector = self.algorithm.vector(self.memory)
        for name in (*self._COMMON, *self.checkpointed):
            setattr(self, name, as_present(name, from_plain(state["attributes"][name]), getattr(self, name)))
        self.memory = {name: as_present(name, state["memory"][name], vector) for name, vector in self.memory.items()}
        if self.vector.shape == self.memory["x"].shape and (self.vector == self.memory["x"]).all():
            self.vector = self.memory["x"]
