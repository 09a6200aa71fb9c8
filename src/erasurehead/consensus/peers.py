"""The common part of all peers, whatever they wait for: model, work, measured speed, leaving and coming back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.consensus.algorithms import Algorithm, Memory
from erasurehead.consensus.contract import Message, MixedStep, Peer, Port
from erasurehead.consensus.mixing import Mixing, mixed
from erasurehead.consensus.views import View
from erasurehead.optimizers.schedules import Schedule

_MEMORY_OF_SPEED = 0.3
"""Weight of the newest step in a peer's measured speed."""


@dataclass(frozen=True)
class Setup:
    """What a peer is constructed from.

    Attributes:
        peer: its number.
        view: the view of the network.
        mixing: the mixing for that view.
        algorithm: how its model moves.
        rate: step size by the peer's own steps.
        x: its first model, the same for all.
        preempt: whether work that nobody waits for any more is dropped; otherwise it is finished.
        seed: seed of the policy's random choices.
        policy: the policy of the peer.
        steps: number of steps it has taken before; more than 0 for a peer that has come back on a new worker.
    """

    peer: int
    view: View
    mixing: Mixing
    algorithm: Algorithm
    rate: Schedule
    x: Array
    preempt: bool = False
    seed: int = 0
    policy: Any = None
    steps: int = 0


class LocalPeer(Peer):
    """A peer that computes, offers its result, and mixes when its policy says so.

    The peer of your own policy implements `offer`, `on_message` and `settle`, calls `finish` with the realised links,
    and lists the attributes that it remembers in `kept`.
    """

    kept: tuple[str, ...] = ()
    """Attributes, plain data and arrays, that a checkpoint must hold in addition to those of every peer."""

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
        self.usual = float("nan")
        self.vector: Array = setup.x
        self.awaited: dict[int, tuple[int, Array | None]] = {}  # after coming back: neighbours' rounds and models
        self.joining = False

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
        took = now - self.begun
        self.usual = took if self.usual != self.usual else self.usual + _MEMORY_OF_SPEED * (took - self.usual)
        self.vector = self.algorithm.step(self.memory, gradient, self.setup.rate(self.steps))
        self.offer()

    @abstractmethod
    def offer(self) -> None:
        """Offer the new `vector` to the neighbours."""

    def pace(self) -> float:
        """Return the measured seconds of a step; at least those of the current step so far."""
        elapsed = 0.0 if self.ready is not None else self.port.now() - self.begun
        return elapsed if self.usual != self.usual or elapsed > self.usual else self.usual

    def finish(self, links: Sequence[tuple[int, float, Array]], round: int, hops: int = 0) -> None:
        """Mix, record the step, and start the next one.

        Arguments:
            links: neighbour, weight and vector of each realised link, ascending.
            round: the round of the mixing.
            hops: number of consecutive messages that the decision took.
        """
        assert self.ready is not None
        if links:
            made = mixed(self.vector, self.peer, links)
            self.algorithm.adopt(self.memory, made, self.setup.rate(self.steps))
        else:
            self.algorithm.adopt(self.memory, self.vector, self.setup.rate(self.steps))
        step = MixedStep(
            self.steps, round, self.begun, self.ready, tuple([link[0] for link in links]),
            tuple([link[1] for link in links]), len(self.neighbours) - len(links), hops,
        )  # fmt: skip
        self.steps += 1
        self.port.mixed(step)
        self.start()

    def look(self, gone: frozenset[int], sides: tuple[frozenset[int], ...], number: int) -> tuple[int, ...]:
        """Adopt a new view of the network, and return the neighbours that are gone."""
        before = self.neighbours
        self.view = self.view.changed(gone, sides, number)
        self.neighbours = self.view.neighbours[self.peer]
        self.mixing = self.setup.mixing.on(self.view.graph, self.view.links)
        return tuple(peer for peer in before if peer not in self.neighbours)

    def on_change(self, gone: frozenset[int], sides: tuple[frozenset[int], ...], number: int) -> None:
        lost = self.look(gone, sides, number)
        if self.joining:
            for peer in lost:
                self.awaited.pop(peer, None)
            self._join()
            return
        for peer in lost:
            self.forget(peer)
        for peer in self.neighbours:
            self.repeat(peer)

    def repeat(self, peer: int) -> None:
        """Repeat to a neighbour what holds: it is new, or messages from before a change may have been lost.

        Called for all neighbours after each change. Hearing something twice must change nothing.
        """
        return

    def forget(self, peer: int) -> None:
        """A neighbour is gone: do not wait for anything from it."""
        return

    def on_return(self, gone: frozenset[int], sides: tuple[frozenset[int], ...], number: int, port: Port) -> None:
        self.port = port
        self.look(gone, sides, number)
        for name, value in vars(type(self)(self.setup)).items():  # everything that it was about to do is dropped
            if name in self.kept:
                setattr(self, name, value)
        self.ready, self.joining = None, True
        self.awaited = dict.fromkeys(self.neighbours, (-1, None))
        for peer in self.neighbours:
            self.port.send(peer, Message("join"))
        self._join()

    def joined(self, sender: int, message: Message) -> bool:
        """Serve peers that come back; return whether the message was about that."""
        if message.tag == "join":
            self.port.send(sender, Message("model", self.round, (), self.model))
            return True
        if message.tag == "model":
            if self.joining and sender in self.awaited:
                self.awaited[sender] = (message.round, message.vector)
                self._join()
            return True
        if self.joining and message.vector is not None and self.awaited.get(sender, (0, message))[1] is None:
            self.port.send(sender, Message("join"))  # newer vectors may have replaced the requested model
        return False

    def _join(self) -> None:
        """Start over at the mean of the neighbours' models, when all of them have arrived."""
        models = [vector for _, (_, vector) in sorted(self.awaited.items())]
        if any(vector is None for vector in models):
            return
        if models:
            self.memory = self.algorithm.begin(np.mean(np.array(models), axis=0))
            self.round = max(self.round, *(round for round, _ in self.awaited.values()))
        self.joining, self.awaited = False, {}
        self.start()

    _COMMON = ("round", "steps", "attempts", "begun", "ready", "usual", "vector", "joining")

    def state(self) -> dict[str, Any]:
        kept = {name: _plain(getattr(self, name)) for name in (*self._COMMON, *self.kept)}
        awaited = [[peer, round, vector] for peer, (round, vector) in self.awaited.items()]
        return {
            "kept": kept, "memory": dict(self.memory), "awaited": awaited, "gone": sorted(self.view.gone),
            "sides": [sorted(side) for side in self.view.sides], "number": self.view.number,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any], port: Port) -> None:
        self.port = port
        gone, sides = frozenset(state["gone"]), tuple(frozenset(side) for side in state["sides"])
        if state["number"]:
            self.look(gone, sides, int(state["number"]))
        for name, value in state["kept"].items():
            setattr(self, name, _lively(value))
        self.memory = {name: np.asarray(vector) for name, vector in state["memory"].items()}
        if self.vector.shape == self.memory["x"].shape and (self.vector == self.memory["x"]).all():
            self.vector = self.memory["x"]
        self.awaited = {int(peer): (int(round), vector) for peer, round, vector in state["awaited"]}


_MAP, _SET, _TUPLE = "map", "set", "tuple"


def _plain(value: Any) -> Any:
    """Convert what peers remember to plain data that preserves mappings with numbers as keys, sets and tuples."""
    if isinstance(value, dict):
        return {_MAP: [[_plain(key), _plain(item)] for key, item in value.items()]}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, frozenset | set):
        return {_SET: [_plain(item) for item in sorted(value)]}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, tuple):
        return {_TUPLE: [_plain(item) for item in value]}  # pyright: ignore[reportUnknownVariableType]
    return value


def _lively(value: Any) -> Any:
    if isinstance(value, Mapping):
        (kind, items), *_ = value.items()  # pyright: ignore[reportUnknownVariableType]
        if kind == _MAP:
            return {_lively(key): _lively(item) for key, item in items}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        inner = [_lively(item) for item in items]  # pyright: ignore[reportUnknownVariableType]
        return frozenset(inner) if kind == _SET else tuple(inner)
    return value
